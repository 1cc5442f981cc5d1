"""After a gap: accounts that the whole listing of their own server no longer names are asked for,
one by one. That they are not listed proves nothing; what their server says of each does."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from trawlnet.crawlers.repos.following.follower import Follower
from trawlnet.crawlers.repos.following.live_state import LiveState, Standing
from trawlnet.crawlers.repos.following.roll_book import did_in
from trawlnet.crawlers.repos.work import lane_at
from trawlnet.engine.control import Control
from trawlnet.engine.ports import Clock

log = logging.getLogger(__name__)

_ASK_EVERY = 60.0  # Seconds.
_SHARE = 0.5  # Of the visits that a server has in an hour; the others are for what a stream says.
_LONGEST_WAIT = 3600.0  # Seconds for listings of other servers: one walk serves them all.
_REST = 9.0  # Times what a walk took, until the next: servers may have gap after gap.
_AT_ONCE = 2000  # Accounts.
_MOST_READ = 100_000  # Accounts of one walk whose home only their block in the archive tells.


class _WalkPart(NamedTuple):
    """Of a walk."""

    missing: Sequence[tuple[str, str]]  # Lanes and DIDs.
    last: str | None  # Where to go on; None: it was the end.
    blocks: int = 0  # That were read.


@dataclass(slots=True)
class RollCall:
    """A listing may be cut short, by a fault or on purpose: so its server gets its questions at
    the pace of visits, minute by minute, and no account is thought of as gone before its own."""

    follower: Follower
    visits_per_hour: float  # Of one server.
    clock: Clock
    _news: asyncio.Event = field(default_factory=asyncio.Event)
    _waiting_since: float = math.inf
    _ask_at: float = 0.0
    _walk_at: float = 0.0

    def look(self) -> None:
        """A listing may have been read to its end."""
        self._news.set()

    async def run(self, control: Control) -> None:
        while True:
            self._news.clear()
            if whole := await self._whole():
                await self._walk(whole)
            if self.clock.now() >= self._ask_at:
                await self._ask()
                self._ask_at = self.clock.now() + _ASK_EVERY
            try:
                async with asyncio.timeout(_ASK_EVERY):
                    await self._news.wait()
            except TimeoutError:
                pass

    async def _whole(self) -> Mapping[str, int]:
        """Listings to walk for now: when all have been read, or after a while."""
        book, now = self.follower.parts.live.roll, self.clock.now()
        whole = await self.follower.in_pool(book.whole)
        self._waiting_since = min(self._waiting_since, now) if whole else math.inf
        is_late = now - self._waiting_since >= _LONGEST_WAIT
        is_time = now >= self._walk_at and (is_late or not self.follower.figures.comparing)
        return whole if is_time else {}

    async def _walk(self, whole: Mapping[str, int]) -> None:
        """Over all accounts. Who is missing on one of these lanes is written down."""
        follower, book = self.follower, self.follower.parts.live.roll
        begun, count = self.clock.now(), 0
        await follower.in_thread(book.begin_walk, whole)
        for read in (self._followed_after, self._archived_after):
            last: str | None = ""
            blocks = 0
            while last is not None and blocks < _MOST_READ:
                part = await follower.in_background(read, last, whole)
                await follower.in_thread(book.miss, part.missing)
                last, blocks, count = part.last, blocks + part.blocks, count + len(part.missing)
        is_last = not follower.figures.comparing
        await follower.in_thread(lambda: book.end_walk(whole, is_last=is_last))
        self._waiting_since, self._ask_at = math.inf, 0.0
        self._walk_at = self.clock.now() + _REST * (self.clock.now() - begun)
        if count:
            told = {"accounts": count, "hosts": len(whole)}
            log.info("accounts are missing in the listings of their servers", extra=told)

    def _followed_after(self, last: str, whole: Mapping[str, int]) -> _WalkPart:
        states = self.follower.parts.live.states_after(last, _AT_ONCE)
        return _WalkPart(self._missing(states, whole), _last_of(list(states)))

    def _archived_after(self, last: str, whole: Mapping[str, int]) -> _WalkPart:
        """Those that no stream has named yet."""
        parts = self.follower.parts
        dids = parts.archived.dids_after(last, _AT_ONCE)
        known, named = parts.live.states(dids), parts.live.roll.named(dids)
        newest = max(whole.values())
        unknown = [did for did in dids if did not in known and named[did] < newest]
        states = {did: parts.archived.glance(did) for did in unknown}
        found = {did: one for did, one in states.items() if one is not None}
        return _WalkPart(self._missing(found, whole), _last_of(dids), len(unknown))

    def _missing(
        self, states: Mapping[str, LiveState], whole: Mapping[str, int]
    ) -> Sequence[tuple[str, str]]:
        """Lanes and DIDs."""
        wanted = self.follower.wanted
        lanes = {
            did: _lane(one)
            for did, one in states.items()
            if is_published(one) and (wanted is None or did in wanted)
        }
        since = {did: whole[lane] for did, lane in lanes.items() if lane in whole}
        named = self.follower.parts.live.roll.named(since)
        return [(lanes[did], did) for did, at in named.items() if at < since[did]]

    async def _ask(self) -> None:
        follower, book = self.follower, self.follower.parts.live.roll
        most = max(1, int(self.visits_per_hour * _SHARE * _ASK_EVERY / 3600.0))
        keys = await follower.in_pool(book.missing, most)
        for start in range(0, len(keys), _AT_ONCE):
            await self._ask_for(keys[start : start + _AT_ONCE])

    async def _ask_for(self, keys: Sequence[bytes]) -> None:
        follower, dids = self.follower, [did_in(key) for key in keys]
        # They are at hand then, and the stream goes on meanwhile.
        await follower.in_background(follower.states_of, dids)
        async with follower.lock:
            states = await follower.in_thread(follower.states_of, dids)
            judge = follower.judge(states)
            for did, state in states.items():
                if is_published(state):
                    judge.check_later(did, state)
            await follower.commit(judge)
        await follower.in_thread(follower.parts.live.roll.forget, keys)


def is_published(state: LiveState) -> bool:
    """Whether something of it is shown, from a server that can be asked."""
    return bool(state.rev and state.pds) and state.standing is not Standing.INACTIVE


def _lane(state: LiveState) -> str:
    try:
        return lane_at(state.pds)
    except ValueError:
        return ""  # No listing is from there.


def _last_of(dids: Sequence[str]) -> str | None:
    return dids[-1] if len(dids) == _AT_ONCE else None
