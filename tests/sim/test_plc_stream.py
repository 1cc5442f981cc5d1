"""The mirror follows a directory by its stream, and however that behaves it holds everything."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from functools import partial

import orjson
import pytest

from tests.support.atproto.odd_directory import OddDirectory, serving
from tests.support.atproto.plc_truth import OPERATIONS, check_whole, lines_of
from tests.support.atproto.visitor import open_world
from trawlnet.crawlers.atproto.export import ExportCursor, ExportForm
from trawlnet.crawlers.atproto.mirror import PlcMirror
from trawlnet.crawlers.atproto.reader import Directory
from trawlnet.crawlers.atproto.stream import StreamTries, read_messages, stream_url
from trawlnet.engine.gate import Gate
from trawlnet.engine.rules import Manners
from trawlnet.net.client.socket_ends import SocketLimits
from trawlnet.net.client.websocket import open_websocket
from trawlnet.net.clock import SystemClock
from trawlnet.net.guard import Guard
from trawlnet.net.http import Http
from trawlnet.net.trouble import ConnectionDropped, NotUpgraded
from trawlnet.sim.atproto.accounts import AccountStatus, Story
from trawlnet.sim.atproto.plc_stream import HONEST_STREAM, StreamHabits
from trawlnet.tables.clickhouse.open import opened

AGENT = "trawlnet-test (+https://trawlnet.invalid/about)"
DEADLINE = 120
FIRST = 50  # Operations that are there from the beginning.


class QuickClock(SystemClock):
    """Minutes pass in a moment; but something passes, so that servers have their turn."""

    def __init__(self):
        super().__init__()
        self.ahead = 0.0

    def now(self):
        return super().now() + self.ahead

    async def sleep(self, seconds):
        self.ahead += max(0.0, seconds)
        await asyncio.sleep(0.005)


@asynccontextmanager
async def directory_at(url):
    clock, guard = QuickClock(), Guard(allow_private=True)
    gate = Gate(clock, Manners(rate=1000.0, concurrency=1, block_at=1 << 30))
    stream = partial(open_websocket, agent=AGENT, guard=guard, limits=SocketLimits())
    async with Http(gate, clock, AGENT, guard=guard) as http:
        yield Directory(url, http, gate, clock, allow_private=True, open_stream=stream)


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    async def ask():
        async with open_world(tmp_path_factory.mktemp("world"), habits=()) as visitor:
            return await lines_of(visitor.world), visitor.dids

    return asyncio.run(ask())


async def grow(odd, lines, begun):
    await begun.wait()
    for count in range(FIRST, len(lines) + 1, 3):
        odd.lines = lines[:count]
        await asyncio.sleep(0.005)
    odd.lines = lines


async def followed(odd, lines, tables, url):
    """The mirror's figures when it has come to the end of a log that grows meanwhile."""
    stop, begun = asyncio.Event(), asyncio.Event()
    last = lines[-1]["seq"]

    def stored(tally):
        if tally.caught_up:
            begun.set()
        if tally.position == last:
            stop.set()

    async with directory_at(url) as directory, asyncio.timeout(DEADLINE):
        mirror = PlcMirror(directory, tables, stop, follow=True)
        growing = asyncio.ensure_future(grow(odd, lines, begun))
        await mirror.run(stored)
        await growing
    return mirror.tally


HABITS = {
    "honest": HONEST_STREAM,
    "drops": StreamHabits(drop_every=7),
    "repeats": StreamHabits(repeat_every=3),
    "swaps": StreamHabits(swap_every=5),
    "other messages": StreamHabits(garbage_every=4),
    "closes": StreamHabits(close_every=20),
    "breaks": StreamHabits(break_every=20),
    "closes at once": StreamHabits(close_every=1),
    "everything": StreamHabits(0, 0, 11, 3, 13, 5, 40, 31),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", HABITS)
def test_the_mirror_is_whole_however_the_stream_behaves(name, log, tmp_path):
    odd = OddDirectory(log[0][:FIRST])
    odd.open_stream(HABITS[name])

    async def test():
        async with serving(odd) as url, opened(tmp_path / "tables") as tables:
            tally = await followed(odd, log[0], tables, url)
            await check_whole(tables, log)
            assert tally.operations == len(log[0]), "none was stored twice"
            assert odd.stream.cursors[0] == FIRST
            assert bool(tally.streamed) == (name != "closes at once")
            assert bool(tally.malformed) == bool(odd.stream.habits.garbage_every)
            if name == "honest":
                assert tally.streamed == len(log[0]) - FIRST
                assert (len(odd.stream.cursors), tally.pages) == (1, 2), "it was asked no more"

    asyncio.run(test())


@pytest.mark.slow
@pytest.mark.parametrize("status", [404, 426, 500, 429])
def test_without_a_stream_pages_do(status, log, tmp_path):
    odd = OddDirectory(log[0][:FIRST])
    odd.open_stream(StreamHabits(refusal=status))

    async def test():
        async with serving(odd) as url, opened(tmp_path / "tables") as tables:
            tally = await followed(odd, log[0], tables, url)
            await check_whole(tables, log)
            assert tally.streamed == 0
            assert f"answered {status}" in tally.stream

    asyncio.run(test())


@pytest.mark.parametrize("habits", [StreamHabits(oldest=1 << 40), HONEST_STREAM])
def test_a_cursor_that_the_stream_refuses_leads_to_pages(habits, log, tmp_path):
    """Too old for it; or, where numbers begin anew behind one server of two, too new."""
    odd = OddDirectory(log[0][:FIRST])
    odd.open_stream(habits)

    async def test():
        async with serving(odd) as url, opened(tmp_path / "tables") as tables:
            if habits is HONEST_STREAM:
                answer = odd.stream.answer
                odd.stream.answer = lambda request, last: answer(request, 10)
            tally = await followed(odd, log[0], tables, url)
            await check_whole(tables, log)
            assert tally.streamed == 0
            assert "1008 " in tally.stream and "Cursor" in tally.stream

    asyncio.run(test())


def test_numbers_with_holes_are_looked_up_in_pages(log, tmp_path):
    """A directory may have numbers that stand for nothing: whether they do, its pages say."""
    lines = [{**line, "seq": 10 * line["seq"]} for line in log[0]]
    odd = OddDirectory(lines[:FIRST])
    odd.open_stream(HONEST_STREAM)

    async def test():
        async with serving(odd) as url, opened(tmp_path / "tables") as tables:
            tally = await followed(odd, lines, tables, url)
            await check_whole(tables, (lines, log[1]))
            assert "follows" in tally.stream

    asyncio.run(test())


def test_a_living_world_tells_of_moves_and_rotations_on_its_stream(tmp_path):
    async def test():
        async with open_world(tmp_path, habits=()) as visitor:
            world = visitor.world
            before = len(world.population.log)
            async with opened(tmp_path / "tables") as tables, directory_at(world.plc) as directory:
                stop = asyncio.Event()
                acts = iter(plain_accounts(world))

                def stored(tally):
                    if tally.position - before == 20:
                        stop.set()
                    elif tally.stream == "open" or tally.caught_up:
                        for change in (world.life.move, world.life.rotate):
                            change(next(acts))

                mirror = PlcMirror(directory, tables, stop, follow=True)
                await asyncio.wait_for(mirror.run(stored), DEADLINE)
                told = {(line["cid"], line["seq"]) for line in await lines_of(world)}
                found = {(row[1], row[3]) for row in await tables.rows(OPERATIONS)}
                assert found == told and len(told) == before + 20
                assert mirror.tally.streamed > 0

    asyncio.run(test())


def plain_accounts(world):
    for index in range(world.plan.accounts):
        account = world.population.account(index)
        is_plain = account.story is Story.PLAIN and account.status is AccountStatus.ACTIVE
        if is_plain and account.luck > 0.05:
            yield account


def message(seq, **more):
    return orjson.dumps({"type": "sequenced_op", "seq": seq, **more})


def test_only_what_follows_without_a_gap_is_taken(log):
    place = ExportCursor(ExportForm.SEQ, 10)
    lines = [orjson.dumps(line).decode() for line in log[0][:20]]
    heard = read_messages([*lines[8:14], lines[16]], place, allow_private=True)
    assert [row.seq for row in heard.page.rows] == [11, 12, 13, 14]
    assert heard.page.place.position == 14
    assert heard.why == "sequence number 17 follows 14"
    nothing = read_messages(lines[:10], place, allow_private=True)
    assert (nothing.page.rows, nothing.page.place, nothing.why) == ((), place, "")


@pytest.mark.parametrize(
    "odd", [b"", b"\xff", "no JSON", "[]", "7", '{"seq": "11"}', '{"seq": true}', '{"seq": 1e2}']
)
def test_a_stream_of_something_else_is_left(odd):
    heard = read_messages([odd, odd], ExportCursor(), allow_private=True)
    assert (heard.page.rows, heard.page.malformed) == ((), 2)
    assert heard.why == "it sends no operations"


def test_a_malformed_operation_is_counted_and_passed(log):
    """As in a page: it must not stop the mirror there for ever."""
    lines = [orjson.dumps(line) for line in log[0][:3]]
    broken = message(2, did="did:plc:none")
    heard = read_messages([lines[0], broken, lines[2]], ExportCursor(), allow_private=True)
    assert [row.seq for row in heard.page.rows] == [1, 3]
    assert (heard.page.place.position, heard.page.malformed, heard.why) == (3, 1, "")


def test_a_stream_that_fails_is_tried_less_and_less_and_an_absent_one_hardly():
    tries = StreamTries()
    assert tries.is_due(0.0)
    waits = []
    for _ in range(8):
        tries.fail(0.0, ConnectionDropped("closed"))
        waits.append(next(second for second in range(1000) if tries.is_due(second)))
    assert waits == [5, 10, 20, 40, 80, 160, 300, 300]
    tries.succeed()
    tries.fail(0.0)
    assert tries.is_due(5.0) and not tries.is_due(4.9)
    tries.fail(0.0, NotUpgraded(404, "answered 404"))
    assert tries.is_due(3600.0) and not tries.is_due(3599.0)


def test_the_address_of_a_stream():
    place = ExportCursor(ExportForm.SEQ, 7)
    assert stream_url("https://plc.test", place) == "wss://plc.test/export/stream?cursor=7"
    assert stream_url("http://127.0.0.1:1", place) == "ws://127.0.0.1:1/export/stream?cursor=7"
