"""The sink of a crawl that follows: what a visit brings is written as ever, and what it changes in
what was published so far comes out as events."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from msgspec.structs import replace

from trawlnet.archive.tombstones import Tombstone
from trawlnet.crawlers.repos.events.unsaved import UnsavedChanges, unsaved_changes
from trawlnet.crawlers.repos.following.adoption import (
    Adoption,
    adoption_of,
    unpublished,
    withdrawal,
)
from trawlnet.crawlers.repos.following.follower import Follower
from trawlnet.crawlers.repos.following.judging import Judge
from trawlnet.crawlers.repos.following.live_state import LiveState, ResyncCause, Standing
from trawlnet.crawlers.repos.following.live_store import DueVisit, LiveChange
from trawlnet.crawlers.repos.following.visit_limits import VisitLimits
from trawlnet.crawlers.repos.visiting.visit import PackedRepo, VisitPutOff
from trawlnet.engine.outcome import Reason
from trawlnet.engine.task import Task

_BYTES_AT_ONCE = 4 << 20  # Of blocks: their records are all in memory for a moment.


@dataclass(frozen=True, slots=True)
class VisitEnded:
    """A visit that brought no repository, and yet an answer."""

    did: str
    reason: Reason


@dataclass(frozen=True, slots=True)
class VisitBegun:
    """What an account's server had said before this, the visit has seen."""

    did: str
    at: float


@dataclass(frozen=True, slots=True)
class ListingCompared:
    """A page that was listed because of a gap, by the key of its task, and those behind it."""

    key: str
    found: Sequence[str]
    lane: str = ""  # Of the server whose listing of accounts ends with it,
    since: int = 0  # and since when it is compared.


Batch = Sequence[tuple[Task, Sequence[Any]]]
Begun = Mapping[str, float]  # By DID, when its visit began.


@dataclass(frozen=True, slots=True)
class Visits:
    """What came of some, in the archive already."""

    adoptions: Sequence[Adoption] = ()
    stones: Sequence[Tombstone] = ()
    ended: Sequence[VisitEnded] = ()
    put_off: Sequence[VisitPutOff] = ()
    begun: Begun = field(default_factory=dict)


class VisitSink:
    """An engine Sink around the archive's. A block that is older than what the stream has
    published since is not written: the archive never goes back."""

    def __init__(self, follower: Follower, limits: VisitLimits | None = None) -> None:
        self._follower = follower
        self._sink = follower.parts.sink
        self._limits = limits

    async def write(self, batch: Batch) -> None:
        for part in _parts(batch):
            await self._write(part)

    async def _write(self, batch: Batch) -> None:
        follower = self._follower
        items = [item for _, items in batch for item in items]
        packed = {item.made.did: item for item in items if isinstance(item, PackedRepo)}
        stones = [item for item in items if isinstance(item, Tombstone)]
        # What takes long is done while the stream goes on; it is rarely in vain.
        adoptions = [await self._adoption(one) for one in packed.values()]
        async with follower.lock:
            adoptions = [await self._still(one, packed[one.did]) for one in adoptions]
            newer = {one.did: one.base.rev for one in adoptions if one.is_newer}
            for did in packed.keys() - newer.keys():
                packed[did].ticket.close()
            bases = newer | {stone.did: (await self._base(stone.did)).rev for stone in stones}
            if bases:
                await follower.in_thread(follower.parts.live.begin_adopting, bases)
                await self._sink.write(_only(batch, newer))
            ended = [item for item in items if isinstance(item, VisitEnded)]
            begun = {item.did: item.at for item in items if isinstance(item, VisitBegun)}
            put_off = [item for item in items if isinstance(item, VisitPutOff)]
            await self._publish(Visits(adoptions, stones, ended, put_off, begun))
            if pages := [item for item in items if isinstance(item, ListingCompared)]:
                found = [key for page in pages for key in page.found]
                done = [page.key for page in pages]
                await follower.save(LiveChange(listed=found, compared=done))
                ends = {page.lane: page.since for page in pages if page.lane}
                await follower.in_thread(follower.parts.live.roll.end_listing, ends)
                follower.on_listed()

    async def _publish(self, visits: Visits) -> None:
        judge = await self._judged(visits)
        changed = list(judge.change.states)
        if changed or judge.change.adopted:
            await self._follower.commit(judge)
        await self._go_on(changed, judge.states)

    async def _judged(self, visits: Visits) -> Judge:
        follower = self._follower
        dids = [*(one.did for one in visits.stones), *(one.did for one in visits.ended)]
        dids += [one.did for one in visits.put_off]
        states = await follower.in_thread(follower.parts.live.states, dids)
        judge = follower.judge(states | {one.did: one.base for one in visits.adoptions})
        for adoption in visits.adoptions:
            self._adopt(adoption, visits.begun, judge)
        for stone in visits.stones:
            self._withdraw(stone, visits.begun, judge)
        for one in visits.ended:
            await self._end(one, visits.begun, judge)
        for put_off in visits.put_off:
            self._put_off(put_off, judge)
        self._doubt_overtaken(visits.begun, judge)
        self._give_back(judge)
        return judge

    def _doubt_overtaken(self, begun: Begun, judge: Judge) -> None:
        """What a visit saw may be older than what its server has said since, or what a visit that
        began later has brought: the account is asked again."""
        heard = self._follower.heard
        for did, at in begun.items():
            if did in judge.change.states and heard.is_after(did, at):
                judge.check_later(did, judge.states[did])
            heard.note(did, at)

    def _give_back(self, judge: Judge) -> None:
        """Turns at servers for visits that need not be any more."""
        for did, state in judge.change.states.items():
            if state.has_slot and not state.needs_visit and self._limits is not None:
                self._limits.give_back(state.pds, state.asked_at)
                judge.put(did, replace(state, has_slot=False))

    async def _go_on(self, dids: Sequence[str], states: Mapping[str, LiveState]) -> None:
        """Frames that have waited for the visits, on top of what these brought. By themselves:
        after a kill they are judged again, and must be judged from the same state."""
        follower = self._follower
        judge = follower.judge(states)
        for did in dids:
            await follower.judge_held(did, judge)
        if judge.change.released:
            await follower.commit(judge)

    async def recover(self) -> None:
        """What was written before a kill, and not published; and what was published before one,
        and not saved as states. All at once: a second kill finds what the first one has left."""
        follower = self._follower
        live, events = follower.parts.live, follower.parts.events
        async with follower.lock:
            saved_us = live.published_us()
            marks = dict(await follower.in_thread(live.adopting))
            if saved_us == events.last_us and not marks:
                return
            unsaved: Mapping[str, UnsavedChanges] = {}
            if saved_us is not None:
                unsaved = await follower.in_thread(lambda: unsaved_changes(events.after(saved_us)))
                await events.repeat(saved_us)
            judge = await self._judged(await follower.in_thread(self._left_by, marks, unsaved))
            judge.change.adopted = list(marks)
            await follower.commit(judge)

    def _left_by(self, marks: Mapping[str, str], unsaved: Mapping[str, UnsavedChanges]) -> Visits:
        """A process that was killed; `marks` are revs of what had been published before blocks were
        written."""
        archived, live = self._follower.parts.archived, self._follower.parts.live
        states = live.states(marks.keys() | unsaved.keys())
        found = []
        for did in sorted(marks.keys() | unsaved.keys()):
            base = states.get(did, LiveState())
            if did in marks:
                base = replace(base, rev=marks[did])
            found.append(unpublished(did, base, archived, unsaved.get(did, UnsavedChanges())))
        return Visits(
            [one for one in found if isinstance(one, Adoption)],
            [one for one in found if isinstance(one, Tombstone)],
        )

    async def _adoption(self, one: PackedRepo) -> Adoption:
        base = await self._base(one.made.did)
        return await self._follower.in_pool(
            adoption_of, one.made, base, self._follower.parts.archived
        )

    async def _still(self, adoption: Adoption, one: PackedRepo) -> Adoption:
        """The same against what is published by now."""
        base = await self._base(adoption.did)
        if base.rev != adoption.base.rev:
            return await self._adoption(one)
        return dataclasses.replace(adoption, base=base)

    async def _base(self, did: str) -> LiveState:
        """What was published; what is archived, where the stream has not named it yet."""
        follower = self._follower
        state = (await follower.in_thread(follower.parts.live.states, [did])).get(did)
        return state or LiveState(rev=follower.parts.archived.rev(did) or "")

    def _adopt(self, adoption: Adoption, begun: Begun, judge: Judge) -> None:
        did, base = adoption.did, adoption.base
        if adoption.is_newer:
            judge.events += adoption.events
            judge.change.adopted.append(did)
            judge.change.resyncs += base.standing is Standing.DESYNCHRONIZED
            after = replace(adoption.after, asked_at=base.asked_at, asks=base.asks)
            after = replace(after, withdrawn_us=base.withdrawn_us, missed_at=base.missed_at)
            after = replace(after, was_hurried=base.was_hurried and after.key == base.key)
            after = replace(after, has_slot=base.has_slot and after.pds == base.pds)
            judge.put(did, _seen(after, begun.get(did, 0.0)))
            if not after.data:
                judge.resync(did, judge.states[did], ResyncCause.ARCHIVED)
        elif base.data and base.rev == adoption.after.rev:
            self._confirm(did, base, begun, judge)
        # Else it has less than it had: the next visit may find more.

    async def _end(self, ended: VisitEnded, begun: Begun, judge: Judge) -> None:
        did, state = ended.did, judge.states.get(ended.did)
        if state is None or (state.is_hearsay and ended.reason is Reason.NOT_FOUND):
            return  # It is being looked up, and forgotten in the end.
        if ended.reason is Reason.NOT_MODIFIED:
            await self._end_unchanged(did, state, begun, judge)
        elif state.rev:
            # Its tombstone was written before a kill.
            stone = Tombstone(did, str(ended.reason), int(judge.now * 1e6))
            self._withdraw(stone, begun, judge)
        elif state.needs_visit:
            self._hide(did, replace(state, standing=Standing.INACTIVE), begun, judge)

    async def _end_unchanged(self, did: str, state: LiveState, begun: Begun, judge: Judge) -> None:
        """Its server has what is archived: more than was published, if a kill came between the two
        and the stream does not tell it again."""
        follower = self._follower
        if (follower.parts.archived.rev(did) or "") > state.rev:
            archived, nothing = follower.parts.archived, UnsavedChanges()
            found = await follower.in_thread(unpublished, did, state, archived, nothing)
            if isinstance(found, Adoption):
                self._adopt(found, begun, judge)
        elif state.data:
            self._confirm(did, state, begun, judge)

    def _put_off(self, one: VisitPutOff, judge: Judge) -> None:
        state = judge.states.get(one.did)
        if state is not None and state.needs_visit:
            moved = state.moved(one.pds, one.key)
            judge.put(one.did, replace(moved, asked_at=one.at, has_slot=True))
            judge.change.due.append(DueVisit(one.did, one.at))

    def _confirm(self, did: str, state: LiveState, begun: Begun, judge: Judge) -> None:
        """What was published is what its server has."""
        if state.needs_visit:
            state = replace(state, standing=Standing.SYNCHRONIZED)
            judge.put(did, _seen(state, begun.get(did, 0.0)))

    def _withdraw(self, stone: Tombstone, begun: Begun, judge: Judge) -> None:
        """The account is hidden in the archive: whatever comes back is published as new."""
        did = stone.did
        judge.events.append(withdrawal(stone))
        judge.change.adopted.append(did)
        state = replace(judge.states.get(did, LiveState()), rev="", data=b"", archived="")
        state = replace(state, standing=Standing.INACTIVE, withdrawn_us=stone.at_us)
        self._hide(did, state, begun, judge)

    def _hide(self, did: str, state: LiveState, begun: Begun, judge: Judge) -> None:
        state = _seen(state, begun.get(did, 0.0))
        judge.put(did, state)
        if self._follower.held.take(did):
            judge.change.released.append(did)
            judge.check_later(did, state)  # They may have come after its server had answered.


def _seen(state: LiveState, begun: float) -> LiveState:
    """After a visit that began then."""
    return replace(state, missed_at=0.0) if begun > state.missed_at else state


def _parts(batch: Batch) -> Iterator[Batch]:
    """So many bytes of blocks at a time; no DID twice in one part, since each visit counts from
    when it began."""
    part: list[tuple[Task, Sequence[Any]]] = []
    size, dids = 0, set[str]()
    for task, items in batch:
        more = sum(len(item.made.block) for item in items if isinstance(item, PackedRepo))
        visited = {item.did for item in items if isinstance(item, VisitBegun)}
        if part and (size + more > _BYTES_AT_ONCE or visited & dids):
            yield part
            part, size, dids = [], 0, set()
        part.append((task, items))
        size += more
        dids |= visited
    if part:
        yield part


def _only(batch: Batch, dids: Collection[str]) -> list[tuple[Task, list[Any]]]:
    """Blocks of these DIDs, and tombstones."""

    def is_written(item: Any) -> bool:
        if isinstance(item, PackedRepo):
            return item.made.did in dids
        return isinstance(item, Tombstone)

    return [(task, [item for item in items if is_written(item)]) for task, items in batch]
