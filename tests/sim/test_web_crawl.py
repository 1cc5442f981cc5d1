"""The web crawler over a simulated web: all that may be had is had, once, as politely as asked."""

from __future__ import annotations

import asyncio
import csv
import itertools
import json
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import pytest
from aiohttp import web

from tests.support.web.site import (
    Crawled,
    asked,
    captures,
    config_for,
    crawled,
    forbidden,
    gaps,
    host_of,
    index,
    page_keys,
    page_rows,
    reachable,
    requests,
    scraped,
)
from trawlnet.crawlers.web.config import LimitsSection, WebConfig
from trawlnet.crawlers.web.ledger import open_ledger
from trawlnet.crawlers.web.unscraped import Unscraped, UnscrapedFile, read_unscraped
from trawlnet.engine.control import Ending
from trawlnet.engine.outcome import Reason
from trawlnet.net.clock import SystemClock
from trawlnet.sim.habits import Habit, Temper
from trawlnet.sim.web import WebWorld, serve_web
from trawlnet.sim.web.robots import Shape, shape

T = TypeVar("T")
PROBES = LimitsSection().block_probes


@asynccontextmanager
async def served(folder: Path, **options: Any) -> AsyncIterator[WebWorld]:
    chosen: dict[str, Any] = {"hosts": 4, "pages": 24, "crawl_delay": 0.01, "digests": False}
    world = await serve_web(
        7,
        manifest=folder / "manifest.jsonl",
        clock=SystemClock(),
        log=folder / "requests.jsonl",
        **(chosen | options),
    )
    try:
        yield world
    finally:
        await world.close()


def in_world(folder: Path, visit: Callable[[WebWorld], Awaitable[T]], **options: Any) -> T:
    async def main() -> T:
        async with served(folder, **options) as world:
            return await visit(world)

    return asyncio.run(main())


def fails(world: WebWorld, host: int) -> bool:
    return shape(world.site, host) is Shape.FAILING


@pytest.mark.slow
def test_every_page_that_may_be_had_is_captured_once_and_no_other_is_asked_for(
    tmp_path: Path,
) -> None:
    log, site = tmp_path / "requests.jsonl", tmp_path / "site"

    async def visit(world: WebWorld) -> tuple[Crawled, WebWorld]:
        return await crawled(config_for(world), site, world.seeds), world

    done, world = in_world(tmp_path, visit, hosts=12, pages=40)
    wanted = reachable(world, "link", "sitemap")
    assert done.ending is Ending.DONE
    assert len(wanted) > 250
    assert sorted(page_keys(site)) == sorted(wanted)
    assert set(asked(log)) & forbidden(world) == set()
    assert not any("/maze/" in key or "/calendar/" in key for key in asked(log))
    again = {key: n for key, n in asked(log).items() if n > 1 and "/gone/" not in key}
    failing = [name for host, name in enumerate(world.site.hosts) if fails(world, host)]
    assert sorted(again.values()) == [1 + PROBES] * len(failing), "server errors, by probes"
    assert all(key.endswith("/robots.txt") and host_of(key) in failing for key in again)


def test_robots_txt_is_asked_for_once_on_every_host_and_obeyed_in_every_shape(
    tmp_path: Path,
) -> None:
    log, site = tmp_path / "requests.jsonl", tmp_path / "site"

    async def visit(world: WebWorld) -> tuple[Crawled, WebWorld]:
        return await crawled(config_for(world), site, world.seeds), world

    done, world = in_world(tmp_path, visit, hosts=12, pages=12)
    robots = Counter(row["host"] for row in requests(log) if row["path"] == "/robots.txt")
    failing = [host for host in range(12) if fails(world, host)]
    names = {world.site.hosts[host] for host in failing}
    assert {n for host, n in robots.items() if host not in names} == {1}
    for host in failing:
        name = world.site.hosts[host]
        paths = [row["path"] for row in requests(log) if row["host"] == name]
        assert paths == ["/robots.txt"] * (1 + PROBES), "each probe of the host asks again"
        mine = [one for one in done.failures.values() if host_of(one.key) == name]
        assert mine
        assert {one.reason for one in mine} <= {Reason.UNAVAILABLE, Reason.BLOCKED}
        assert any("robots.txt: HTTP 503" in one.detail for one in mine)


def test_a_restart_asks_nobody_for_robots_txt_again_and_fetches_no_page_twice(
    tmp_path: Path,
) -> None:
    log, site = tmp_path / "requests.jsonl", tmp_path / "site"

    async def visit(world: WebWorld) -> None:
        await crawled(config_for(world, caps={"max_pages": 20}), site, world.seeds, "r1")
        await crawled(config_for(world), site, (), "r2")

    in_world(tmp_path, visit)
    seen = asked(log)
    assert {key: n for key, n in seen.items() if n > 1 and "/gone/" not in key} == {}


def test_the_gap_to_each_host_and_its_crawl_delay_are_kept(tmp_path: Path) -> None:
    log, site = tmp_path / "requests.jsonl", tmp_path / "site"

    async def visit(world: WebWorld) -> WebWorld:
        config = config_for(world, limits={"req_per_sec": 25}, caps={"max_pages": 60})
        await crawled(config, site, world.seeds)
        return world

    world = in_world(tmp_path, visit, crawl_delay=0.1, latency=0.005)
    shortest = gaps(log)
    assert len(shortest) >= 3
    for number, host in enumerate(world.site.hosts):
        if host in shortest:
            delay = 0.1 if shape(world.site, number) is Shape.PLAIN else 0.04
            assert shortest[host] >= delay - 0.001


def test_hosts_at_one_address_share_its_gap(tmp_path: Path) -> None:
    """Two names of 127.0.0.1: what one is asked counts for the other."""

    async def main() -> None:
        async def page(request: web.BaseRequest) -> web.StreamResponse:
            began = clock.now()
            hosts.append((request.headers["Host"].partition(":")[0], began))
            if request.path == "/robots.txt":
                return web.Response(status=404)
            links = "".join(f'<a href="/{n}">{n}</a>' for n in range(8))
            return web.Response(text=links, content_type="text/html")

        clock, hosts = SystemClock(), list[tuple[str, float]]()
        server = web.Server(page)
        listener = await asyncio.get_running_loop().create_server(server, "127.0.0.1", 0)
        port = listener.sockets[0].getsockname()[1]
        try:
            config = WebConfig.model_validate(
                {
                    "allow_private_hosts": True,
                    "limits": {"req_per_sec": 20, "global_concurrency": 8},
                    "caps": {"max_pages": 12},
                }
            )
            seeds = [f"http://localhost:{port}/", f"http://127.0.0.1:{port}/"]
            await crawled(config, tmp_path / "site", seeds)
        finally:
            listener.close()
            await server.shutdown(1.0)
        starts = [at for _, at in hosts]
        assert {name for name, _ in hosts} == {"localhost", "127.0.0.1"}
        assert min(b - a for a, b in itertools.pairwise(starts)) >= 0.05 - 0.002

    asyncio.run(main())


HOSTILE = {
    Habit.DRIP: {Reason.TIMEOUT},
    Habit.BOMB: {Reason.TOO_LARGE},
    Habit.HUGE: {Reason.TOO_LARGE},
    Habit.LONG_HEADERS: {Reason.TOO_LARGE},
    Habit.ENDLESS_FRAMING: {Reason.TOO_LARGE},
    Habit.TRUNCATING: {Reason.TRUNCATED},
    Habit.RESET: {Reason.TRUNCATED},
    Habit.REDIRECT_LOOP: {Reason.LOOP, Reason.OK},
    Habit.REDIRECT_PRIVATE: {Reason.REFUSED},
    Habit.SERVER_ERROR: {Reason.UNAVAILABLE},
    Habit.GARBAGE: {Reason.CONNECTION_ERROR},
    Habit.STALL: {Reason.TIMEOUT},
    Habit.DEAD: {Reason.BLOCKED},  # Its page stays for the next run.
}


def test_every_hostile_habit_is_survived_and_ends_in_its_reason(tmp_path: Path) -> None:
    site = tmp_path / "site"
    temper = Temper(drip_gap=0.2, bomb_size=64 << 20, huge_size=64 << 20, longest=20.0)

    async def visit(world: WebWorld) -> tuple[Crawled, WebWorld]:
        config = config_for(world, limits={"request_timeout": 1.0, "max_retries": 1})
        return await crawled(config, site, world.seeds), world

    done, world = in_world(tmp_path, visit, hosts=2, pages=10, habits=tuple(HOSTILE), temper=temper)
    assert done.ending is Ending.DONE
    for number, habit in enumerate(world.site.habits):
        if habit is Habit.GOOD:
            continue
        name = world.site.hosts[number]
        mine = [one for one in done.failures.values() if host_of(one.key) == name]
        words = {one.reason for one in mine}
        assert mine, habit
        assert words - {Reason.BLOCKED} <= HOSTILE[habit] and words & HOSTILE[habit], (
            habit,
            [(o.reason, o.detail) for o in mine],
        )
    assert set(page_keys(site)) >= reachable(world, "link")


def test_a_host_that_throttles_is_waited_for_and_then_crawled_whole(tmp_path: Path) -> None:
    site = tmp_path / "site"
    habits = (Habit.THROTTLE_RETRY_AFTER, Habit.FLAPPING)

    async def visit(world: WebWorld) -> tuple[Crawled, WebWorld]:
        config = config_for(world, limits={"max_retries": 5})
        return await crawled(config, site, world.seeds), world

    done, world = in_world(
        tmp_path, visit, hosts=1, pages=6, habits=habits, temper=Temper(throttle_every=5)
    )
    assert sorted(page_keys(site)) == sorted(reachable(world, "link", "sitemap"))
    assert done.counts.attempts[Reason.RATE_LIMITED] > 0
    assert done.counts.attempts[Reason.UNAVAILABLE] > 0


def test_redirects_are_new_urls_with_a_capture_of_their_own(tmp_path: Path) -> None:
    site = tmp_path / "site"

    async def visit(world: WebWorld) -> WebWorld:
        await crawled(config_for(world), site, world.seeds)
        return world

    world = in_world(tmp_path, visit, hosts=6, pages=60)
    known = index(site)
    moved = {
        row["url"]: row
        for row in page_rows(world)
        if row["status"] // 100 == 3
        and row["allowed"]
        and row["via"]
        and row["hop"] == 0
        and (row["location"].startswith("/") or str(world.site.port) in row["location"])
    }
    captured = {url: page for url, page in known.items() if page.http_status // 100 == 3}
    assert moved and set(captured) & set(moved)
    targets = {
        line.url: line.metadata["redirect"] for line in captures(site) if line.url in captured
    }
    for url in set(captured) & set(moved):
        assert targets[url].endswith(moved[url]["location"].rpartition("://")[2])


def test_a_redirect_to_another_spelling_of_the_same_page_is_followed_on_the_spot(
    tmp_path: Path,
) -> None:
    async def main() -> None:
        async def page(request: web.BaseRequest) -> web.StreamResponse:
            if request.path == "/robots.txt":
                return web.Response(status=404)
            if request.path == "/" and request.query_string:
                return web.Response(status=302, headers={"Location": "/"})
            return web.Response(text="<p>here", content_type="text/html")

        server = web.Server(page)
        listener = await asyncio.get_running_loop().create_server(server, "127.0.0.1", 0)
        seed = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}/?utm_source=x"
        try:
            config = WebConfig.model_validate({"allow_private_hosts": True})
            done = await crawled(config, tmp_path / "site", [seed])
        finally:
            listener.close()
            await server.shutdown(1.0)
        assert done.settled == {Reason.OK: 1}
        (line,) = captures(tmp_path / "site")
        assert (line.url, line.http_status, list(line.hops)) == (seed, 200, [seed])
        assert line.final_url == seed.partition("?")[0]

    asyncio.run(main())


def test_depth_is_counted_in_links_and_bounded(tmp_path: Path) -> None:
    site = tmp_path / "site"

    async def visit(world: WebWorld) -> WebWorld:
        config = config_for(world, caps={"max_depth": 1}, sitemaps={"enabled": False})
        await crawled(config, site, world.seeds)
        return world

    world = in_world(tmp_path, visit, hosts=4, pages=40)
    depths = {page["url"]: page["depth"] for page in page_rows(world)}
    wanted = {url for url in reachable(world, "link") if (depths.get(url) or 0) <= 1}
    assert set(page_keys(site)) == wanted
    assert {page.depth for page in index(site).values()} == {0, 1}


def test_a_cap_counts_successes_and_holds_over_restarts(tmp_path: Path) -> None:
    site = tmp_path / "site"
    caps = {"scopes": [{"name": "host", "pattern": "^(http://[^/]+)/", "max_pages": 7}]}

    async def visit(world: WebWorld) -> WebWorld:
        for run in ("r1", "r2", "r3"):
            stop = {"max_pages": 5} if run != "r3" else {}
            await crawled(config_for(world, caps=caps | stop), site, world.seeds, run)
        return world

    world = in_world(tmp_path, visit)
    kept = Counter(host_of(url) for url, page in index(site).items() if page.http_status == 200)
    assert kept and set(kept.values()) == {7}
    assert len(kept) == len(world.site.hosts)


def test_a_budget_of_pages_is_exact_and_ends_the_run(tmp_path: Path) -> None:
    site = tmp_path / "site"

    async def visit(world: WebWorld) -> Crawled:
        return await crawled(config_for(world, caps={"max_pages": 13}), site, world.seeds)

    done = in_world(tmp_path, visit)
    assert done.ending is Ending.LIMIT
    assert len(page_keys(site)) == 13
    assert done.counts.open > 0


def test_a_budget_of_bytes_ends_the_run(tmp_path: Path) -> None:
    async def visit(world: WebWorld) -> Crawled:
        config = config_for(world, caps={"max_bytes": "100KB"})
        return await crawled(config, tmp_path / "site", world.seeds)

    assert in_world(tmp_path, visit).ending is Ending.LIMIT


def test_a_scrape_asks_with_validators_and_writes_rows_for_what_is_unchanged(
    tmp_path: Path,
) -> None:
    site = tmp_path / "site"

    async def visit(world: WebWorld) -> Crawled:
        await crawled(config_for(world), site, world.seeds)
        return await scraped(config_for(world), site)

    done = in_world(tmp_path, visit)
    first = {line.url: line for line in captures(site) if line.run == "r1"}
    second = [line for line in captures(site) if line.run == "s1"]
    html = {url for url, line in first.items() if line.http_status == 200 and line.stored_path}
    assert {line.url for line in second} == html
    unchanged = [line for line in second if line.http_status == 304]
    assert len(unchanged) == done.settled[Reason.NOT_MODIFIED] > len(second) / 2
    for line in unchanged:
        assert line.content_bytes == 0
        assert line.content_sha256 == first[line.url].content_sha256
    rows = list(csv.DictReader((site / "logs" / "pages-s1-scrape.csv").open(newline="")))
    assert len(rows) == len(second) and len(rows[0]) == 17
    bookmark = json.loads((site / "state" / "spool_bookmark.json").read_text())
    spool = site / "spool" / "discoveries" / bookmark["file"]
    assert bookmark["offset"] == spool.stat().st_size


def test_a_scrape_of_a_consumed_spool_asks_for_nothing(tmp_path: Path) -> None:
    site = tmp_path / "site"

    async def visit(world: WebWorld) -> Crawled:
        config = config_for(world, caps={"max_pages": 10})
        await crawled(config, site, world.seeds)
        await scraped(config_for(world), site, "s1")
        return await scraped(config_for(world), site, "s2")

    assert in_world(tmp_path, visit).settled == {}


def test_a_scrape_takes_a_spool_that_another_program_wrote(tmp_path: Path) -> None:
    site, spool = tmp_path / "site", tmp_path / "site" / "spool" / "discoveries"

    async def visit(world: WebWorld) -> Crawled:
        spool.mkdir(parents=True)
        rows = [{"url": url, "page_type": "topic", "depth": 3} for url in world.seeds]
        lines = [json.dumps(row) for row in (*rows, {"no": "url"})]
        (spool / "discoveries-1760293778.jsonl").write_text("\n".join(lines) + '\n{"url": "torn')
        return await scraped(config_for(world, scope={"allowed_hosts": []}), site, again=False)

    done = in_world(tmp_path, visit)
    assert done.settled == {Reason.OK: 3}
    assert {(line.page_type, line.depth) for line in captures(site)} == {("topic", 3)}
    assert "not a discovery" in (spool / "discoveries.poison.jsonl").read_text()


def test_a_host_that_is_down_does_not_keep_a_scrape_from_its_end(tmp_path: Path) -> None:
    site, spool = tmp_path / "site", tmp_path / "site" / "spool" / "discoveries"

    async def visit(world: WebWorld) -> Crawled:
        spool.mkdir(parents=True)
        dead = world.site.base(1)
        rows = [{"url": f"{dead}/{n}"} for n in range(40)] + [{"url": world.seeds[0]}]
        text = "".join(f"{json.dumps(row)}\n" for row in rows)
        (spool / "discoveries-000000000001.jsonl").write_text(text)
        return await scraped(config_for(world), site)

    done = in_world(tmp_path, visit, hosts=1, habits=(Habit.DEAD,))
    assert done.ending is Ending.DONE
    assert done.settled[Reason.OK] == 1
    bookmark = json.loads((site / "state" / "spool_bookmark.json").read_text())
    assert bookmark["offset"] == (spool / "discoveries-000000000001.jsonl").stat().st_size


def test_what_a_scrape_gave_up_on_is_told_and_asked_again_after_a_retry(tmp_path: Path) -> None:
    site, spool = tmp_path / "site", tmp_path / "site" / "spool" / "discoveries"
    state = site / "state" / "web"

    async def told(config: WebConfig) -> dict[str, Reason]:
        async with open_ledger(config, state) as ledger:
            return {one.key: one.reason async for one in ledger.failures()}

    async def visit(world: WebWorld) -> tuple[list[dict[str, Reason]], list[int], Crawled]:
        spool.mkdir(parents=True)
        dead, lost = f"{world.site.base(1)}/1", f"{world.site.base(0)}/no-such-page"
        rows = [{"url": one, "page_type": "topic"} for one in (dead, lost, world.seeds[0])]
        text = "".join(f"{json.dumps(row)}\n" for row in rows)
        (spool / "discoveries-000000000001.jsonl").write_text(text)
        config = config_for(world)
        await scraped(config, site)
        found, again = [await told(config)], []
        async with open_ledger(config, state) as ledger:
            again = [await ledger.retry(Reason.NOT_FOUND), await ledger.retry(Reason.NOT_FOUND)]
        found.append(await told(config))
        third = await scraped(config, site, "s2")
        found.append(await told(config))
        assert found[0][lost] is Reason.NOT_FOUND
        assert found[0][dead] in (Reason.CONNECTION_ERROR, Reason.BLOCKED)
        return found, again, third

    found, again, third = in_world(tmp_path, visit, hosts=1, habits=(Habit.DEAD,))
    assert len(found[0]) == 2 and again == [1, 0]
    assert list(found[1].values()) != [Reason.NOT_FOUND] and len(found[1]) == 1
    assert third.settled[Reason.NOT_FOUND] == 1 and len(found[2]) == 2


def test_a_failure_of_a_scrape_is_over_when_the_page_is_fetched(tmp_path: Path) -> None:
    path = tmp_path / "unscraped.jsonl"
    rows = [Unscraped(f"http://a.test/{n}", "a.test", Reason.TIMEOUT, "", 2, 5.0) for n in "ab"]
    fetched = {"http://a.test/a": 4.0, "http://a.test/b": 6.0}
    file = UnscrapedFile(path, lambda url: 0.0)
    file.add([*rows, rows[0]])
    file.close()
    path.write_bytes(path.read_bytes() + b'{"torn')
    assert read_unscraped(path, lambda url: 0.0) == [rows[1], rows[0]]
    assert read_unscraped(path, fetched.__getitem__) == [rows[0]]


def test_pages_are_visited_again_when_they_are_due_and_only_changed_ones_are_sent(
    tmp_path: Path,
) -> None:
    site = tmp_path / "site"
    revisit = {"enabled": True, "min_interval": 0.05, "max_interval": 0.05}

    async def visit(world: WebWorld) -> tuple[Crawled, Crawled]:
        config = config_for(world, revisit=revisit, caps={"max_pages": 30, "max_depth": None})
        first = await crawled(config, site, world.seeds)
        await world.advance()
        await asyncio.sleep(0.1)
        config = config_for(world, revisit=revisit, caps={"max_pages": 60, "max_depth": None})
        return first, await crawled(config, site, world.seeds, "r2")

    first, second = in_world(tmp_path, visit)
    assert first.counts.scheduled > 0
    assert second.counts.attempts[Reason.NOT_MODIFIED] > 0
    again = [line for line in captures(site) if line.run == "r2"]
    assert {line.http_status for line in again} >= {200, 304}


@pytest.mark.slow
@pytest.mark.parametrize("wanted", [True, False])
def test_links_that_say_nofollow_are_followed_only_if_told_to(wanted: bool, tmp_path: Path) -> None:
    site = tmp_path / "site"

    async def visit(world: WebWorld) -> WebWorld:
        config = config_for(world, robots={"follow_nofollow": wanted})
        await crawled(config, site, world.seeds)
        return world

    world = in_world(tmp_path, visit, hosts=3, pages=60)
    ways = ("link", "sitemap", "nofollow") if wanted else ("link", "sitemap")
    extra = reachable(world, "nofollow")
    assert extra
    assert set(page_keys(site)) == reachable(world, *ways)


def test_other_types_are_noted_and_not_stored_unless_wanted(tmp_path: Path) -> None:
    site = tmp_path / "site"

    async def visit(world: WebWorld) -> None:
        await crawled(config_for(world), site, world.seeds)

    in_world(tmp_path, visit, hosts=3, pages=60)
    files = [line for line in captures(site) if "/files/" in line.url]
    assert files
    assert all(line.metadata == {"not_html": True} and not line.stored_path for line in files)


def test_a_host_is_asked_through_its_proxy_and_the_rows_say_so(tmp_path: Path) -> None:
    async def main() -> None:
        asked_for: list[str] = []

        async def proxy(request: web.BaseRequest) -> web.StreamResponse:
            asked_for.append(request.raw_path)
            if request.path.endswith("/robots.txt"):
                return web.Response(status=404)
            return web.Response(text="<a href=/two>two</a>", content_type="text/html")

        server = web.Server(proxy)
        listener = await asyncio.get_running_loop().create_server(server, "127.0.0.1", 0)
        place = f"127.0.0.1:{listener.sockets[0].getsockname()[1]}"
        config = WebConfig.model_validate(
            {
                "robots": {"user_agent": "bot/1.0 (+https://example.org/bot)"},
                "limits": {"req_per_sec": 100},
                "proxies": {"hosts": {"site.invalid": f"http://{place}"}},
            }
        )
        try:
            done = await crawled(config, tmp_path, ["http://site.invalid/"])
        finally:
            listener.close()
            await server.shutdown(1.0)
        assert done.settled == {Reason.OK: 2}
        assert asked_for == [f"http://site.invalid{path}" for path in ("/robots.txt", "/", "/two")]
        assert {line.proxy_id for line in captures(tmp_path)} == {place}

    asyncio.run(main())


def test_a_large_file_that_is_not_stored_is_noted_and_not_fetched(tmp_path: Path) -> None:
    async def main() -> None:
        async def page(request: web.BaseRequest) -> web.StreamResponse:
            if request.path == "/robots.txt":
                return web.Response(status=404)
            if request.path == "/":
                return web.Response(text="<a href=/film>film</a>", content_type="text/html")
            response = web.StreamResponse(headers={"Content-Type": "video/mp4"})
            response.content_length = 1 << 40
            await response.prepare(request)
            await response.write(b"x" * 1000)
            return response

        server = web.Server(page)
        listener = await asyncio.get_running_loop().create_server(server, "127.0.0.1", 0)
        seed = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}/"
        config = WebConfig.model_validate({"allow_private_hosts": True})
        try:
            done = await crawled(config, tmp_path, [seed])
        finally:
            listener.close()
            await server.shutdown(1.0)
        assert done.settled == {Reason.OK: 2}
        assert captures(tmp_path)[-1].metadata == {"not_html": True}

    asyncio.run(main())


@pytest.mark.parametrize(("choice", "followed"), [("note", True), ("skip_links", False)])
def test_a_near_duplicate_is_noted_and_its_links_are_left_if_told_so(
    choice: str, followed: bool, tmp_path: Path
) -> None:
    words = " ".join(f"word{n % 97} of{n % 89} text{n % 83}" for n in range(400))

    async def main() -> None:
        async def page(request: web.BaseRequest) -> web.StreamResponse:
            if request.path == "/robots.txt":
                return web.Response(status=404)
            further = {"/": "/copy", "/copy": "/beyond"}.get(request.path, "/")
            body = f"<p>{words}</p><a href={further}>on</a>"
            return web.Response(text=body, content_type="text/html")

        server = web.Server(page)
        listener = await asyncio.get_running_loop().create_server(server, "127.0.0.1", 0)
        seed = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}/"
        config = WebConfig.model_validate(
            {
                "allow_private_hosts": True,
                "limits": {"req_per_sec": 50},
                "store": {"near_duplicates": choice},
            }
        )
        try:
            await crawled(config, tmp_path, [seed])
        finally:
            listener.close()
            await server.shutdown(1.0)
        lines = {line.url.removeprefix(seed): line for line in captures(tmp_path)}
        assert ("beyond" in lines) is followed
        assert lines["copy"].metadata["near_duplicate"] is True
        assert "near_duplicate" not in lines[""].metadata

    asyncio.run(main())


def test_a_503_slows_the_whole_host(tmp_path: Path) -> None:
    async def main() -> None:
        times: dict[str, float] = {}
        clock = SystemClock()

        async def page(request: web.BaseRequest) -> web.StreamResponse:
            if request.path == "/robots.txt":
                return web.Response(status=404)
            first = request.path not in times
            times.setdefault(request.path, clock.now())
            if request.path == "/busy" and first:
                return web.Response(status=503)
            return web.Response(
                text="<a href=/busy>1</a><a href=/next>2</a>", content_type="text/html"
            )

        server = web.Server(page)
        listener = await asyncio.get_running_loop().create_server(server, "127.0.0.1", 0)
        seed = f"http://127.0.0.1:{listener.sockets[0].getsockname()[1]}/"
        limits = {"req_per_sec": 100, "backoff_base_ms": 400}
        config = WebConfig.model_validate({"allow_private_hosts": True, "limits": limits})
        try:
            done = await crawled(config, tmp_path, [seed])
        finally:
            listener.close()
            await server.shutdown(1.0)
        assert done.settled == {Reason.OK: 3}
        assert times["/next"] - times["/busy"] >= 0.25

    asyncio.run(main())
