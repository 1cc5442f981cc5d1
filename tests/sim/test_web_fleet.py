"""A web crawl shared by shards: the reachable pages, each once, politely, within its limits."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.fleet.run import Tasks
from tests.support.fleet.web import (
    captured,
    check_captured,
    least_gap,
    pages_of,
    robots_asked,
    split_site,
    web_crawl_with,
    web_fleet_config,
    web_job,
)
from tests.support.servers import redis_server
from tests.support.web.site import reachable
from trawlnet.cli.common.errors import Exit
from trawlnet.cli.fleet.command import crawl_with_shards
from trawlnet.cli.web.crawler import WEB
from trawlnet.cli.web.fleet import shards_of
from trawlnet.crawlers.errors import NotReady
from trawlnet.crawlers.web.admission.left_out import TOO_DEEP
from trawlnet.crawlers.web.config import WebConfig
from trawlnet.crawlers.web.shared import check_shareable
from trawlnet.fleet.compose_captures import CaptureComposer
from trawlnet.fleet.supervise import Seen, begin
from trawlnet.sim.web import WebWorld
from trawlnet.storage.objects import FolderObjects
from trawlnet.stores.redis.fleet.shards import FleetKeys, Word

PATIENCE = 150.0  # Seconds; only a test that fails waits that long.
RATE = 50.0  # Requests per second to one host.


def with_site(
    folder: Path, use: Callable[[WebWorld, str], Awaitable[None]], hosts: int = 6, pages: int = 20
) -> WebWorld:
    """The site is closed then, and its log complete."""

    async def main(url: str) -> WebWorld:
        async with split_site(folder, hosts, pages) as world:
            await asyncio.wait_for(use(world, url), PATIENCE)
        return world

    with redis_server() as server:
        return asyncio.run(main(server.url))


@pytest.mark.slow
def test_shards_capture_everything_once_and_hosts_see_one_visitor(tmp_path: Path) -> None:
    archive = str(tmp_path / "archive")

    async def use(world: WebWorld, url: str) -> None:
        config = web_fleet_config(world, url, archive, limits={"req_per_sec": RATE})
        runtime = Tasks(web_job(config, tmp_path / "scratch"))
        assert await web_crawl_with(config, runtime) is Word.DONE
        before = captured(archive)
        # Told again, the same crawl finds nothing to do, and ends.
        runtime = Tasks(web_job(config, tmp_path / "scratch"))
        assert await web_crawl_with(config, runtime) is Word.DONE
        assert captured(archive) == before

    log = tmp_path / "requests.jsonl"
    check_captured(with_site(tmp_path, use), captured(archive), log)
    assert set(robots_asked(log).values()) == {1}
    assert least_gap(log) >= 1.0 / RATE
    assert list((tmp_path / "archive" / "parts").iterdir()) == []


@pytest.mark.slow
def test_lanes_move_between_shards_and_no_host_notices(tmp_path: Path) -> None:
    """From two shards to three to one while they crawl, each time within a gap."""
    archive, rate = str(tmp_path / "archive"), 1.0

    async def use(world: WebWorld, url: str) -> None:
        config = web_fleet_config(world, url, archive, limits={"req_per_sec": rate})
        keys = await FleetKeys.open(url)
        plans, changes = [3, 1], set[asyncio.Task[object]]()

        def show(seen: Seen) -> None:
            full = len(seen.shards) == seen.plan.shards
            if plans and full and all(row["attempts"] for row in seen.shards.values()):
                changes.add(asyncio.create_task(keys.change(shards=plans.pop(0))))

        runtime = Tasks(web_job(config, tmp_path / "scratch"))
        assert await web_crawl_with(config, runtime, show) is Word.DONE
        await keys.close()
        assert plans == [] and set(runtime.started) == {0, 1, 2}

    log = tmp_path / "requests.jsonl"
    check_captured(with_site(tmp_path, use, pages=9), captured(archive), log)
    assert least_gap(log) >= 1.0 / rate


@pytest.mark.slow
def test_a_budget_of_pages_is_exact_over_all_shards_and_the_next_run_has_its_own(
    tmp_path: Path,
) -> None:
    async def use(world: WebWorld, url: str) -> None:
        archive = str(tmp_path / "archive")
        config = web_fleet_config(world, url, archive, caps={"max_pages": 17})
        for run in (1, 2):
            runtime = Tasks(web_job(config, tmp_path / "scratch"))
            assert await web_crawl_with(config, runtime) is Word.LIMIT
            found = pages_of(captured(archive))
            assert len(found) == found.total() == 17 * run

    with_site(tmp_path, use)


def test_a_budget_of_bytes_ends_the_crawl_of_all_shards(tmp_path: Path) -> None:
    archive = str(tmp_path / "archive")

    async def use(world: WebWorld, url: str) -> None:
        limits = {"req_per_sec": RATE}
        config = web_fleet_config(world, url, archive, caps={"max_bytes": "50KB"}, limits=limits)
        runtime = Tasks(web_job(config, tmp_path / "scratch"))
        assert await web_crawl_with(config, runtime) is Word.LIMIT

    world = with_site(tmp_path, use)
    found = pages_of(captured(archive))
    assert 0 < len(found) < len(reachable(world, "link", "sitemap"))


def test_caps_hold_over_hosts_of_different_shards(tmp_path: Path) -> None:
    async def use(world: WebWorld, url: str) -> None:
        archive = str(tmp_path / "archive")
        one_for_all = {"name": "all articles", "pattern": "(/articles/)", "max_pages": 5}
        config = web_fleet_config(world, url, archive, caps={"scopes": [one_for_all]})
        runtime = Tasks(web_job(config, tmp_path / "scratch"))
        assert await web_crawl_with(config, runtime) is Word.DONE
        lines = [line for line in captured(archive) if 200 <= line.http_status < 300]
        assert sum("/articles/" in line.url for line in lines) == 5 < len(lines)

    with_site(tmp_path, use)


def test_the_end_and_the_status_of_a_fleet_say_what_was_left_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async def use(world: WebWorld, url: str) -> None:
        archive = str(tmp_path / "archive")
        caps, limits = {"max_depth": 1}, {"req_per_sec": RATE}
        config = web_fleet_config(world, url, archive, caps=caps, limits=limits)
        shards = shards_of(config, {})
        for as_json in (False, True):
            runtime = Tasks(web_job(config, tmp_path / "scratch"))
            assert await crawl_with_shards(shards, runtime, as_json) == Exit.GIVEN_UP
        facts = await WEB.facts(config, tmp_path)
        said = capsys.readouterr()
        summary = json.loads(said.out.splitlines()[-1])
        # Links from the second page on are too deep, on hosts of both shards.
        assert summary["left_out"][TOO_DEEP] > 20
        assert facts["left_out"] == summary["left_out"]
        # From any machine: `web status --store URL` names no archive.
        elsewhere = config.model_copy(update={"archive": ""})
        assert await WEB.facts(elsewhere, tmp_path / "none") == facts
        assert f" {TOO_DEEP} (caps.max_depth)" in said.err

    with_site(tmp_path, use)


def test_seeds_that_are_added_to_a_crawl_are_visited(tmp_path: Path) -> None:
    archive = str(tmp_path / "archive")

    async def use(world: WebWorld, url: str) -> None:
        first, *others = [world.site.base(host) + "/" for host in range(4)]
        keys = await FleetKeys.open(url)
        for seeds in ([first], [first, *others]):
            more: dict[str, Any] = {"seeds": seeds, "caps": {"max_depth": 0}}
            config = web_fleet_config(world, url, archive, **more)
            assert await web_crawl_with(config, Tasks(web_job(config, tmp_path / "s"))) is Word.DONE
            assert {line.url for line in captured(archive)} == set(seeds)
            # As if it had been cut short: the next command goes on with the same run.
            await keys.change(word=Word.DRAIN)
        await keys.close()

    with_site(tmp_path, use, pages=2)


def test_an_archive_of_a_crawl_that_redis_does_not_know_is_refused(tmp_path: Path) -> None:
    async def main(url: str) -> None:
        keys = await FleetKeys.open(url)
        objects = FolderObjects(tmp_path)
        composer = CaptureComposer(keys, objects)
        await composer.check_place()
        objects.put("manifest/captures_0001.json", b"{}")
        with pytest.raises(NotReady, match="another crawl"):
            await composer.check_place()
        await begin(keys, 1, "web")
        await composer.check_place()
        await keys.close()

    with redis_server() as server:
        asyncio.run(main(server.url))


def test_a_redis_that_holds_another_crawlers_fleet_is_refused() -> None:
    async def main(url: str) -> None:
        keys = await FleetKeys.open(url)
        await begin(keys, 1, "repos")
        with pytest.raises(NotReady, match="a fleet of repos"):
            await begin(keys, 1, "web")
        await keys.close()

    with redis_server() as server:
        asyncio.run(main(server.url))


@pytest.mark.parametrize(
    "more",
    [
        {"redis_address": ""},
        {"archive": ""},
        {"revisit": {"enabled": True}},
        {"store": {"near_duplicates": "note"}},
        {"metrics_address": ":9000"},
    ],
    ids=lambda more: next(iter(more)),
)
def test_what_a_fleet_cannot_do_is_refused(more: dict[str, Any]) -> None:
    good = {"redis_address": "redis://localhost", "archive": "s3://bucket/site"}
    check_shareable(WebConfig.model_validate(good))
    with pytest.raises(NotReady) as told:
        check_shareable(WebConfig.model_validate(good | more))
    assert told.value.hint
