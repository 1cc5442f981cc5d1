"""PLC operations: signing, naming, and folding a log of them into what a DID stands for now."""

from __future__ import annotations

from base64 import urlsafe_b64decode, urlsafe_b64encode
from binascii import Error as BadBase64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Any

from trawlnet.atproto.cid import Cid, base32, cid_of
from trawlnet.atproto.dagcbor import encode
from trawlnet.atproto.identity.keys import Signer, parse_did_key
from trawlnet.malformed import Malformed

Operation = Mapping[str, Any]

# A key of higher rank may undo what a lower one did, but not for ever.
RECOVERY_WINDOW = timedelta(hours=72)


@dataclass(frozen=True, slots=True)
class LogEntry:
    """One operation as a directory's log or export tells it."""

    did: str
    cid: str
    operation: Operation
    created_at: str
    seq: int | None = None  # Only in the sequence form of the export.
    nullified: bool | None = None  # Only in the older form and in audit logs.


@dataclass(frozen=True, slots=True)
class PlcState:
    """What a DID stands for; nothing at all once it is tombstoned."""

    did: str
    rotation_keys: Sequence[str] = ()
    verification_methods: Mapping[str, str] | None = None
    also_known_as: Sequence[str] = ()
    services: Mapping[str, Mapping[str, str]] | None = None
    tombstoned: bool = False

    @property
    def pds(self) -> str | None:
        """The endpoint as its owner wrote it."""
        endpoint = (self.services or {}).get("atproto_pds", {}).get("endpoint")
        return endpoint if isinstance(endpoint, str) else None


@dataclass(frozen=True, slots=True)
class FoldedLog:
    state: PlcState
    nullified: frozenset[str]  # CIDs of operations that later ones undid.


def sign_operation(operation: Operation, key: Signer) -> dict[str, Any]:
    signature = urlsafe_b64encode(key.sign(encode(_without_sig(operation)))).rstrip(b"=")
    return {**operation, "sig": signature.decode("ascii")}


def operation_cid(operation: Operation) -> Cid:
    return cid_of(encode(dict(operation)))


def did_of_genesis(operation: Operation) -> str:
    return did_of_signed(encode(dict(operation)))


def did_of_signed(genesis: bytes) -> str:
    """The DID that a signed first operation, in DAG-CBOR, brings into being."""
    return "did:plc:" + base32(sha256(genesis).digest())[:24]


def parse_log_line(row: Any) -> LogEntry:
    """One line of an export (either form) or one element of an audit log, after JSON."""
    if not isinstance(row, dict) or not isinstance(row.get("operation"), dict):
        raise Malformed("an export line without an operation")
    did, cid, created_at = row.get("did"), row.get("cid"), row.get("createdAt")
    seq, nullified = row.get("seq"), row.get("nullified")
    if not isinstance(did, str) or not isinstance(cid, str) or not isinstance(created_at, str):
        raise Malformed("an export line without did, cid or createdAt")
    if not (seq is None or type(seq) is int) or not (nullified is None or type(nullified) is bool):
        raise Malformed("an export line whose seq or nullified is of the wrong type")
    return LogEntry(did, cid, row["operation"], created_at, seq, nullified)


def state_after(did: str, operation: Operation) -> PlcState:
    """What one operation makes of a DID: each one replaces the whole state."""
    match operation.get("type"):
        case "plc_tombstone":
            return PlcState(did, tombstoned=True)
        case "create":
            signing = _text(operation, "signingKey")
            endpoint = _text(operation, "service")
            if not endpoint.startswith(("http://", "https://")):
                endpoint = "https://" + endpoint
            return PlcState(
                did,
                rotation_keys=(_text(operation, "recoveryKey"), signing),
                verification_methods={"atproto": signing},
                also_known_as=("at://" + _text(operation, "handle").removeprefix("at://"),),
                services={
                    "atproto_pds": {"type": "AtprotoPersonalDataServer", "endpoint": endpoint}
                },
            )
        case "plc_operation":
            return PlcState(
                did,
                rotation_keys=_texts(operation, "rotationKeys"),
                verification_methods=_mapping(operation, "verificationMethods"),
                also_known_as=_texts(operation, "alsoKnownAs"),
                services=_services(operation),
            )
        case other:
            raise Malformed(f"a PLC operation of type {str(other)[:80]!r}")


def fold_log(did: str, log: Sequence[LogEntry]) -> FoldedLog:
    """Follow the chain of `prev`; an operation that goes back undoes all that came after.

    Only the order and the links of the log are used: a directory that is trusted to have checked
    the signatures is mirrored this way. `check_log` trusts nobody."""
    alive: list[LogEntry] = []
    nullified: set[str] = set()
    for entry in log:
        kept = _kept(alive, entry)
        nullified.update(undone.cid for undone in alive[kept:])
        alive[kept:] = [entry]
    if not alive:
        raise Malformed("an empty log")
    return FoldedLog(state_after(did, alive[-1].operation), frozenset(nullified))


def check_log(did: str, log: Sequence[LogEntry]) -> FoldedLog:
    """Fold a log after checking every name, signature, rank and time in it."""
    alive: list[LogEntry] = []
    for entry in log:
        if str(operation_cid(entry.operation)) != entry.cid:
            raise Malformed(f"operation {entry.cid[:80]} has another CID than it claims")
        kept = _kept(alive, entry)
        if kept:
            _check_next(alive[kept - 1], alive[kept:], entry)
        else:
            _check_genesis(did, entry.operation)
        alive[kept:] = [entry]
    return fold_log(did, log)


def _kept(alive: Sequence[LogEntry], entry: LogEntry) -> int:
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
    message = encode(_without_sig(operation))
    for key in keys:
        if parse_did_key(key).verifies(signature, message):
            return key
    raise Malformed("an operation that none of the keys allowed has signed")


def _signature(operation: Operation) -> bytes:
    text = _text(operation, "sig")
    try:
        return urlsafe_b64decode(text + "=" * (-len(text) % 4))
    except (BadBase64, ValueError):
        raise Malformed("a signature that is not base64url") from None


def _without_sig(operation: Operation) -> dict[str, Any]:
    return {name: value for name, value in operation.items() if name != "sig"}


def _instant(entry: LogEntry) -> datetime:
    try:
        return datetime.fromisoformat(entry.created_at)
    except ValueError:
        raise Malformed(f"not a time: {entry.created_at[:40]!r}") from None


def _text(operation: Operation, name: str) -> str:
    value = operation.get(name)
    if not isinstance(value, str):
        raise Malformed(f"a PLC operation without {name}")
    return value


def _texts(operation: Operation, name: str) -> tuple[str, ...]:
    value = operation.get(name)
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise Malformed(f"a PLC operation whose {name} is not a list of strings")
    return tuple(value)


def _mapping(operation: Operation, name: str) -> dict[str, str]:
    value = operation.get(name)
    if not isinstance(value, dict):
        raise Malformed(f"a PLC operation whose {name} is not a map")
    return value


def _services(operation: Operation) -> dict[str, dict[str, str]]:
    services: dict[str, Any] = dict(_mapping(operation, "services"))
    if not all(isinstance(service, dict) for service in services.values()):
        raise Malformed("a PLC operation with a service that is not a map")
    return services
