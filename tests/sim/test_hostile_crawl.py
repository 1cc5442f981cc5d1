"""A crawl over hosts of every habit: each ends in its own reason, in time, in little memory."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from aiohttp import web

from tests.support.servers import free_port
from trawlnet.captures.blobs import BlobStore
from trawlnet.captures.records import RecordSink, latest
from trawlnet.engine.control import Control, Ending
from trawlnet.engine.crawl import Feed, Limits, Parts, crawl
from trawlnet.engine.gate import Gate
from trawlnet.engine.outcome import Outcome, Reason
from trawlnet.engine.ports import Failure, Page
from trawlnet.engine.rules import Manners, RetryPolicy
from trawlnet.engine.task import Task
from trawlnet.net.agent import user_agent
from trawlnet.net.client import answer
from trawlnet.net.clock import SystemClock
from trawlnet.net.guard import Guard
from trawlnet.net.http import Http
from trawlnet.net.lane import lane_of
from trawlnet.sim.habits import Habit, Temper, misbehave
from trawlnet.sim.serve import Call, Served, bind_hosts, loopback_hosts, serve
from trawlnet.stores.open import open_store

BODY = b"<p>honest</p>" * 300
TEMPER = Temper(slow=0.2, drip_gap=0.2, drip_size=16, throttle_wait=1, bomb_size=1 << 30)
HTTP = answer.RequestLimits(total=60.0, wire=4 << 20, inflated=8 << 20)
# Others end by themselves, however busy the machine is: only these are waited for in vain.
ENDLESS = replace(HTTP, total=0.5)
PAGES = 4  # Per host.

ENDS_IN = {
    Habit.GOOD: Reason.OK,
    Habit.SLOW: Reason.OK,
    Habit.FLAPPING: Reason.OK,
    Habit.THROTTLE_RETRY_AFTER: Reason.OK,
    Habit.THROTTLE_DATE: Reason.OK,
    Habit.THROTTLE_RESET: Reason.OK,
    Habit.THROTTLE_BARE: Reason.OK,
    Habit.DRIP: Reason.TIMEOUT,
    Habit.STALL: Reason.TIMEOUT,
    Habit.SERVER_ERROR: Reason.UNAVAILABLE,
    Habit.TRUNCATING: Reason.TRUNCATED,
    Habit.RESET: Reason.TRUNCATED,
    Habit.HUGE: Reason.TOO_LARGE,
    Habit.BOMB: Reason.TOO_LARGE,
    Habit.LONG_HEADERS: Reason.TOO_LARGE,
    Habit.ENDLESS_FRAMING: Reason.TOO_LARGE,
    Habit.REDIRECT_PRIVATE: Reason.REFUSED,
    Habit.REDIRECT_LOOP: Reason.LOOP,
    Habit.GARBAGE: Reason.CONNECTION_ERROR,
    Habit.DEAD: Reason.CONNECTION_ERROR,
}
HOSTS = dict(zip(ENDS_IN, loopback_hosts(len(ENDS_IN)), strict=True))


async def start_world() -> Served:
    async def honest() -> web.Response:
        return web.Response(body=BODY, content_type="text/html")

    async def respond(call: Call) -> web.StreamResponse:
        habit = next(habit for habit, host in HOSTS.items() if host == call.host)
        return await misbehave(
            habit, call.request, honest, turn=call.turn, now=call.now, temper=TEMPER
        )

    listening = [host for habit, host in HOSTS.items() if habit is not Habit.DEAD]
    return await serve(respond, bind_hosts(listening, free_port()), clock=SystemClock())


class AllPages:
    def __init__(self, port: int) -> None:
        self._port = port

    async def pages(self, after: str | None) -> AsyncIterator[Page]:
        urls = [f"http://{host}:{self._port}/{n}" for host in HOSTS.values() for n in range(PAGES)]
        yield Page([Task(url, lane_of(url), url) for url in urls], "all")


async def crawl_all(folder: Path, port: int) -> tuple[list[Failure], float]:
    """Returns the failures, and how far anonymous memory rose above where it began, in bytes."""
    clock = SystemClock()
    store = await open_store(folder / "state")
    sink = RecordSink(BlobStore(folder / "blobs"), folder / "index.jsonl")
    gate = Gate(clock, Manners(rate=50.0, first_park=1.0, block_at=100))
    guard = Guard(exempt=frozenset((host, port) for host in HOSTS.values()))
    endless = {f"{HOSTS[habit]}:{port}" for habit in (Habit.DRIP, Habit.STALL)}
    async with Http(gate, clock, user_agent("tests@example.org"), guard=guard, limits=HTTP) as http:

        async def fetch(task: Task) -> Outcome:
            limits = ENDLESS if task.lane in endless else HTTP
            got = await http.get(task.payload, lane=task.lane, limits=limits)
            if isinstance(got, answer.Response) and got.reason is Reason.OK:
                return Outcome(Reason.OK, items=[got.body])
            return answer.outcome_of(got)

        parts = Parts(Feed(AllPages(port), store), store, fetch, sink, gate, clock)
        limits = Limits(retry=RetryPolicy(attempts=4, base=0.1))
        before, peak = anonymous_bytes(), 0
        crawling = asyncio.create_task(crawl(parts, limits, Control(24)))
        while not crawling.done():
            peak = max(peak, anonymous_bytes())
            await asyncio.sleep(0.02)
        assert await crawling is Ending.DONE
    failures = [failure async for failure in store.failures()]
    await store.close()
    sink.close()
    return failures, peak - before


def anonymous_bytes() -> int:
    for line in Path("/proc/self/smaps_rollup").read_text().splitlines():
        if line.startswith("Anonymous:"):
            return int(line.split()[1]) * 1024
    raise AssertionError("no figure for anonymous memory")


@pytest.fixture(scope="module")
def crawled(tmp_path_factory: pytest.TempPathFactory) -> dict[str, object]:
    folder = tmp_path_factory.mktemp("hostile")

    async def main() -> dict[str, object]:
        world = await start_world()
        began = time.monotonic()
        try:
            failures, grown = await crawl_all(folder, world.port)
        finally:
            await world.close()
        return {
            "stored": set(latest(folder / "index.jsonl")),
            "failures": {failure.key: failure for failure in failures},
            "seconds": time.monotonic() - began,
            "grown": grown,
            "port": world.port,
        }

    return asyncio.run(main())


@pytest.mark.parametrize("habit", ENDS_IN, ids=str)
def test_every_habit_ends_in_its_own_reason(habit: Habit, crawled: dict) -> None:
    urls = [f"http://{HOSTS[habit]}:{crawled['port']}/{n}" for n in range(PAGES)]
    if ENDS_IN[habit] is Reason.OK:
        assert set(urls) <= crawled["stored"]
        return
    assert not set(urls) & crawled["stored"]
    assert {crawled["failures"][url].reason for url in urls} == {ENDS_IN[habit]}
    assert all(crawled["failures"][url].detail for url in urls)


def test_nothing_else_was_stored_or_lost(crawled: dict) -> None:
    assert len(crawled["stored"]) + len(crawled["failures"]) == PAGES * len(ENDS_IN)


def test_bodies_without_end_do_not_fill_the_memory(crawled: dict) -> None:
    # Each of the 24 workers may hold one body at its cap, and the chunk that broke it.
    assert crawled["grown"] < 24 * (HTTP.inflated + (1 << 20))


def test_it_is_over_when_the_deadlines_are(crawled: dict) -> None:
    # A lane in trouble gets one worker: four pages, four tries, a deadline each, and the back-off.
    worst = PAGES * 4 * (ENDLESS.total + 1.0)
    # Without deadlines it would never be; a busy machine may be late.
    assert crawled["seconds"] < worst * 5
