"""What a visit brought, as events: the difference to what was published before. For a thread."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from trawlnet.archive.difference import ChangedRecord, difference
from trawlnet.archive.format.folding import ArchivedState, parse_state
from trawlnet.archive.tombstones import Tombstone
from trawlnet.atproto.cid import Cid
from trawlnet.atproto.firehose.items_plain import read_fields
from trawlnet.crawlers.repos.events.event import AccountEvent, Operation, RecordEvent, RepoEvent
from trawlnet.crawlers.repos.events.unsaved import UnsavedChanges, iso_of
from trawlnet.crawlers.repos.following.archived_states import ArchivedStates
from trawlnet.crawlers.repos.following.live_state import LiveState
from trawlnet.crawlers.repos.visiting.packing import RepoBlock

_LINK = 5  # Bytes in front of a CID: a tag, the length, and a zero.
_CID = 36  # Bytes.
_STATUS = {"not_found": "deleted"}  # A reason of ours, as the protocol says it.
_UNKNOWN = "desynchronized"  # The protocol's word of servers that tell of others' accounts.


@dataclass(frozen=True, slots=True)
class Adoption:
    """A repository that is about to be written, or was before a kill."""

    did: str
    base: LiveState  # What was published so far; without a rev: nothing is.
    after: LiveState
    events: Sequence[RepoEvent]

    @property
    def is_newer(self) -> bool:
        """Or tells which tree the rev has."""
        return (self.after.rev, bool(self.after.data)) > (self.base.rev, bool(self.base.data))


def adoption_of(made: RepoBlock, base: LiveState, archived: ArchivedStates) -> Adoption:
    if (made.rev, True) <= (base.rev, bool(base.data)):
        return Adoption(made.did, base, LiveState(made.rev), ())
    state = parse_state(made.block)
    after = archived.state_after(state, _root(made.unsigned_commit))
    return Adoption(made.did, base, after, _events(base, state, archived, {}))


def unpublished(
    did: str, base: LiveState, archived: ArchivedStates, unsaved: UnsavedChanges
) -> Adoption | Tombstone | None:
    """What the archive has beyond the state of an account, after a kill: it is written first. Of
    that, some was published."""
    newest = archived.rev(did)
    if newest is None:
        if unsaved.is_away:
            return Tombstone(did, unsaved.status, unsaved.withdrawn_us)
        return archived.tombstone(did) if base.rev else None
    if unsaved.withdrawn_us:
        base = replace(base, rev="", data=b"", archived="", withdrawn_us=unsaved.withdrawn_us)
    now = archived.at(did, newest)
    if now is None or now.state.rev <= base.rev:
        return None
    events = _events(base, now.state, archived, unsaved.cids)
    return Adoption(did, base, archived.state_after(now.state, now.root or b""), events)


def _events(
    base: LiveState,
    after: ArchivedState,
    archived: ArchivedStates,
    unsaved: Mapping[bytes, bytes | None],
) -> list[RepoEvent]:
    """From what was published to this."""
    did = after.did
    past = archived.published(did, base) if base.rev else {}
    if past is not None:
        changed = {**past, **unsaved}
        past = {path: cid for path, cid in changed.items() if cid is not None}
        return [*_changes(past, after, 0 if base.rev else base.withdrawn_us)]
    # What consumers have cannot be compared any more: they begin anew with this account.
    at_us = after.crawled_at_us
    gone = AccountEvent(did, False, _UNKNOWN, 0, iso_of(at_us))
    return [gone, *_changes({}, after, at_us)]


def _changes(
    past: Mapping[bytes, bytes], after: ArchivedState, withdrawn_us: int
) -> Iterator[RepoEvent]:
    did, rev = after.did, after.rev
    occasion = str(withdrawn_us) if withdrawn_us else ""
    if occasion:
        yield AccountEvent(did, True, None, 0, iso_of(withdrawn_us))
    changes = difference(past, after)
    for path in changes.deletes:
        collection, _, rkey = path.partition("/")
        yield RecordEvent(did, rev, "delete", collection, rkey, None, None, occasion)
    words: Sequence[tuple[Operation, Sequence[ChangedRecord]]] = (
        ("create", changes.creates),
        ("update", changes.updates),
    )
    for word, records in words:
        for one in records:
            cid = str(Cid(one.cid))
            yield RecordEvent(did, rev, word, one.collection, one.rkey, cid, one.json, occasion)


def withdrawal(stone: Tombstone) -> AccountEvent:
    """Nothing of the account is shown any more."""
    status = _STATUS.get(stone.reason, stone.reason)
    return AccountEvent(stone.did, False, status, 0, iso_of(stone.at_us))


def _root(unsigned: bytes) -> bytes:
    """Root of the tree that a commit signs; its form has been checked."""
    at = read_fields(unsigned, 0, (b"data",))[b"data"]
    return unsigned[at + _LINK : at + _LINK + _CID]
