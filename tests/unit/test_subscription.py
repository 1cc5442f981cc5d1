"""How far behind a firehose is: what its last message took, and nothing once it has no more."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from trawlnet.crawlers.atproto.streams.host_cursor import HostCursor
from trawlnet.crawlers.atproto.streams.messages import StreamNotice
from trawlnet.crawlers.atproto.streams.subscription import Subscription
from trawlnet.crawlers.atproto.streams.upstream import Upstream
from trawlnet.sim.virtual import SimClock, run_sim

UPSTREAM = Upstream("https://pds.example", is_pds=True)
AGES_AGO = "1969-12-31T22:00:00Z"  # Two hours before virtual time begins.
HOURS = 7200.0


@dataclass(frozen=True, slots=True)
class Batch:
    seq: int
    time: str
    notice: StreamNotice


class Reader:
    """Makes every batch durable at once."""

    def cursor(self, upstream: Upstream) -> HostCursor:
        return HostCursor(1)

    async def check(self, upstream: Upstream, messages: Sequence[str], seen: int) -> Batch:
        return Batch(seen + len(messages), messages[-1], StreamNotice())

    async def publish(self, batch: Batch) -> None:
        pass


class Wire:
    """Gate, dialler and socket of one connection; a message is its time."""

    def __init__(self) -> None:
        self.clock, self.gate, self.batch_bytes = SimClock(), self, 1 << 20
        self.messages: asyncio.Queue[str] = asyncio.Queue()
        self.receive = self.messages.get

    @asynccontextmanager
    async def turn(self, lane: str) -> AsyncIterator[None]:
        yield

    @asynccontextmanager
    async def open(self, upstream: Upstream, cursor: int | None) -> AsyncIterator[Wire]:
        yield self


@asynccontextmanager
async def subscribed() -> AsyncIterator[tuple[Wire, Subscription[Any]]]:
    wire: Any = Wire()
    reader: Any = Reader()
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
