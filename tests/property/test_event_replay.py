"""From the archive into the log without a gap: whatever happens meanwhile, a client has the truth
in the end, also one that is cut off and comes back."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.repos.told_world import Folding, ToldWorld
from trawlnet.crawlers.repos.events.event_log import EventReader
from trawlnet.crawlers.repos.serving.beginning import beginning
from trawlnet.crawlers.repos.serving.filters import EventFilter
from trawlnet.crawlers.repos.serving.past import past_messages
from trawlnet.crawlers.repos.serving.replay_cursor import (
    FIRST_TIME,
    decode_cursor,
    encode_cursor,
    place_of,
)
from trawlnet.crawlers.repos.serving.wire import WireMessage, wire_message
from trawlnet.queues.acks import SpoolPosition
from trawlnet.queues.queue import Retention
from trawlnet.queues.spool_log import SegmentsPruned

ACT, SEND, CUT, REWIND = "act", "send", "cut", "rewind"
STEPS = st.lists(
    st.sampled_from([ACT, ACT, SEND, SEND, SEND, CUT, REWIND]), min_size=5, max_size=60
)


class Connection:
    """What the server does for a client, a step at a time."""

    def __init__(self, world: ToldWorld, client: Folding) -> None:
        self.world, self.client = world, client
        self.reader = EventReader(world.workspace)
        self.past: Iterator[WireMessage] | None = None
        self.at: SpoolPosition | None = None

    async def connect(self, rewind_us: int = 0) -> None:
        cursor = max(0, self.client.cursor - rewind_us)
        begin = await beginning(self.reader, cursor, int(self.world.now * 1e6))
        self.at = begin.at or await self.reader.end()
        self.past = None
        if begin.replay is not None:
            if begin.replay.place == 0:
                self.client.state.clear()  # What was deleted while it was away, nobody tells.
            archive = self.world.workspace / "archive"
            self.past = past_messages(archive, begin.replay, lambda: EventFilter())

    async def send(self) -> bool:
        """One message of the archive, or what the log has next; False when there is no more."""
        assert self.at is not None
        if self.past is not None:
            for message in self.past:
                self.client.take(message.text)
                return True
            self.past = None
        try:
            batch = await self.reader.read(self.at)
        except SegmentsPruned:
            await self.connect()
            return True
        for one in batch.events:
            self.client.take(wire_message(one).text)
        moved, self.at = batch.end != self.at, batch.end
        return moved


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(0, 1 << 32), st.integers(0, 25), STEPS, st.sampled_from([1 << 30, 4000]))
def test_a_client_has_the_truth_in_the_end(
    tmp_path_factory: pytest.TempPathFactory, seed: int, before: int, steps: list[str], kept: int
) -> None:
    """With a log that keeps everything, and with one that soon deletes what a client needs: then
    the client begins anew."""

    async def scenario() -> None:
        folder = tmp_path_factory.mktemp("world")
        world = await ToldWorld(folder, seed, retention=Retention(kept, 1e9)).open()
        for _ in range(before):
            await world.act()
        client = Folding()
        connection = Connection(world, client)
        await connection.connect()
        for step in steps:
            if step == ACT:
                await world.act()
            elif step == SEND:
                await connection.send()
            else:
                await connection.connect(10_000_000 if step == REWIND else 0)
        while await connection.send():
            pass
        assert client.matches(world.truth)
        await world.close()

    asyncio.run(scenario())


def test_a_replay_goes_on_where_it_was_cut(tmp_path: Path) -> None:
    """Accounts that were sent are not sent again, but for the last; what happened to them since
    the first connection comes by the log."""

    async def scenario() -> None:
        world = await ToldWorld(tmp_path, 5).open()
        for _ in range(60):
            await world.join()
        client, told = Folding(), list[str]()
        connection = Connection(world, client)
        await connection.connect()
        while len(client.state) < 20:
            await connection.send()
        sent = sorted(client.state)
        await world.leave(sent[0])
        await connection.connect()
        assert connection.past is not None
        told = [message.did for message in connection.past]
        assert min(told) >= sent[-1]
        assert set(told) >= {did for did, of in world.truth.items() if of and did > sent[-1]}
        await world.close()

    asyncio.run(scenario())


DIDS = st.text("234567abcxyz019AZ:~", max_size=8).map(lambda end: f"did:plc:{end}") | st.text(
    "acdipqw:", max_size=9
).map(lambda end: f"did:{end}")
TIMES = st.integers(1_600_000_000_000_000, 3_000_000_000_000_000)


@given(DIDS, DIDS)
def test_places_are_in_the_order_of_dids(one: str, other: str) -> None:
    low, high = sorted((one, other))
    assert place_of(low) <= place_of(high)


@given(TIMES, DIDS, st.integers(0, 600_000_000_000 * 24 * 365))
def test_a_cursor_says_when_its_replay_began(begun: int, did: str, later: int) -> None:
    cursor = encode_cursor(begun, did)
    assert 0 < cursor < FIRST_TIME
    found = decode_cursor(cursor, begun + later)
    if place_of(did) == 0:
        assert found is None
    elif later < 86_400_000_000 * 690:
        assert found is not None
        assert found.place == place_of(did)
        assert begun - 600_000_000 < found.begun_us <= begun


@given(TIMES, DIDS, st.integers(0, 9_000_000_000))
def test_a_client_may_go_back_some_seconds(begun: int, did: str, back: int) -> None:
    """It gets an earlier place of the same replay, or all of it: never a later place."""
    found = decode_cursor(max(0, encode_cursor(begun, did) - back), begun)
    if found is not None:
        assert found.place <= place_of(did)
        assert found.begun_us <= begun
        assert begun - found.begun_us < 600_000_000
