"""From checked frames to what is durable: deltas in the archive, events in their log, and then, in
one transaction, the states of accounts and the cursors."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

from msgspec.structs import replace

from trawlnet.atproto.firehose.frame import IdentityFrame
from trawlnet.crawlers.atproto.streams.host_cursor import HostCursor
from trawlnet.crawlers.atproto.streams.upstream import Upstream
from trawlnet.crawlers.repos.accounts.identity import RepoIdentity
from trawlnet.crawlers.repos.accounts.visit_planner import ListedAccount
from trawlnet.crawlers.repos.events.event_log import EventLog
from trawlnet.crawlers.repos.events.identity_times import UnknownIdentities
from trawlnet.crawlers.repos.following.archived_states import ArchivedStates
from trawlnet.crawlers.repos.following.comparison import compare, is_as_published
from trawlnet.crawlers.repos.following.deltas import delta_blocks
from trawlnet.crawlers.repos.following.figures.live_figures import LiveFigures
from trawlnet.crawlers.repos.following.frames import (
    CheckedBatch,
    FrameKind,
    check_frames,
    check_messages,
)
from trawlnet.crawlers.repos.following.held_frames import HeldFrame, HeldFrames
from trawlnet.crawlers.repos.following.judging import IdentityDoubt, Judge, JudgeRules
from trawlnet.crawlers.repos.following.live_state import (
    LastHeard,
    LiveState,
    ResyncCause,
    Standing,
    located,
)
from trawlnet.crawlers.repos.following.live_store import (
    DueVisit,
    LiveChange,
    LiveStore,
    StreamGap,
)
from trawlnet.crawlers.repos.sink import ArchiveSink
from trawlnet.engine.control import Control
from trawlnet.engine.ports import Clock
from trawlnet.engine.threads import Threads

R = TypeVar("R")

_MOST_FRAMES = 2000  # Published together, of all upstreams; at least one batch.
_READ_AT_ONCE = 20  # Archived repositories; then frames are checked that came meanwhile.
_MOST_ADOPTED = 10_000  # States of accounts that the archive has, at hand until they are stored.


@dataclass(frozen=True, slots=True)
class FollowerParts:
    """What a follower writes to, and what it works with."""

    live: LiveStore
    archived: ArchivedStates
    sink: ArchiveSink
    events: EventLog
    clock: Clock
    pool: Threads  # Checks frames.
    thread: Threads  # One: reads and writes states.


class _Submitted(NamedTuple):
    batch: CheckedBatch
    published: asyncio.Future[None]


@dataclass(slots=True)
class Follower:
    """Upstreams check their batches side by side; what is checked is judged and published by one
    coroutine, a batch of each upstream at a time, so that accounts have one order of events."""

    parts: FollowerParts
    rules: JudgeRules
    held: HeldFrames
    wanted: Collection[str] | None  # DIDs; None: all.
    zstd_level: int
    # Called with accounts whose identity is in doubt, and when there are visits to make.
    on_doubt: Callable[[Collection[IdentityDoubt]], None] = lambda doubts: None
    on_due: Callable[[], None] = lambda: None
    on_listed: Callable[[], None] = lambda: None  # And when a listing was read to its end.
    # Whether an account is followed that lives there, of one that only a stream has named so far.
    is_at_home: Callable[[RepoIdentity], bool] = lambda identity: True
    # Held by everything that changes states.
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    figures: LiveFigures = field(default_factory=LiveFigures)
    kinds: Counter[FrameKind] = field(default_factory=Counter)  # Of messages that are durable.
    _submitted: list[_Submitted] = field(default_factory=list)
    _adopted: dict[str, LiveState] = field(default_factory=dict)
    _noted: dict[str, RepoIdentity] = field(default_factory=dict)  # Newer than the archive.
    heard: LastHeard = field(default_factory=LastHeard)
    _unknown_identities: UnknownIdentities = field(default_factory=UnknownIdentities)
    _news: asyncio.Event = field(default_factory=asyncio.Event)
    _background: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def check(
        self, upstream: Upstream, messages: Sequence[bytes | str], seen: int
    ) -> CheckedBatch:
        """Of messages beyond the highest `seq` seen so far."""
        now = self.parts.clock.now()
        return await self.in_pool(
            check_messages, upstream, messages, now, self.states_of, self.wanted, seen
        )

    async def publish(self, batch: CheckedBatch) -> None:
        """Everything of it is durable when this returns. One batch of an upstream at a time."""
        published = asyncio.get_running_loop().create_future()
        self._submitted.append(_Submitted(batch, published))
        self._news.set()
        await published

    async def run(self, control: Control) -> None:
        """For as long as the crawl lasts."""
        while True:
            self._news.clear()
            while self._submitted:
                await self._publish_group(self._next_group())
            await self._news.wait()

    def _next_group(self) -> list[_Submitted]:
        """In the order in which they came; who has just been served comes again behind others."""
        frames = taken = 0
        while taken < len(self._submitted) and frames < _MOST_FRAMES:
            frames += len(self._submitted[taken].batch.frames)
            taken += 1
        group, self._submitted = self._submitted[:taken], self._submitted[taken:]
        return group

    async def _publish_group(self, group: Sequence[_Submitted]) -> None:
        async with self.lock:
            judge = await self.in_thread(self._judge_batches, [one.batch for one in group])
            await self.commit(judge)
        for one in group:
            self.kinds += one.batch.kinds
            if not one.published.done():
                one.published.set_result(None)

    def _judge_batches(self, batches: Sequence[CheckedBatch]) -> Judge:
        dids = {one.frame.did for batch in batches for one in batch.frames}
        states = self.parts.live.states(dids)
        judge = self.judge(self.states_of(dids))
        judge.bases = {did: one for did, one in judge.states.items() if did not in states}
        frames = (one.frame for batch in batches for one in batch.frames)
        renamed = {frame.did for frame in frames if isinstance(frame, IdentityFrame)}
        if renamed:
            told = self._unknown_identities.of(renamed)
            judge.identities = told | self.parts.live.identity_times(renamed)
        change = judge.change
        for batch in batches:
            for one in batch.frames:
                judge.apply(batch.upstream, one)
            change.rejected.update(map(str, batch.refused))
            self._move_cursor(batch, change)
        self._unknown_identities.remember(judge.unknown_identities)
        for did in judge.confirmed:
            self.heard.note(did, judge.now)
        return judge

    def _move_cursor(self, batch: CheckedBatch, change: LiveChange) -> None:
        host, now = batch.upstream.host, self.parts.clock.now()
        saved = self.parts.live.cursor(host) or HostCursor()
        looks_back = saved.looks_back or batch.is_out_of_order
        if batch.notice.is_gap:
            change.gaps[host] = StreamGap(batch.upstream.url, batch.upstream.is_pds, saved.at)
            change.cursors[host] = saved = replace(saved, at=_gap_end(saved.at, now))
        if batch.seq > saved.seq:
            at = max(now, saved.at)
            change.cursors[host] = HostCursor(batch.seq, batch.time, looks_back, at)

    async def begin(self, upstream: Upstream) -> None:
        """A stream was joined at its newest message: what was archived or published before may
        have changed since, and is to be compared."""
        await self._begin(upstream, is_anew=False)

    async def rewind(self, upstream: Upstream) -> None:
        """The stream is read from its oldest message on. Its numbers may have begun anew, and
        what the server no longer has is compared as well."""
        await self._begin(upstream, is_anew=True)

    async def _begin(self, upstream: Upstream, *, is_anew: bool) -> None:
        live, now = self.parts.live, self.parts.clock.now()
        async with self.lock:
            saved = live.cursor(upstream.host)
            change = LiveChange()
            if saved is not None or not await self.in_thread(self._is_fresh):
                since = saved.at if saved else now
                change.gaps[upstream.host] = StreamGap(upstream.url, upstream.is_pds, since)
                now = _gap_end(since, now)
            cursor = replace(saved or HostCursor(), at=now)
            if is_anew:
                cursor = replace(cursor, seq=0, looks_back=False)
            change.cursors[upstream.host] = cursor
            await self.save(change)
        if change.gaps:
            self.on_due()

    def _is_fresh(self) -> bool:
        return self.parts.live.is_empty() and self.parts.archived.is_empty()

    def cursor(self, upstream: Upstream) -> HostCursor | None:
        """As saved: every message before it is durable."""
        return self.parts.live.cursor(upstream.host)

    async def learn(self, identity: RepoIdentity) -> None:
        """What a directory says about an account now. Frames that waited for it are judged again,
        and believed or rejected."""
        async with self.lock:
            states = await self.in_thread(self.parts.live.states, [identity.did])
            state = states.get(identity.did)
            if state is None:
                return
            judge = self.judge(states, is_final=True)
            moved = state.moved(identity.pds, identity.key)
            if state.is_hearsay:
                if not self.is_at_home(identity):
                    return
                moved = located(state, moved.pds, moved.key, judge.now)
                judge.change.due.append(DueVisit(identity.did, judge.now))
            if moved != state:
                judge.put(identity.did, moved)
            if moved.pds != state.pds and state.standing is Standing.INACTIVE:
                # The server that said so may have been the one that it left.
                judge.resync(identity.did, moved, ResyncCause.ACCOUNT)
            await self.judge_held(identity.did, judge)
            await self.commit(judge)

    async def learn_news(self, news: Sequence[RepoIdentity]) -> None:
        """What the directory has just published, about whomever."""
        by_did = {identity.did: identity for identity in news}
        states = await self.in_thread(self.parts.live.states, by_did)
        for did, identity in by_did.items():
            if (state := states.get(did)) is None:
                self._note(identity)
            elif state.moved(identity.pds, identity.key) != state:
                await self.learn(identity)

    def _note(self, identity: RepoIdentity) -> None:
        """For an account that the archive may have: reading it takes too long for all of them."""
        if len(self._noted) >= _MOST_ADOPTED:
            self._noted.clear()
        self._noted[identity.did] = identity
        self._adopted.pop(identity.did, None)

    async def judge_held(self, did: str, judge: Judge) -> None:
        """Frames of the account that have waited, on top of the state that the judge has. The
        lock is the caller's, and so is the commit."""
        if held := self.held.take(did):
            judge.change.released.append(did)
            await self.in_thread(self._judge_held, held, judge)

    async def recover(self) -> None:
        """Frames that waited when the last process ended are judged again."""
        async with self.lock:
            for one in await self.in_thread(lambda: list(self.parts.live.held())):
                self.held.add(one)
            for did in self.held.dids:
                states = await self.in_thread(self.parts.live.states, [did])
                judge = self.judge(states)
                await self.judge_held(did, judge)
                await self.commit(judge)

    def _judge_held(self, held: Sequence[HeldFrame], judge: Judge) -> None:
        counted = judge.change.commits
        for one in held:
            # Each may change the state that the next is checked against.
            checked = check_frames([one.frame], judge.now, judge.states)
            judge.apply(one.upstream, checked[0])
        judge.change.commits = counted  # They were counted when they came.

    async def commit(self, judge: Judge) -> None:
        """In this order: a kill between two of them leaves the archive at least as new as what was
        published, and that as new as the states, which then catch up. The lock is the caller's."""
        change, parts = judge.change, self.parts
        if judge.deltas:
            await self._remember_bases(judge)
            at_us = int(parts.clock.now() * 1e6)
            blocks = await self.in_thread(delta_blocks, judge.deltas, at_us, self.zstd_level)
            await parts.sink.append(blocks, {did: one.rev for did, one in judge.deltas.items()})
        await parts.events.append(judge.events)
        change.events += len(judge.events)
        change.published_us = parts.events.last_us
        await self.save(change)
        if judge.doubts:
            self.on_doubt(judge.doubts)
        if change.due or change.gaps:
            self.on_due()

    async def save(self, change: LiveChange) -> None:
        """The lock is the caller's."""
        self.figures = await self.in_thread(self.parts.live.apply, change)

    async def _remember_bases(self, judge: Judge) -> None:
        """Of accounts that only the archive knew: once it has their deltas, it no longer tells
        what was published."""
        if bases := {did: judge.bases[did] for did in judge.deltas if did in judge.bases}:
            await self.save(LiveChange(bases))

    async def compare(self, claims: Sequence[ListedAccount], since: int) -> None:
        """A page of a listing with what was published. What takes long is done before, while the
        stream goes on, and is looked at again."""
        if self.wanted is not None:
            claims = [claim for claim in claims if claim.did in self.wanted]
        glances: dict[str, LiveState] = {}
        for start in range(0, len(claims), _READ_AT_ONCE):
            part = claims[start : start + _READ_AT_ONCE]
            glances |= await self.in_background(self._glances, part)
        async with self.lock:
            judge = self.judge(await self.in_thread(self._states_for, claims, glances))
            named = compare(judge, claims, since)
            await self.commit(judge)
            if named:
                await self.in_thread(self.parts.live.roll.name, named, since)

    def judge(self, states: Mapping[str, LiveState], *, is_final: bool = False) -> Judge:
        return Judge(self.rules, self.parts.clock.now(), dict(states), is_final)

    async def in_pool(self, call: Callable[..., R], *args: Any) -> R:
        """For what takes long and changes nothing."""
        return await asyncio.get_running_loop().run_in_executor(self.parts.pool, call, *args)

    async def in_thread(self, call: Callable[..., R], *args: Any) -> R:
        return await asyncio.get_running_loop().run_in_executor(self.parts.thread, call, *args)

    async def in_background(self, call: Callable[..., R], *args: Any) -> R:
        """For what can wait. One at a time: frames are checked beside it."""
        async with self._background:
            return await self.in_pool(call, *args)

    def _glances(self, claims: Sequence[ListedAccount]) -> dict[str, LiveState]:
        """Of accounts that only the archive knows, and that have not changed since, so much as a
        comparison needs. Those that have are read, and at hand from now on."""
        archived, found = self.parts.archived, {}
        known = self.parts.live.states(claim.did for claim in claims)
        for claim in claims:
            did = claim.did
            if did in known or did in self._adopted:
                continue
            glance = archived.glance(did)
            if glance is not None and is_as_published(claim, glance):
                noted = self._noted.get(did)
                found[did] = glance.moved(noted.pds, noted.key) if noted else glance
            elif glance is not None:
                self._adopt(did)
        return found

    def _states_for(
        self, claims: Sequence[ListedAccount], glances: Mapping[str, LiveState]
    ) -> Mapping[str, LiveState]:
        rev_of = self.parts.archived.rev
        current = {did: one for did, one in glances.items() if rev_of(did) == one.rev}
        states = self.states_of([claim.did for claim in claims if claim.did not in current])
        return {**current, **states, **self.parts.live.states(current)}

    def states_of(self, dids: Collection[str]) -> Mapping[str, LiveState]:
        """As the live store has them; of an account that was archived before it was followed, as
        the archive has it. For threads."""
        found = self.parts.live.states(dids)
        for did in dids:
            if did not in found and (state := self._adopt(did)) is not None:
                found[did] = state
        return found

    def _adopt(self, did: str) -> LiveState | None:
        state = self._adopted.get(did) or self.parts.archived.live_state(did)
        if state is not None:
            if len(self._adopted) >= _MOST_ADOPTED:
                self._adopted.clear()
            if (noted := self._noted.get(did)) is not None:
                state = state.moved(noted.pds, noted.key)
            self._adopted[did] = state
        return state


def _gap_end(since: float, now: float) -> float:
    """Where the next gap begins: what comes before is compared because of this one. Listings are
    told apart by the second since which they compare, and one that was read is not read again."""
    return max(now, since + 1.0)
