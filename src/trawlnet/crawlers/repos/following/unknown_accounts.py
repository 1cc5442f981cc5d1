"""Accounts of which a stream has told no more than the DID: where they live is looked up, and those
who name them take turns, so that a server which invents accounts keeps no others waiting."""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict
from dataclasses import dataclass, field
from typing import NamedTuple

from trawlnet.crawlers.repos.accounts.identity import RepoIdentity, Resolver
from trawlnet.crawlers.repos.following.follower import Follower
from trawlnet.crawlers.repos.following.judging import Rejection
from trawlnet.crawlers.repos.following.live_state import LiveState, located, not_located
from trawlnet.crawlers.repos.following.live_store import DueVisit, LiveChange
from trawlnet.engine.control import Control
from trawlnet.engine.gate import Gate, LaneParked
from trawlnet.engine.outcome import Blame, Outcome, Reason
from trawlnet.engine.ports import Clock
from trawlnet.net.lane import lane_of

log = logging.getLogger(__name__)

_MOST = 50_000  # Accounts in the lines of one desk; others are asked for again later.
_AT_DIRECTORY = 4  # At a time; its lane sets the pace.
_AT_WEB_SITES = 8  # Any of them may take its time.
_PARKED = 5.0  # Seconds until a directory that is left alone is tried again.
_WEB = "did:web:"


class Line(NamedTuple):
    """Who wait in one line."""

    told_by: str
    is_again: bool  # They were looked up before, and not found.


@dataclass(slots=True)
class _Waiting:
    dids: OrderedDict[str, None] = field(default_factory=OrderedDict)
    is_newest_next: bool = True


class LookupLines:
    """Lines take turns. In each the newest and the oldest take turns: one that comes behind
    thousands of others is served soon, and nobody waits for ever."""

    def __init__(self, most: int = _MOST) -> None:
        self._most = most
        self._lines: OrderedDict[Line, _Waiting] = OrderedDict()

    def add(self, line: Line, did: str) -> None:
        """Where a line is full, the account stays out; each has its share of the room."""
        waiting = self._lines.setdefault(line, _Waiting())
        if len(waiting.dids) < max(1, self._most // len(self._lines)):
            waiting.dids[did] = None

    def take(self) -> str | None:
        if not self._lines:
            return None
        line, waiting = self._lines.popitem(last=False)
        did, _ = waiting.dids.popitem(last=waiting.is_newest_next)
        waiting.is_newest_next = not waiting.is_newest_next
        if waiting.dids:
            self._lines[line] = waiting
        return did


class _LookupDesk:
    """Lines, and who is called from them."""

    def __init__(self) -> None:
        self._lines = LookupLines()
        self._news = asyncio.Event()

    def add(self, line: Line, did: str) -> None:
        self._lines.add(line, did)
        self._news.set()

    async def next(self) -> str:
        while (did := self._lines.take()) is None:
            self._news.clear()
            await self._news.wait()
        return did


class UnknownAccounts:
    """What is found takes its turn at the server that it lives on; what is not, again and again,
    is forgotten. Lookups take their turns at the gate, like all requests."""

    def __init__(
        self,
        follower: Follower,
        resolver: Resolver,
        gate: Gate,
        clock: Clock,
    ) -> None:
        self._follower = follower
        self._resolver = resolver
        self._gate = gate
        self._clock = clock
        self._directory, self._web = _LookupDesk(), _LookupDesk()

    def add(self, did: str, state: LiveState) -> None:
        desk = self._web if did.startswith(_WEB) else self._directory
        desk.add(Line(state.told_by, state.lookups > 0), did)

    async def run(self, control: Control) -> None:
        async with asyncio.TaskGroup() as group:
            for desk, count in ((self._directory, _AT_DIRECTORY), (self._web, _AT_WEB_SITES)):
                for _ in range(count):
                    group.create_task(self._work(desk))

    async def _work(self, desk: _LookupDesk) -> None:
        while True:
            did = await desk.next()
            if (state := self._state(did)) is not None:
                await self._look_up(did, state)

    def _state(self, did: str) -> LiveState | None:
        """None if it is known by now, or forgotten."""
        state = self._follower.parts.live.states([did]).get(did)
        return state if state is not None and state.is_hearsay else None

    async def _look_up(self, did: str, state: LiveState) -> None:
        try:
            found = await self._resolver.resolve(did)
        except LaneParked as parked:
            found = Outcome(Reason.RATE_LIMITED, lane=parked.lane)
        else:
            self._tell_gate(did, found)
        is_trouble = isinstance(found, Outcome) and found.reason.blame is Blame.LANE
        if is_trouble and not did.startswith(_WEB):
            # The directory's, and not the account's.
            await self._clock.sleep(_PARKED)
            self.add(did, state)
        else:
            await self._learn(did, found)

    def _tell_gate(self, did: str, found: RepoIdentity | Outcome) -> None:
        try:
            lane = lane_of(self._resolver.directory_of(did))
        except ValueError:
            return  # Nobody was asked.
        if isinstance(found, Outcome):
            self._gate.observe(found.lane or lane, found)
        else:
            self._gate.observe(lane, Outcome(Reason.OK))

    async def _learn(self, did: str, found: RepoIdentity | Outcome) -> None:
        follower, change = self._follower, LiveChange()
        async with follower.lock:
            if (state := self._state(did)) is None:
                return
            if isinstance(found, RepoIdentity) and follower.is_at_home(found):
                now = self._clock.now()
                change.states[did] = located(state, found.pds, found.key, now)
                change.due.append(DueVisit(did, now))
            elif (still := not_located(state)) is not None:
                change.states[did] = still
            else:
                log.info("account not found", extra={"did": did, "told_by": state.told_by})
                change.forgotten.append(did)
            if isinstance(found, RepoIdentity) and not change.due:
                change.rejected[str(Rejection.WRONG_HOST)] += 1
            await follower.save(change)
        if change.due:
            follower.on_due()
