"""One Redis database belongs to one crawl of one workspace."""

from __future__ import annotations

import asyncio
import json
import socket
from pathlib import Path

import pytest

from tests.support.program import Ran, trawlnet
from tests.support.servers import RedisServer
from trawlnet.cli.dashboard.fleet import FleetPlace
from trawlnet.cli.dashboard.places import places_of
from trawlnet.crawlers.binding import bind
from trawlnet.crawlers.errors import NotReady
from trawlnet.crawlers.web.build import RunRequest, open_crawl
from trawlnet.crawlers.web.config import WebConfig
from trawlnet.net.clock import SystemClock
from trawlnet.observe.dashboard.place import Action, ActionOrder, CrawlPlace, NotDone
from trawlnet.observe.metrics.crawl import CrawlMetrics
from trawlnet.stores.redis.work.store import RedisStore


def test_keys_are_those_of_one_crawler_in_one_workspace(
    redis: RedisServer, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    one, moved = tmp_path / "one", tmp_path / "moved"

    async def main() -> None:
        store = await RedisStore.open(redis.url, prefix=f"{request.node.name}:")
        for _ in range(2):
            await bind(store, one, "web")
        for workspace, crawler in ((tmp_path / "other", "web"), (one, "repos")):
            with pytest.raises(NotReady, match="another workspace") as refused:
                await bind(store, workspace, crawler)
            assert "trawlnet web reset" in refused.value.hint
            assert str(one) in refused.value.message
            assert not (workspace / "state" / crawler).exists()
        one.rename(moved)
        await bind(store, moved, "web")
        await store.close()

    asyncio.run(main())


def test_a_crawl_of_the_web_does_not_go_on_with_that_of_another_workspace(
    redis: RedisServer, tmp_path: Path
) -> None:
    config = WebConfig.model_validate(
        {
            "redis_address": f"{redis.url.rpartition('/')[0]}/9",
            "robots": {"user_agent": "bot/1.0 (+https://example.org/bot)"},
        }
    )

    async def opened(workspace: Path) -> None:
        clock = SystemClock()
        order = RunRequest("r1", ("http://site.invalid/",))
        async with open_crawl(config, workspace, clock, CrawlMetrics("web", clock), order):
            pass

    asyncio.run(opened(tmp_path / "one"))
    with pytest.raises(NotReady, match="another workspace"):
        asyncio.run(opened(tmp_path / "two"))
    asyncio.run(opened(tmp_path / "one"))


def test_other_verbs_do_not_touch_the_crawl_of_another_workspace(
    redis: RedisServer, tmp_path: Path
) -> None:
    url = f"{redis.url.rpartition('/')[0]}/8"
    one, two = tmp_path / "one", tmp_path / "two"

    async def bound() -> None:
        store = await RedisStore.open(url, prefix="crawler:")
        await bind(store, one, "web")
        await store.close()

    asyncio.run(bound())
    two.mkdir()

    def run(verb: str, workspace: Path, *more: str) -> Ran:
        return trawlnet("web", verb, "-w", workspace, "--store", url, "--json", *more)

    for verb, more in (("retry", ()), ("reset", ("--yes",))):
        refused = run(verb, two, *more)
        assert refused.code == 1 and f"another workspace: {socket.gethostname()}" in refused.err
    assert str(one) in json.loads(run("status", two).out)["held_by"]
    assert json.loads(run("status", one).out)["held_by"] is None
    assert run("retry", one).code == 0
    one.rename(tmp_path / "gone")
    assert run("retry", two).code == 1
    forgotten = run("reset", two, "--yes")
    assert forgotten.code == 0 and f"the crawl of {socket.gethostname()}:{one}" in forgotten.err
    assert run("retry", two).code == 0


def test_the_buttons_of_a_dashboard_do_not_touch_the_crawl_of_another_workspace(
    redis: RedisServer, tmp_path: Path
) -> None:
    url = f"{redis.url.rpartition('/')[0]}/7"
    one, two = tmp_path / "one", tmp_path / "two"
    for workspace in (one, two):
        (workspace / "state" / "web").mkdir(parents=True)
        (workspace / "trawlnet.yaml").write_text(f"web:\n  redis_address: {url}\n")

    async def press(place: CrawlPlace, action: Action) -> str:
        try:
            return await place.obey(ActionOrder("web", action))
        except NotDone as refusal:
            return f"refused: {refusal}"

    async def main() -> None:
        clock = SystemClock()
        store = await RedisStore.open(url, prefix="crawler:")
        await bind(store, one, "web")
        (own,), (foreign,) = places_of(one, clock), places_of(two, clock)
        assert (await press(own, Action.RETRY)).startswith("0 keys reopened")
        before = await store.ask("HGETALL", "wishes")
        said = await press(foreign, Action.RETRY)
        assert said.startswith("refused: Nothing was reopened: this Redis database holds the crawl")
        assert f"another workspace: {socket.gethostname()}:{one}" in said
        fleet = FleetPlace(url, "web", clock, two)
        for action in Action:
            assert "of another workspace" in await press(fleet, action), action
        assert await store.ask("HGETALL", "wishes") == before, "nothing was written"
        await fleet.close()
        await store.close()

    asyncio.run(main())
