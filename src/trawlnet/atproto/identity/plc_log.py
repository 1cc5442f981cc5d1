"""Logs of PLC operations, folded and checked by the specification: who trusts no directory asks
here, and the tests of the mirror do."""

from __future__ import annotations

from base64 import urlsafe_b64decode
from binascii import Error as BadBase64
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from trawlnet.atproto.cid import Cid, cid_of
from trawlnet.atproto.dagcbor import encode
from trawlnet.atproto.identity.keys import parse_did_key
from trawlnet.atproto.identity.plc import (
    LogEntry,
    Operation,
    PlcState,
    did_of_signed,
    state_after,
)
from trawlnet.malformed import Malformed

# A key of higher rank may undo what a lower one did, but not for ever.
RECOVERY_WINDOW = timedelta(hours=72)


@dataclass(frozen=True, slots=True)
class FoldedLog:
    state: PlcState
    nullified: frozenset[str]  # CIDs of operations that later ones undid.


def operation_cid(operation: Operation) -> Cid:
    return cid_of(encode(dict(operation)))


def did_of_genesis(operation: Operation) -> str:
    return did_of_signed(encode(dict(operation)))


def fold_log(did: str, log: Sequence[LogEntry]) -> FoldedLog:
    """Follow the chain of `prev`; an operation that goes back undoes all that came after.

    Only the order and the links of the log are used: a directory that is trusted to have checked
    the signatures is mirrored this way. `check_log` trusts nobody."""
    alive: list[LogEntry] = []
    nullified: set[str] = set()
    for entry in log:
        place = _alive_before(alive, entry)
        nullified.update(undone.cid for undone in alive[place:])
        alive[place:] = [entry]
    if not alive:
        raise Malformed("an empty log")
    return FoldedLog(state_after(did, alive[-1].operation), frozenset(nullified))


def check_log(did: str, log: Sequence[LogEntry]) -> FoldedLog:
    """Fold a log after checking every name, signature, rank and time in it."""
    alive: list[LogEntry] = []
    for entry in log:
        if str(operation_cid(entry.operation)) != entry.cid:
            raise Malformed(f"operation {entry.cid[:80]} has another CID than it claims")
        place = _alive_before(alive, entry)
        if place:
            _check_next(alive[place - 1], alive[place:], entry)
        else:
            _check_genesis(did, entry.operation)
        alive[place:] = [entry]
    return fold_log(did, log)


def _alive_before(alive: Sequence[LogEntry], entry: LogEntry) -> int:
    """How many of the operations still stand when `entry` is added to them."""
    prev = entry.operation.get("prev")
    if prev is None and not alive:
        return 0
    for index in range(len(alive) - 1, -1, -1):
        if alive[index].cid == prev:
            return index + 1
    raise Malformed(f"operation {entry.cid[:80]} follows one that is not in the log")


def _check_genesis(did: str, operation: Operation) -> None:
    if did_of_genesis(operation) != did:
        raise Malformed(f"the first operation is not that of {did[:80]}")
    state = state_after(did, operation)
    if state.tombstoned:
        raise Malformed("a log that starts with a tombstone")
    _signer(operation, state.rotation_keys)


def _check_next(before: LogEntry, undone: Sequence[LogEntry], entry: LogEntry) -> None:
    state = state_after(entry.did, before.operation)
    if state.tombstoned:
        raise Malformed("an operation after a tombstone")
    state_after(entry.did, entry.operation)
    keys = state.rotation_keys
    if undone:
        # Only a key that outranks the one used then may undo, and only within the window.
        keys = keys[: keys.index(_signer(undone[0].operation, keys))]
        if _instant(entry) - _instant(undone[0]) > RECOVERY_WINDOW:
            raise Malformed("an operation that undoes another too late")
    _signer(entry.operation, keys)


def _signer(operation: Operation, keys: Sequence[str]) -> str:
    """Which of the keys signed; the first one in their order of rank."""
    signature = _signature(operation)
    message = encode(without_sig(operation))
    for key in keys:
        if parse_did_key(key).verifies(signature, message):
            return key
    raise Malformed("an operation that none of the keys allowed has signed")


def _signature(operation: Operation) -> bytes:
    text = operation.get("sig")
    if not isinstance(text, str):
        raise Malformed("a PLC operation without sig")
    try:
        return urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except (BadBase64, ValueError):
        raise Malformed("a signature that is not base64url") from None


def without_sig(operation: Operation) -> dict[str, Any]:
    return {name: value for name, value in operation.items() if name != "sig"}


def _instant(entry: LogEntry) -> datetime:
    try:
        return datetime.fromisoformat(entry.created_at)
    except ValueError:
        raise Malformed(f"not a time: {entry.created_at[:40]!r}") from None
