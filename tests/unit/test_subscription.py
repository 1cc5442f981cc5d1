"""How far behind a firehose is: what its last message took, and nothing once it has no more."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from trawlnet.atproto.firehose.refusal import Refusal
from trawlnet.crawlers.atproto.streams.host_cursor import HostCursor
from trawlnet.crawlers.atproto.streams.messages import StreamNotice
from trawlnet.crawlers.atproto.streams.subscription import Subscription
from trawlnet.crawlers.atproto.streams.upstream import Upstream
from trawlnet.sim.virtual import SimClock, run_sim

UPSTREAM = Upstream("https://pds.example", is_pds=True)
AGES_AGO = "1969-12-31T22:00:00Z"  # Two hours before virtual time begins.
HOURS = 7200.0
GARBAGE = "not a frame"


@dataclass(frozen=True, slots=True)
class Batch:
    seq: int
    time: str
    notice: StreamNotice


class Reader:
    """Makes every batch durable at once."""

    def __init__(self) -> None:
        self.seq, self.begun = 1, 0

    def cursor(self, upstream: Upstream) -> HostCursor:
        return HostCursor(self.seq)

    async def begin(self, upstream: Upstream) -> None:
        self.begun += 1

    async def check(self, upstream: Upstream, messages: Sequence[str], seen: int) -> Batch:
        good = [one for one in messages if one != GARBAGE]
        refusal = None if len(good) == len(messages) else Refusal.NOT_CBOR
        time = good[-1] if good else ""
        return Batch(seen + len(good), time, StreamNotice(refusal=refusal))

    async def publish(self, batch: Batch) -> None:
        self.seq = batch.seq


class Wire:
    """Gate, dialler and socket of one connection; a message is its time."""

    def __init__(self) -> None:
        self.clock, self.gate, self.batch_bytes = SimClock(), self, 1 << 20
        self.messages: asyncio.Queue[str] = asyncio.Queue()
        self.receive = self.messages.get
        self.dials: list[tuple[float, int | None]] = []  # When, and from which cursor.

    @asynccontextmanager
    async def turn(self, lane: str) -> AsyncIterator[None]:
        yield

    @asynccontextmanager
    async def open(self, upstream: Upstream, cursor: int | None) -> AsyncIterator[Wire]:
        self.dials.append((self.clock.now(), cursor))
        yield self

    @property
    def gaps(self) -> list[float]:
        """Seconds between two dials."""
        times = [at for at, _ in self.dials]
        return [after - before for before, after in pairwise(times)]


@asynccontextmanager
async def subscribed(
    wire: Any = None, reader: Any = None
) -> AsyncIterator[tuple[Wire, Subscription[Any]]]:
    wire, reader = wire or Wire(), reader or Reader()
    stream = Subscription(UPSTREAM, wire, reader, from_start=False)
    running = asyncio.ensure_future(stream.run(Any))
    yield wire, stream
    running.cancel()


def test_a_server_that_has_been_quiet_since_a_pause_is_not_behind() -> None:
    async def scene() -> None:
        async with subscribed() as (wire, stream):
            wire.messages.put_nowait(AGES_AGO)
            await asyncio.sleep(1)
            behind = stream.behind(wire.clock.now())
            assert behind is not None and behind >= HOURS, "there may be more of that"
            await asyncio.sleep(60)
            assert stream.behind(wire.clock.now()) == 0.0, "that was all"

    run_sim(scene())


def test_one_that_goes_on_telling_old_news_is_behind() -> None:
    async def scene() -> None:
        async with subscribed() as (wire, stream):
            for _ in range(60):
                wire.messages.put_nowait(AGES_AGO)
                await asyncio.sleep(5)
                behind = stream.behind(wire.clock.now())
                assert behind is not None and behind >= HOURS

    run_sim(scene())


class Unreadable(Wire):
    """Whoever begins at the cursor gets garbage, for ever."""

    @asynccontextmanager
    async def open(self, upstream: Upstream, cursor: int | None) -> AsyncIterator[Wire]:
        if cursor is not None:
            self.messages.put_nowait(GARBAGE)
        async with super().open(upstream, cursor):
            yield self


def test_what_cannot_be_read_is_tried_again_ever_later_and_then_passed_over() -> None:
    async def scene() -> None:
        wire, reader = Unreadable(), Reader()
        async with subscribed(wire, reader) as (_, stream):
            await asyncio.sleep(300)
            assert [cursor for _, cursor in wire.dials] == [1] * 5 + [None]
            assert all(after > 1.5 * before for before, after in pairwise(wire.gaps)), wire.gaps
            assert (reader.begun, stream.passed_over) == (1, 1)
            assert stream.is_connected, "it listens to the newest messages"

    run_sim(scene())


class Hopeless(Unreadable):
    """The newest messages are garbage as well."""

    @asynccontextmanager
    async def open(self, upstream: Upstream, cursor: int | None) -> AsyncIterator[Wire]:
        if cursor is None:
            self.messages.put_nowait(GARBAGE)
        async with super().open(upstream, cursor):
            yield self


def test_nobody_can_have_everything_compared_again_and_again() -> None:
    async def scene() -> None:
        wire, reader = Hopeless(), Reader()
        async with subscribed(wire, reader) as (_, stream):
            await asyncio.sleep(12 * HOURS)
            assert 20 <= reader.begun <= 24
            assert wire.gaps[-1] >= 60.0
            away = []
            for _ in range(60):
                await asyncio.sleep(60)
                away.append(wire.clock.now() - stream.away_since)
            assert max(away) > 1800, "to be connected for an instant is not to be connected"

    run_sim(scene())


def test_who_tells_something_before_each_break_is_soon_read_on() -> None:
    async def scene() -> None:
        wire, reader = Wire(), Reader()
        async with subscribed(wire, reader):
            for _ in range(20):
                wire.messages.put_nowait(AGES_AGO)
                wire.messages.put_nowait(GARBAGE)
                await asyncio.sleep(30)
            assert len(wire.dials) == 21 and reader.begun == 0

    run_sim(scene())
