"""robots.txt over real sockets: one question for many links, and what each answer comes to."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from aiohttp import web

from trawlnet.crawlers.web.admission.robots import RobotsCache, Ruling
from trawlnet.crawlers.web.admission.robots_file import RobotsFile, SavedRobots
from trawlnet.engine.gate import Gate, LaneParked
from trawlnet.engine.outcome import Reason
from trawlnet.engine.rules import Manners, RetryPolicy
from trawlnet.net.clock import SystemClock
from trawlnet.net.guard import Guard
from trawlnet.net.http import Http
from trawlnet.net.lane import lane_of
from trawlnet.webpage.robots_answer import RobotsPolicy

AGENT = "bot/1.0 (+https://example.org/bot)"
MANNERS = Manners(rate=1000.0, concurrency=1, gap_from_end=True)
DAY = 86_400.0


class LaterClock(SystemClock):
    """The system's clock, which a test can put forward."""

    later = 0.0

    def now(self) -> float:
        return super().now() + self.later


Answer = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


@dataclass
class Host:
    """Answers as it is told, and counts."""

    answer: Answer
    asked: list[str] = field(default_factory=list)

    async def __call__(self, request: web.BaseRequest) -> web.StreamResponse:
        self.asked.append(request.path)
        return await self.answer(request)


@dataclass
class World:
    host: Host
    origin: str
    clock: LaterClock
    gate: Gate
    http: Http
    file: Path

    def cache(self, **policy: float) -> RobotsCache:
        file = RobotsFile(self.file)
        rules = RobotsPolicy("bot", **policy)
        retry = RetryPolicy(base=0.01)
        return RobotsCache(self.http, self.gate, self.clock, rules, MANNERS, file, retry, 2.0)


def text(body: str, status: int = 200, **headers: str) -> Answer:
    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        return web.Response(text=body, status=status, headers=headers)

    return answer


@asynccontextmanager
async def world(folder: Path, answer: Answer) -> AsyncIterator[World]:
    host, clock = Host(answer), LaterClock()
    server = web.Server(host)
    listener = await asyncio.get_running_loop().create_server(server, "127.0.0.1", 0)
    origin = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}"
    gate = Gate(clock, MANNERS)
    try:
        async with Http(gate, clock, AGENT, guard=Guard(allow_private=True)) as http:
            yield World(host, origin, clock, gate, http, folder / "robots.jsonl")
    finally:
        listener.close()
        await server.shutdown(1.0)


Story = Callable[[World], Awaitable[None]]


def tell(folder: Path, answer: Answer, story: Story) -> None:
    async def main() -> None:
        async with world(folder, answer) as here:
            await story(here)

    asyncio.run(main())


def test_many_links_wait_for_one_question(tmp_path: Path) -> None:
    async def slow(request: web.BaseRequest) -> web.StreamResponse:
        await asyncio.sleep(0.05)
        return web.Response(text="User-agent: *\nDisallow: /no")

    async def story(here: World) -> None:
        cache = here.cache()
        rulings = await asyncio.gather(*(cache.ruling(here.origin) for _ in range(50)))
        assert len(here.host.asked) == 1
        assert not any(ruling.rules.allows("/no") for ruling in rulings)
        assert all(ruling.rules.allows("/yes") for ruling in rulings)

    tell(tmp_path, slow, story)


def test_a_failure_is_one_question_too_and_only_whoever_asked_is_told_of_it(
    tmp_path: Path,
) -> None:
    async def story(here: World) -> None:
        cache, lane = here.cache(), lane_of(here.origin)
        here.gate.treat(lane, replace(MANNERS, probes=3))
        told = await asyncio.gather(
            *(cache.ruling(here.origin) for _ in range(30)), return_exceptions=True
        )
        assert len(here.host.asked) == 1
        (ruling,) = [one for one in told if isinstance(one, Ruling)]
        assert ruling.trouble is not None and ruling.trouble.reason is Reason.UNAVAILABLE
        assert "HTTP 503" in ruling.trouble.detail
        assert sum(isinstance(one, LaneParked) for one in told) == 29
        assert cache.known(here.origin) is None
        here.gate.observe(lane, ruling.trouble)
        with pytest.raises(LaneParked):  # One failure suspends it: every page would fail.
            await cache.ruling(here.origin)
        assert len(here.host.asked) == 1
        here.clock.later = MANNERS.first_probe + 1.0
        here.host.answer = text("User-agent: *\nDisallow: /no")
        assert (await cache.ruling(here.origin)).trouble is None, "a probe asks"

    tell(tmp_path, text("", 503), story)


def test_there_is_no_second_question_before_the_host_is_suspended(tmp_path: Path) -> None:
    async def story(here: World) -> None:
        cache = here.cache()
        assert (await cache.ruling(here.origin)).trouble is not None
        with pytest.raises(LaneParked):  # The gate has not heard of the failure yet.
            await cache.ruling(here.origin)
        assert len(here.host.asked) == 1
        here.clock.later = 1.5
        assert (await cache.ruling(here.origin)).trouble is not None
        assert len(here.host.asked) == 2

    tell(tmp_path, text("", 503), story)


@pytest.mark.parametrize("status", [403, 404, 410, 401])
def test_no_file_allows_everything(status: int, tmp_path: Path) -> None:
    async def story(here: World) -> None:
        ruling = await here.cache().ruling(here.origin)
        assert ruling.trouble is None and ruling.rules.allows("/anything")

    tell(tmp_path, text("User-agent: *\nDisallow: /", status), story)


def test_a_copy_is_kept_over_a_restart_and_asked_for_again_after_its_day(tmp_path: Path) -> None:
    async def story(here: World) -> None:
        await here.cache().ruling(here.origin)
        again = await here.cache().ruling(here.origin)
        assert not again.rules.allows("/no") and len(here.host.asked) == 1
        here.clock.later = DAY + 1
        here.host.answer = text("User-agent: *\nDisallow: /other")
        fresh = await here.cache().ruling(here.origin)
        assert fresh.rules.allows("/no") and not fresh.rules.allows("/other")
        assert len(here.host.asked) == 2

    tell(tmp_path, text("User-agent: *\nDisallow: /no"), story)


@pytest.mark.parametrize("restarted", [True, False])
def test_the_last_good_copy_stands_while_its_host_fails(restarted: bool, tmp_path: Path) -> None:
    async def story(here: World) -> None:
        cache = here.cache()
        await cache.ruling(here.origin)
        here.host.answer = text("", 500)
        here.clock.later = DAY + 1
        for _ in range(3):
            cache = here.cache() if restarted else cache
            ruling = await cache.ruling(here.origin)
            assert ruling.trouble is None
            assert not ruling.rules.allows("/no") and ruling.rules.allows("/yes")
        assert len(here.host.asked) == 2
        here.clock.later = 40 * DAY
        ruling = await cache.ruling(here.origin)
        assert ruling.trouble is not None and not ruling.rules.allows("/yes")

    tell(tmp_path, text("User-agent: *\nDisallow: /no"), story)


@pytest.mark.parametrize("status", [429, 403])
def test_whoever_names_a_time_is_asked_again_then(tmp_path: Path, status: int) -> None:
    async def story(here: World) -> None:
        cache = here.cache()
        ruling = await cache.ruling(here.origin)
        assert ruling.trouble is not None
        assert (ruling.trouble.reason, ruling.trouble.wait) == (Reason.RATE_LIMITED, 7.0)
        here.host.answer = text("User-agent: *\nDisallow: /no")
        here.clock.later = 8.0
        assert (await cache.ruling(here.origin)).trouble is None

    tell(tmp_path, text("", status, **{"Retry-After": "7"}), story)


def test_a_broken_connection_is_tried_again_before_it_counts(tmp_path: Path) -> None:
    async def flaky(request: web.BaseRequest) -> web.StreamResponse:
        if len(tries) < 2:
            tries.append(1)
            assert request.transport is not None
            request.transport.abort()
        return web.Response(text="User-agent: *\nDisallow: /no")

    tries: list[int] = []

    async def story(here: World) -> None:
        ruling = await here.cache().ruling(here.origin)
        assert ruling.trouble is None and not ruling.rules.allows("/no")

    tell(tmp_path, flaky, story)


def test_redirects_are_followed_up_to_five_and_then_there_is_no_file(tmp_path: Path) -> None:
    def hops(most: int) -> Answer:
        async def answer(request: web.BaseRequest) -> web.StreamResponse:
            number = int(request.query_string or 0)
            if number < most:
                return web.Response(status=302, headers={"Location": f"/robots.txt?{number + 1}"})
            return web.Response(text="User-agent: *\nDisallow: /no")

        return answer

    async def story(here: World) -> None:
        assert not (await here.cache().ruling(here.origin)).rules.allows("/no")
        here.host.answer = hops(6)
        here.clock.later = DAY + 1
        assert (await here.cache().ruling(here.origin)).rules.allows("/no")

    tell(tmp_path, hops(5), story)


def test_a_file_of_any_size_is_read_as_far_as_it_counts(tmp_path: Path) -> None:
    padding = "# nothing\n" * 51_000

    async def story(here: World) -> None:
        ruling = await here.cache().ruling(here.origin)
        assert not ruling.rules.allows("/no") and ruling.rules.allows("/yes")

    body = f"User-agent: *\n{padding}Disallow: /no\n" + "# and on\n" * 200_000
    assert 500_000 < len(padding) < 512 * 1024
    tell(tmp_path, text(body), story)


def test_a_crawl_delay_slows_its_host_also_after_a_restart(tmp_path: Path) -> None:
    async def story(here: World) -> None:
        await here.cache(delay_cap=10.0).ruling(here.origin)
        lane = here.origin.removeprefix("http://")
        assert here.gate.manners(lane).rate == pytest.approx(2.0, rel=0.02)
        assert here.gate.ready_at(lane) > here.clock.now() + 0.3
        here.gate.treat(lane, MANNERS)
        await here.cache(delay_cap=0.25).ruling(here.origin)
        assert here.gate.manners(lane).rate == pytest.approx(4.0, rel=0.03)

    tell(tmp_path, text("User-agent: *\nCrawl-delay: 0.5\n"), story)


def test_a_torn_line_of_the_file_is_cut_and_the_rest_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "robots.jsonl"
    file = RobotsFile(path)
    kept = SavedRobots("http://a", 5.0, 200, b"\xff\x00text", 1.0)
    file.put(kept)
    file.put(SavedRobots("http://b", 5.0))
    file.close()
    path.write_bytes(path.read_bytes()[:-7])
    again = RobotsFile(path)
    assert again.get("http://a") == kept and again.get("http://b") is None
    again.put(SavedRobots("http://c", 9.0))
    again.close()
    assert RobotsFile(path).get("http://c") == SavedRobots("http://c", 9.0)


def test_the_file_does_not_grow_with_answers_that_were_replaced(tmp_path: Path) -> None:
    path = tmp_path / "robots.jsonl"
    file = RobotsFile(path)
    for number in range(3000):
        file.put(SavedRobots(f"http://h{number % 10}", float(number), 200, b"x" * 100, 1.0))
    file.close()
    before = path.stat().st_size
    again = RobotsFile(path)
    assert path.stat().st_size < before / 100
    assert again.get("http://h9") == SavedRobots("http://h9", 2999.0, 200, b"x" * 100, 1.0)
