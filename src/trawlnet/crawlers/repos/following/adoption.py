"""What a visit brought, as events: the difference to what was published before. For a thread."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from trawlnet.archive.difference import ChangedRecord, difference
from trawlnet.archive.format.folding import ArchivedState, parse_state
from trawlnet.archive.tombstones import Tombstone
from trawlnet.atproto.cid import Cid
from trawlnet.atproto.firehose.items_plain import read_fields
from trawlnet.crawlers.repos.events.event import AccountEvent, Operation, RecordEvent, RepoEvent
from trawlnet.crawlers.repos.following.archived_states import ArchivedStates, state_after
from trawlnet.crawlers.repos.following.live_state import LiveState
from trawlnet.crawlers.repos.visiting.packing import RepoBlock

_LINK = 5  # Bytes in front of a CID: a tag, the length, and a zero.
_CID = 36  # Bytes.
_STATUS = {"not_found": "deleted"}  # A reason of ours, as the protocol says it.


@dataclass(frozen=True, slots=True)
class Adoption:
    """A repository that is about to be written, or was before a kill."""

    did: str
    base: LiveState  # What was published so far; without a rev: nothing is.
    after: LiveState
    events: Sequence[RepoEvent]

    @property
    def is_newer(self) -> bool:
        return self.after.rev > self.base.rev


def adoption_of(made: RepoBlock, base: LiveState, archived: ArchivedStates) -> Adoption:
    if made.rev <= base.rev:
        return Adoption(made.did, base, LiveState(made.rev), ())
    state = parse_state(made.block)
    after = state_after(state, _root(made.unsigned_commit))
    return Adoption(made.did, base, after, events_between(base, state, archived))


def events_between(
    base: LiveState, after: ArchivedState, archived: ArchivedStates
) -> list[RepoEvent]:
    did, rev = after.did, after.rev
    past = archived.at(did, base.rev) if base.rev else None
    changes = difference(past.state if past else None, after)
    occasion = str(base.withdrawn_us) if base.withdrawn_us and not base.rev else ""
    events: list[RepoEvent] = []
    if occasion:
        events.append(AccountEvent(did, True, None, 0, _iso(base.withdrawn_us)))
    for path in changes.deletes:
        collection, _, rkey = path.partition("/")
        events.append(RecordEvent(did, rev, "delete", collection, rkey, None, None))
    words: Sequence[tuple[Operation, Sequence[ChangedRecord]]] = (
        ("create", changes.creates),
        ("update", changes.updates),
    )
    for word, records in words:
        for one in records:
            cid = str(Cid(one.cid))
            place = one.collection, one.rkey
            events.append(RecordEvent(did, rev, word, *place, cid, one.json, occasion))
    return events


def withdrawal(stone: Tombstone) -> AccountEvent:
    """Nothing of the account is shown any more."""
    status = _STATUS.get(stone.reason, stone.reason)
    return AccountEvent(stone.did, False, status, 0, _iso(stone.at_us))


def _iso(at_us: int) -> str:
    at = datetime.fromtimestamp(at_us / 1e6, UTC)
    return at.isoformat(timespec="microseconds").replace("+00:00", "Z")


def _root(unsigned: bytes) -> bytes:
    """Root of the tree that a commit signs; its form has been checked."""
    at = read_fields(unsigned, 0, (b"data",))[b"data"]
    return unsigned[at + _LINK : at + _LINK + _CID]
