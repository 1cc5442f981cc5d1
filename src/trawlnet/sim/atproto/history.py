"""What the directory holds about an account: its signed operations, from genesis to now."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from trawlnet.atproto.cid import cid_of
from trawlnet.atproto.dagcbor import encode, head
from trawlnet.atproto.identity.keys import Signer
from trawlnet.atproto.identity.plc import did_of_signed
from trawlnet.sim.atproto.accounts import FIRST_DAY_MS, Account, AccountStatus, Story
from trawlnet.sim.atproto.plan import WorldPlan

# Neighbours share a timestamp, so that a page of an export may end between equals.
_SLOTS_PER_INSTANT = 3
_INSTANT_MS = 21_003
_SLASH_SHARE = 0.05  # Of endpoints that end with a slash.
_JUNK = ("", "not a url", "ftp://127.0.0.1", "https://")


@dataclass(frozen=True, slots=True)
class OperationStep:
    operation: dict[str, Any]
    signed: bytes  # The operation in DAG-CBOR.
    slot: int  # Its place in time; several steps may share one.
    nullified: bool = False

    @property
    def cid(self) -> str:
        return str(cid_of(self.signed))

    @property
    def created_at(self) -> str:
        return iso_time(FIRST_DAY_MS + self.slot // _SLOTS_PER_INSTANT * _INSTANT_MS)


def iso_time(ms: int) -> str:
    moment = datetime.fromtimestamp(ms / 1000, UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{ms % 1000:03}Z"


def did_at_genesis(plan: WorldPlan, account: Account) -> str:
    return did_of_signed(_genesis(plan, account).signed)


def history(plan: WorldPlan, account: Account) -> Sequence[OperationStep]:
    """In the order of the directory's log; later steps may have nullified earlier ones."""
    first = _genesis(plan, account)
    signing, _, recovery, server = account.keys
    now = endpoint_of(plan, account)
    second_slot = account.index + _SLOTS_PER_INSTANT * (1 + int(account.luck * 40))
    if account.changed_ms is not None:
        instant = (account.changed_ms - FIRST_DAY_MS) // _INSTANT_MS
        second_slot = max(second_slot, instant * _SLOTS_PER_INSTANT)
    third_slot = second_slot + _SLOTS_PER_INSTANT
    update = _operation(account, account.handle, signing.did_key, now, first.cid)
    match account.story:
        case Story.MOVED | Story.ROTATED:
            return first, _step(update, server, second_slot)
        case Story.LEGACY_UPDATED:
            return first, _step(update, signing, second_slot)
        case Story.BURIED:
            return first, _step(_tombstone(first.cid), server, second_slot)
        case Story.REVIVED:
            undone = _step(_tombstone(first.cid), server, second_slot, nullified=True)
            return first, undone, _step(update, recovery, third_slot)
        case Story.RECOVERED:
            theft = _operation(
                account, "thief.test", server.did_key, _elsewhere(plan, account), first.cid
            )
            undone = _step(theft, server, second_slot, nullified=True)
            return first, undone, _step(update, recovery, third_slot)
        case _:
            return (first,)


def steps_of(account: Account) -> Sequence[int]:
    """The slots of an account's steps, without making them."""
    second = account.index + _SLOTS_PER_INSTANT * (1 + int(account.luck * 40))
    match account.story:
        case Story.PLAIN | Story.LEGACY:
            return (account.index,)
        case Story.REVIVED | Story.RECOVERED:
            return (account.index, second, second + _SLOTS_PER_INSTANT)
        case _:
            return (account.index, second)


def endpoint_of(plan: WorldPlan, account: Account) -> str:
    """As its owner wrote it, which is not always as it should be."""
    if account.status is AccountStatus.JUNK:
        return _JUNK[int(account.luck * len(_JUNK))]
    url = plan.hosts[account.host].url
    return url + "/" if account.luck < _SLASH_SHARE else url


def _elsewhere(plan: WorldPlan, account: Account) -> str:
    return plan.hosts[(account.host + 1) % len(plan.hosts)].url


def _genesis(plan: WorldPlan, account: Account) -> OperationStep:
    signing, former, _, server = account.keys
    endpoint = endpoint_of(plan, account)
    key = former if account.story is Story.ROTATED else signing
    if account.story in (Story.LEGACY, Story.LEGACY_UPDATED):
        return _step(_legacy(account, endpoint), signing, account.index)
    if account.former_host is not None:
        endpoint = plan.hosts[account.former_host].url
    operation = _operation(account, account.handle, key.did_key, endpoint, None)
    return _step(operation, server, account.index)


def _operation(
    account: Account, handle: str, key: str, endpoint: str, prev: str | None
) -> dict[str, Any]:
    _, _, recovery, server = account.keys
    rotation = [recovery.did_key, server.did_key]
    if account.story is Story.LEGACY_UPDATED:
        rotation = [recovery.did_key, account.keys[0].did_key]
    # Fields in the order of the directory's database: shorter names first.
    return {
        "prev": prev,
        "type": "plc_operation",
        "services": {
            "atproto_pds": {"type": "AtprotoPersonalDataServer", "endpoint": endpoint},
        },
        "alsoKnownAs": [f"at://{handle}"],
        "rotationKeys": rotation,
        "verificationMethods": {"atproto": key},
    }


def _legacy(account: Account, endpoint: str) -> dict[str, Any]:
    return {
        "prev": None,
        "type": "create",
        "handle": account.handle,
        "service": endpoint,
        "signingKey": account.keys[0].did_key,
        "recoveryKey": account.keys[2].did_key,
    }


def _tombstone(prev: str) -> dict[str, Any]:
    return {"prev": prev, "type": "plc_tombstone"}


def _step(
    operation: dict[str, Any], key: Signer, slot: int, *, nullified: bool = False
) -> OperationStep:
    unsigned = encode(operation)
    sig = urlsafe_b64encode(key.sign(unsigned)).rstrip(b"=").decode("ascii")
    # No field has a shorter name, so the signature comes first and the rest need not be redone.
    signed = b"".join((head(5, len(operation) + 1), encode("sig"), encode(sig), unsigned[1:]))
    return OperationStep({"sig": sig, **operation}, signed, slot, nullified)
