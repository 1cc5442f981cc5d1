"""A page that fails is not a host that fails: what a web crawl makes of server errors."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from scripted_web import (
    Answer,
    Answers,
    Crawled,
    ScriptedWeb,
    basic_config,
    crawl_scripted,
    in_virtual_time,
    page,
    reasons,
    scripted_web,
)
from trawlnet.engine.outcome import Reason
from web_site import captures

HOST = "127.0.0.2"


def crawl_one(
    folder: Path, answers: Answers, **config: Any
) -> tuple[ScriptedWeb, Crawled, set[str]]:
    async def main() -> tuple[ScriptedWeb, Crawled]:
        async with scripted_web([HOST], answers) as world:
            async with asyncio.timeout(86_400):
                done = await crawl_scripted(basic_config(**config), folder, [world.url(HOST)])
            return world, done

    world, done = in_virtual_time(main())
    kept = {one.url for one in captures(folder) if one.http_status == 200}
    return world, done, {url.partition(str(world.port))[2] for url in kept}


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
