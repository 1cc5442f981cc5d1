"""Sites whose every answer is written down: server errors, what is left out, and when to stop."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.support.web.scripted import (
    Answer,
    Answers,
    Crawled,
    ScriptedWeb,
    VirtualClock,
    basic_config,
    crawl_scripted,
    in_virtual_time,
    page,
    reasons,
    scripted_web,
)
from tests.support.web.site import captures
from trawlnet.crawlers.web.admission.left_out import read_left_out, worth_telling
from trawlnet.crawlers.web.build import RunRequest, open_crawl
from trawlnet.crawlers.web.plan import engine_limits
from trawlnet.engine.control import Control, Ending
from trawlnet.engine.crawl import crawl
from trawlnet.engine.outcome import Reason
from trawlnet.observe.metrics.crawl import CrawlMetrics

HOST = "127.0.0.2"


def crawl_one(
    folder: Path, answers: Answers, *, paths: Sequence[str] = ("/",), **config: Any
) -> tuple[ScriptedWeb, Crawled, set[str]]:
    async def main() -> tuple[ScriptedWeb, Crawled]:
        async with scripted_web([HOST], answers) as world:
            async with asyncio.timeout(86_400):
                seeds = [world.url(HOST, path) for path in paths]
                done = await crawl_scripted(basic_config(**config), folder, seeds)
            return world, done

    world, done = in_virtual_time(main())
    kept = {one.url for one in captures(folder) if one.http_status == 200}
    return world, done, {url.partition(str(world.port))[2] for url in kept}


@pytest.mark.slow
def test_broken_links_at_the_top_of_a_page_cost_none_of_the_good_ones_behind_them(
    tmp_path: Path,
) -> None:
    broken = [f"/broken/{n}" for n in range(15)]
    good = [f"/good/{n}" for n in range(300)]

    def answers(host: str, target: str, times: int, now: float) -> Answer:
        if target == "/":
            return page(*broken, *good)
        if target in good:
            return page(text=target)
        return Answer(500 if target in broken else 404)

    _, done, kept = crawl_one(tmp_path, answers)
    assert kept == {"/", *good}
    assert reasons(done) == {Reason.UNAVAILABLE: 15}
    assert done.seconds < 450, "the host is well, and is not asked less often for its bad pages"


@pytest.mark.slow
@pytest.mark.parametrize(("rest", "least"), [((), 5.0), ((("Retry-After", "3"),), 3.0)])
def test_pages_that_are_always_throttled_cost_none_of_the_good_ones_behind_them(
    rest: tuple[tuple[str, str], ...], least: float, tmp_path: Path
) -> None:
    """Some sites answer 429 to whoever asks for a search, however seldom."""
    closed = [f"/search/{n}" for n in range(6)]
    good = [f"/good/{n}" for n in range(40)]

    def answers(host: str, target: str, times: int, now: float) -> Answer:
        if target == "/":
            return page(*closed, *good)
        if target in good:
            return page(text=target)
        return Answer(429, headers=rest) if target in closed else Answer(404)

    world, done, kept = crawl_one(tmp_path, answers)
    assert kept == {"/", *good}
    assert reasons(done) == {Reason.RATE_LIMITED: 6}
    firsts = {one.target: one.began for one in reversed(world.log) if one.target in good}
    assert max(firsts.values()) - world.log[0].began < 150, "nobody waits for what never comes"
    for before, after in pairwise(world.log):
        assert before.status != 429 or after.began - before.ended >= least


def test_pages_that_are_always_throttled_go_behind_good_ones_however_deep(tmp_path: Path) -> None:
    closed = [f"/search?q={n}" for n in range(3)]
    depth = 12

    def answers(host: str, target: str, times: int, now: float) -> Answer:
        if target in closed:
            return Answer(429)
        if target == "/robots.txt":
            return Answer(404)
        number = int(target[1:] or 0)
        return page(*closed, *([f"/{number + 1}"] if number < depth else []))

    world, done, kept = crawl_one(tmp_path, answers, caps={"max_depth": depth})
    assert kept == {"/", *(f"/{n}" for n in range(1, depth + 1))}
    assert reasons(done) == {Reason.RATE_LIMITED: 3}
    firsts = {one.target: one.began for one in reversed(world.log)}
    assert firsts[f"/{depth}"] - world.log[0].began < 60, "each of the three costs its wait once"
    depths = {one.url.rpartition("/")[2]: one.depth for one in captures(tmp_path)}
    assert depths == {str(n or ""): n for n in range(depth + 1)}


def test_a_page_that_was_throttled_and_then_comes_has_its_links_at_their_depth(
    tmp_path: Path,
) -> None:
    def answers(host: str, target: str, times: int, now: float) -> Answer:
        if target == "/robots.txt":
            return Answer(404)
        if target == "/late":
            return page("/beneath") if times else Answer(429)
        return page("/late", "/early") if target == "/" else page(text=target)

    _, done, kept = crawl_one(tmp_path, answers, caps={"max_depth": 2})
    assert done.failures == {} and kept == {"/", "/late", "/early", "/beneath"}
    depths = {one.url.rpartition("/")[2]: one.depth for one in captures(tmp_path)}
    assert depths == {"": 0, "late": 1, "early": 1, "beneath": 2}


def test_a_host_that_throttles_everything_is_asked_ever_less(tmp_path: Path) -> None:
    def answers(host: str, target: str, times: int, now: float) -> Answer:
        if target == "/" and not times:
            return page(*(f"/{n}" for n in range(60)))
        return Answer(404) if target == "/robots.txt" else Answer(429)

    world, _, _ = crawl_one(tmp_path, answers, caps={"max_seconds": 3600})
    starts = [one.began for one in world.log[2:]]
    gaps = [round(after - before) for before, after in pairwise(starts)]
    assert gaps == [5 * 2**n for n in range(len(gaps))] and len(gaps) > 7


def test_a_host_that_fails_wholly_is_left_alone_after_few_requests(tmp_path: Path) -> None:
    links = [f"/{n}" for n in range(300)]
    down = False

    def answers(host: str, target: str, times: int, now: float) -> Answer:
        nonlocal down
        if target == "/robots.txt":
            return Answer(404)
        if target == "/" and not down:
            down = True
            return page(*links)
        return Answer(500)

    world, done, kept = crawl_one(tmp_path, answers)
    assert kept == {"/"}
    assert done.counts.blocked > 280
    assert len(world.log) < 30


def test_a_host_that_was_down_for_some_minutes_is_crawled_whole_in_the_same_run(
    tmp_path: Path,
) -> None:
    links = [f"/{n}" for n in range(100)]
    began: list[float] = []

    def answers(host: str, target: str, times: int, now: float) -> Answer:
        if target == "/robots.txt":
            return Answer(404)
        began.append(now)
        if 20 < now - began[0] < 150:
            return Answer(502)
        return page(*links) if target == "/" else page(text=target)

    world, done, kept = crawl_one(tmp_path, answers, limits={"max_retries": 5})
    assert kept == {"/", *links}
    assert done.failures == {}
    assert len(world.log) < 150


@pytest.mark.parametrize("recovers", [True, False])
def test_a_failing_robots_txt_costs_no_page_an_attempt_and_is_asked_for_by_every_probe(
    recovers: bool, tmp_path: Path
) -> None:
    """The seeds are all there is: none of them has been asked for when robots.txt fails."""
    began: list[float] = []

    def answers(host: str, target: str, times: int, now: float) -> Answer:
        began.append(now)
        if not recovers or now - began[0] < 80:
            return Answer(503)
        return Answer(404) if target == "/robots.txt" else page(text=target)

    pages = [f"/{n}" for n in range(40)]
    world, done, kept = crawl_one(tmp_path, answers, paths=pages)
    robots = [one for one in world.log if one.target == "/robots.txt"]
    front = world.asked("/")  # A look whether the host is well.
    assert len(world.log) == len(robots) + len(kept) + front, "every probe asks, nobody else does"
    if recovers:
        assert kept == set(pages) and done.failures == {} and front <= 1
        assert 2 <= len(robots) <= 4
    else:
        assert kept == set() and len(robots) == 4, "the first, and three probes"
        assert done.counts.blocked == 40, "each is left for the next run"
        assert {one.reason for one in done.failures.values()} == {Reason.BLOCKED}


def test_fresh_pages_go_before_those_that_failed(tmp_path: Path) -> None:
    def answers(host: str, target: str, times: int, now: float) -> Answer:
        if target == "/":
            return page("/bad", *(f"/{n}" for n in range(20)))
        return Answer(500) if target == "/bad" and not times else page(text=target)

    world, done, _ = crawl_one(tmp_path, answers, limits={"backoff_base_ms": 10})
    order = [one.target for one in world.log if one.target not in ("/", "/robots.txt")]
    assert done.failures == {}
    assert order[0] == order[-1] == "/bad"


def test_a_page_over_the_size_limit_is_asked_for_once(tmp_path: Path) -> None:
    def answers(host: str, target: str, times: int, now: float) -> Answer:
        return page("/large") if target == "/" else Answer(body=b"x" * 5000)

    world, done, _ = crawl_one(tmp_path, answers, limits={"max_body": 2000})
    assert reasons(done) == {Reason.TOO_LARGE: 1}
    assert world.asked("/large") == 1


def test_headers_of_the_config_are_sent_for_pages(tmp_path: Path) -> None:
    def answers(host: str, target: str, times: int, now: float) -> Answer:
        return page(text=target)

    plain, _, _ = crawl_one(tmp_path / "plain", answers)
    told, _, _ = crawl_one(
        tmp_path / "told", answers, headers={"accept-language": "de", "X-Crawl": "7"}
    )
    assert plain.log[-1].headers["accept-language"] == "en, *;q=0.5"
    assert told.log[-1].headers["accept-language"] == "de"
    assert told.log[-1].headers["x-crawl"] == "7"


def test_pages_that_fail_all_at_once_do_not_block_their_host(tmp_path: Path) -> None:
    """Without a gap many are in flight: they all fail before anybody could ask about the host."""

    def answers(host: str, target: str, times: int, now: float) -> Answer:
        if target == "/":
            return page(*(f"/broken/{n}" for n in range(40)), *(f"/{n}" for n in range(20)))
        return Answer(500, latency=0.1) if "broken" in target else page(text=target)

    limits = {"req_per_sec": 0, "per_host_concurrency": 32, "global_concurrency": 32}
    _, done, kept = crawl_one(tmp_path, answers, limits=limits | {"block_probes": 0})
    assert kept == {"/", *(f"/{n}" for n in range(20))}
    assert reasons(done) == {Reason.UNAVAILABLE: 40}


def test_the_look_at_a_host_keeps_to_the_rest_that_it_has_asked_for(tmp_path: Path) -> None:
    def answers(host: str, target: str, times: int, now: float) -> Answer:
        if target == "/":
            return page(*(f"/{n}" for n in range(8)))
        return Answer(503, headers=(("Retry-After", "7"),)) if target != "/robots.txt" else Answer()

    world, done, _ = crawl_one(tmp_path, answers, limits={"max_retries": 0, "block_after": 3})
    for before, after in zip(world.log, world.log[1:], strict=False):
        assert after.began - before.ended >= before.wait
    assert reasons(done) == {Reason.UNAVAILABLE: 8}


def test_what_is_left_out_is_counted_by_why_over_all_runs(tmp_path: Path) -> None:
    def answers(host: str, target: str, times: int, now: float) -> Answer:
        if target == "/robots.txt":
            return Answer(body=b"User-agent: *\nDisallow: /private", content_type="text/plain")
        if target == "/":
            return page("/a", "/b", "/private/1", "/private/2", "/x/x/x/x/x", "http://other.test/")
        if target == "/a":
            return page(*(f"/deep/{n}" for n in range(5)), "/b", *(f"/{n}" for n in range(3)))
        return page(text=target)

    caps = {"max_depth": 1}
    crawl_one(tmp_path, answers, caps=caps, links={"max_per_page": 7})
    left = read_left_out(tmp_path)
    assert left == {
        "robots.txt": 2,
        "repeating_path": 1,
        "outside_hosts": 1,
        "too many links from a seed": 6,
        "pages with more links than are read": 1,
    }
    assert worth_telling(left) == [
        "6 too many links from a seed (caps.max_depth)",
        "2 robots.txt (the site forbids it)",
        "1 repeating_path (traps.max_repeats)",
        "1 pages with more links than are read (links.max_per_page)",
    ]


def test_caps_that_are_reached_are_named_among_what_is_left_out(tmp_path: Path) -> None:
    def answers(host: str, target: str, times: int, now: float) -> Answer:
        return page(*(f"/list?id={n}" for n in range(9))) if target == "/" else page(text=target)

    _, _, kept = crawl_one(tmp_path, answers, traps={"max_variants": 4})
    assert len(kept) == 5
    assert read_left_out(tmp_path) == {"queries of a path": 5}


@pytest.mark.parametrize("delay", [0, 50])
def test_a_crawl_that_is_told_to_stop_does_not_wait_out_a_gap(tmp_path: Path, delay: int) -> None:
    robots = f"User-agent: *\nCrawl-delay: {delay}".encode()

    def answers(host: str, target: str, times: int, now: float) -> Answer:
        if target == "/robots.txt":
            return Answer(body=robots, content_type="text/plain")
        return page(*(f"/{n}" for n in range(9)))

    async def main() -> tuple[Ending, float, list[str]]:
        clock = VirtualClock()
        async with scripted_web([HOST], answers) as world:
            config = basic_config(limits={"req_per_sec": 0.02})
            order = RunRequest("r1", (world.url(HOST),))
            async with open_crawl(
                config, tmp_path, clock, CrawlMetrics("web", clock), order
            ) as parts:
                control = Control(4)
                asyncio.get_running_loop().call_later(10.0, control.drain)
                began = clock.now()
                ending = await crawl(parts, engine_limits(config), control)
                return ending, clock.now() - began, [one.target for one in world.log]

    ending, took, asked = in_virtual_time(main())
    assert ending is Ending.DRAINED and asked == ["/robots.txt"]
    assert took < 11.0
    _, done, kept = crawl_one(tmp_path / "whole", answers)
    assert done.failures == {} and len(kept) == 10


def test_a_crawl_visits_every_page_that_is_due_again_however_long_the_gap(tmp_path: Path) -> None:
    def answers(host: str, target: str, times: int, now: float) -> Answer:
        return page("/1", "/2", "/3", text=str(times)) if target == "/" else page(text=str(times))

    async def main() -> list[str]:
        revisit = {"enabled": True, "first_interval": 100, "min_interval": 100}
        async with scripted_web([HOST], answers) as world:
            config = basic_config(revisit=revisit, limits={"req_per_sec": 0.1})
            await crawl_scripted(config, tmp_path, [world.url(HOST)])
            await asyncio.sleep(1000.0)
            await crawl_scripted(config, tmp_path, [world.url(HOST)], "r2")
            return [one.target for one in world.log]

    asked = in_virtual_time(main())
    assert sorted(asked) == sorted(["/robots.txt", *("/", "/1", "/2", "/3") * 2])


def test_new_pages_go_before_known_ones_however_soon_those_are_due_again(tmp_path: Path) -> None:
    """A chain: each page leads to one new one, deeper than all before it."""
    most = 40

    def answers(host: str, target: str, times: int, now: float) -> Answer:
        if target == "/robots.txt":
            return Answer(404)
        number = int(target[1:] or 0)
        return page(f"/{number + 1}" if number < most else "/", text=str(now))

    revisit = {"enabled": True, "first_interval": 2, "min_interval": 1}
    world, _, kept = crawl_one(tmp_path, answers, revisit=revisit, caps={"max_depth": None})
    assert len(kept) == most + 1
    asked = [one.target for one in world.log if one.target != "/robots.txt"]
    assert asked[: most + 1] == ["/", *(f"/{n}" for n in range(1, most + 1))]
    depths = {one.url.rpartition("/")[2]: one.depth for one in captures(tmp_path)}
    assert depths == {str(n or ""): n for n in range(most + 1)}, "also of revisits"


def test_a_crawl_ends_though_its_pages_are_due_again_before_it_is_through(tmp_path: Path) -> None:
    def answers(host: str, target: str, times: int, now: float) -> Answer:
        return page(*(f"/{n}" for n in range(9)), text=str(now))

    async def main() -> tuple[int, list[Crawled]]:
        revisit = {"enabled": True, "first_interval": 15, "min_interval": 5}
        async with scripted_web([HOST], answers) as world, asyncio.timeout(3600):
            config, seeds = basic_config(revisit=revisit), [world.url(HOST)]
            first = await crawl_scripted(config, tmp_path, seeds)
            await asyncio.sleep(100.0)
            second = await crawl_scripted(config, tmp_path, seeds, "r2")
            return len(world.log), [first, second]

    asked, runs = in_virtual_time(main())
    assert [one.ending for one in runs] == [Ending.DONE, Ending.DONE]
    assert 21 <= asked < 25


def run_after_run(
    folder: Path, answers: Answers, runs: int, *, paths: Sequence[str] = ("/only",), **config: Any
) -> tuple[ScriptedWeb, list[Crawled]]:
    """The same command again and again, an hour apart."""

    async def main() -> tuple[ScriptedWeb, list[Crawled]]:
        done = []
        async with scripted_web([HOST], answers) as world, asyncio.timeout(864_000):
            seeds = [world.url(HOST, path) for path in paths]
            for run in range(runs):
                done.append(await crawl_scripted(basic_config(**config), folder, seeds, f"r{run}"))
                await asyncio.sleep(3600.0)
        return world, done

    return in_virtual_time(main())


@pytest.mark.parametrize("retries", [3, 0])
@pytest.mark.parametrize(
    "failing",
    [Answer(503), Answer(503, headers=(("Retry-After", "40"),)), Answer(raw=b"")],
    ids=["503", "503 with a time", "no answer"],
)
def test_the_only_page_of_a_host_stays_open_until_its_robots_txt_can_be_had(
    failing: Answer, retries: int, tmp_path: Path
) -> None:
    began: list[float] = []

    def answers(host: str, target: str, times: int, now: float) -> Answer:
        began.append(now)
        if now - began[0] < 5.5 * 3600.0:
            return failing
        return Answer(404) if target == "/robots.txt" else page(text=target)

    world, done = run_after_run(tmp_path, answers, 8, limits={"max_retries": retries})
    down, up = done[:5], done[-1]
    assert all(one.counts.blocked == one.counts.open == 1 for one in down)
    assert all(reasons(one) == {Reason.BLOCKED: 1} for one in down)
    assert all(180.0 < one.seconds < 900.0 for one in down), "each run asks again, not for long"
    assert up.failures == {} and world.asked("/only") == 1


def test_a_page_due_again_outlives_runs_in_which_its_host_cannot_be_reached(
    tmp_path: Path,
) -> None:
    """Its robots.txt is still known from before."""
    began: list[float] = []

    def answers(host: str, target: str, times: int, now: float) -> Answer:
        began.append(now)
        if 1000.0 < now - began[0] < 5.5 * 3600.0:
            return Answer(raw=b"")
        return Answer(404) if target == "/robots.txt" else page(text=str(now))

    revisit = {"enabled": True, "first_interval": 100, "min_interval": 100}
    world, done = run_after_run(tmp_path, answers, 8, revisit=revisit)
    assert [reasons(one) for one in done[1:5]] == [{Reason.BLOCKED: 1}] * 4
    assert all(one.seconds < 900.0 for one in done)
    assert done[-1].failures == {}
    assert sum(one.status == 200 for one in world.log) >= 2


def test_a_page_that_breaks_off_on_a_host_that_answers_is_given_up(tmp_path: Path) -> None:
    def answers(host: str, target: str, times: int, now: float) -> Answer:
        return Answer(404) if target == "/robots.txt" else Answer(raw=b"")

    _, done = run_after_run(tmp_path, answers, 1)
    assert reasons(done[0]) == {Reason.CONNECTION_ERROR: 1} and done[0].counts.open == 0


def test_a_page_that_breaks_off_is_given_up_where_another_page_answers(tmp_path: Path) -> None:
    """Though its robots.txt was not asked for in that run."""
    began: list[float] = []

    def answers(host: str, target: str, times: int, now: float) -> Answer:
        began.append(now)
        if target == "/robots.txt":
            return Answer(404)
        if target == "/":
            return Answer(502)  # A look whether the host is well.
        late = now - began[0] > 1000.0
        return Answer(raw=b"") if late and target == "/bad" else page(text=str(now))

    revisit = {"enabled": True, "first_interval": 100, "min_interval": 100}
    paths = ("/bad", "/good")
    world, done = run_after_run(tmp_path, answers, 2, paths=paths, revisit=revisit)
    assert done[0].failures == {}
    assert reasons(done[1]) == {Reason.CONNECTION_ERROR: 1} and done[1].counts.blocked == 0
    late = [one for one in world.log if one.began - began[0] > 1000.0]
    order = [one.target for one in late if one.target != "/"]
    assert order[:2] == ["/bad", "/good"], "the probe asks for another page"
    assert 5 <= order.count("/bad") <= 6, "a connection that was left open is asked once more"


def test_probes_of_a_suspended_host_use_up_no_try(tmp_path: Path) -> None:
    def answers(host: str, target: str, times: int, now: float) -> Answer:
        return Answer(404 if target == "/robots.txt" else 502)

    limits = {"block_after": 2, "max_retries": 2}
    _, done = run_after_run(tmp_path, answers, 3, paths=("/a", "/b"), limits=limits)
    assert [reasons(one) for one in done[:2]] == [{Reason.BLOCKED: 2}] * 2
    assert reasons(done[2]) == {Reason.UNAVAILABLE: 2}, "each run costs a try, and none of its own"


@pytest.mark.parametrize("status", [204, 205])
def test_an_empty_answer_is_an_answer(tmp_path: Path, status: int) -> None:
    def answers(host: str, target: str, times: int, now: float) -> Answer:
        return page("/empty") if target == "/" else Answer(status)

    _, done, _ = crawl_one(tmp_path, answers)
    assert reasons(done) == {}
    (empty,) = [one for one in captures(tmp_path) if one.url.endswith("/empty")]
    nothing = hashlib.sha256(b"").hexdigest()
    assert (empty.http_status, empty.content_sha256) == (status, nothing)
    assert empty.stored_path, "the body is stored as it came"
    assert (empty.content_bytes, empty.metadata.get("links")) == (0, 0)


def test_a_host_that_has_shown_that_it_is_well_is_not_taken_for_one_that_is_away(
    tmp_path: Path,
) -> None:
    """In a run that has robots.txt from one before, so that nothing else has answered yet."""
    broken, good = ["/broken/1", "/broken/2", "/broken/3"], ["/good/1", "/good/2"]
    torn = "/torn"

    def answers(host: str, target: str, times: int, now: float) -> Answer:
        if target == "/":
            return page(*broken, torn, *good)
        if target == torn:
            return Answer(raw=b"no answer at all\r\n\r\n")
        return page(text=target) if target in good else Answer(500 if target in broken else 404)

    async def main() -> Crawled:
        limits = {"block_after": 3, "block_probes": 0, "global_concurrency": 1}
        async with scripted_web([HOST], answers) as world:
            seeds = [world.url(HOST, "/")]
            first = basic_config(caps={"max_pages": 1}, limits=limits)
            await crawl_scripted(first, tmp_path, seeds)
            return await crawl_scripted(basic_config(limits=limits), tmp_path, seeds, "r2")

    done = in_virtual_time(main())
    kept = {one.url.partition("//")[2].partition("/")[2] for one in captures(tmp_path)}
    assert {"good/1", "good/2"} <= kept
    assert reasons(done) == {Reason.UNAVAILABLE: 3, Reason.CONNECTION_ERROR: 1}
