"""The dashboard of a fleet at work, in a real browser: two shards, found by their Redis alone."""

from __future__ import annotations

import asyncio
from pathlib import Path

from selenium import webdriver
from selenium.webdriver.common.by import By

from tests.support.fleet.watched import WatchedFleet, watched_fleet
from tests.support.pages.browser import PHONE, WIDE, show
from tests.support.pages.dashboard_browser import (
    done,
    enough_to_see,
    follow,
    fresh,
    hosts,
    is_gone,
    picture,
    standing,
    tile,
    until,
)
from tests.support.pages.dashboard_run import Dashboard, dashboard_of
from trawlnet.engine.ports import Counts
from trawlnet.fleet.history import read_fleet_history
from trawlnet.stores.redis.fleet.shards import FleetKeys, Word
from trawlnet.stores.redis.work.store import RedisStore


def test_a_fleet_is_watched_paused_frozen_drained_and_retried(
    browser: webdriver.Chrome, tmp_path: Path
) -> None:
    show(browser, WIDE)
    with (
        watched_fleet(tmp_path / "fleet") as fleet,
        dashboard_of(tmp_path / "none", "--store", fleet.redis.url) as site,
    ):
        _numbers_move(browser, site)
        _every_shard_tells_of_its_hosts(browser)
        _pause_and_resume(browser)
        _pictures(browser)
        _a_frozen_shard_is_shown_as_such(browser, fleet)
        _drain(browser, fleet)
        assert asyncio.run(_samples(fleet.redis.url)) > 0
        _retry(browser, fleet)


def shards(browser: webdriver.Chrome) -> dict[str, list[str]]:
    """By number: state, where, pid, attempts/s, in flight, memory, last report."""
    found = browser.execute_script(
        "return [...document.querySelectorAll('#part-panels figure')]"
        ".filter(f => f.querySelector('h2').textContent === 'Shards of the fleet')"
        ".flatMap(f => [...f.querySelectorAll('tbody tr')])"
        ".map(row => [...row.children].map(cell => cell.textContent))"
    )
    return {str(row[0]).split()[1]: [str(cell) for cell in row[1:]] for row in found}


def _numbers_move(browser: webdriver.Chrome, site: Dashboard) -> None:
    browser.get(site.url)
    until(browser, lambda: standing(browser) == "running", "the fleet to be seen running")
    story = "#part-standing span"
    until(
        browser,
        lambda: browser.find_element(By.CSS_SELECTOR, story).text == "2 of 2 shards running",
        "both shards",
    )
    first = done(browser)
    until(browser, lambda: done(browser) > first, "more to be done")
    until(browser, lambda: fresh(browser) == "Live.", "fresh figures")


def _every_shard_tells_of_its_hosts(browser: webdriver.Chrome) -> None:
    well = {"reading", "working"}
    until(browser, lambda: {row[0] for row in shards(browser).values()} <= well, "the shards")
    assert len({row[2] for row in shards(browser).values()}) == 2, "two processes"
    until(browser, lambda: len(hosts(browser)) >= 12, "hosts of both shards")
    assert any(float(row[2].replace("no limit", "0")) > 0 for row in hosts(browser))


def _pause_and_resume(browser: webdriver.Chrome) -> None:
    follow(browser, "#do-pause")
    assert browser.find_element(By.TAG_NAME, "h1").text == "Pause the repos crawl?"
    follow(browser, "#yes")
    until(browser, lambda: standing(browser) == "paused", "the pause")
    until(browser, lambda: {row[0] for row in shards(browser).values()} == {"paused"}, "both")
    until(browser, lambda: tile(browser, "tasks in flight").startswith("0 of"), "rest")
    follow(browser, "#do-resume")
    follow(browser, "#yes")
    until(browser, lambda: standing(browser) == "running", "the fleet to go on")
    before = done(browser)
    until(browser, lambda: done(browser) > before, "more to be done after the pause")


def _a_frozen_shard_is_shown_as_such(browser: webdriver.Chrome, fleet: WatchedFleet) -> None:
    fleet.freeze(1)
    until(browser, lambda: shards(browser)["1"][0] in ("silent", "gone"), "the silence")
    until(browser, lambda: shards(browser)["1"][0] == "gone", "its end")
    until(browser, lambda: shards(browser)["0"][0] in ("reading", "working"), "the other one")
    fleet.wake(1)
    until(browser, lambda: shards(browser)["1"][0] in ("reading", "working"), "its return")


def _drain(browser: webdriver.Chrome, fleet: WatchedFleet) -> None:
    follow(browser, "#do-drain")
    follow(browser, "#yes")
    until(browser, lambda: standing(browser) == "ended", "the end")
    until(browser, lambda: fleet.ended == [Word.DRAIN], "whoever commands it to notice")
    is_gone(browser, "do-stop")


def _retry(browser: webdriver.Chrome, fleet: WatchedFleet) -> None:
    before = asyncio.run(_counts(fleet.redis.url))
    follow(browser, "#part-reasons td.act a")
    follow(browser, "#yes")
    after = asyncio.run(_counts(fleet.redis.url))
    assert after.open > before.open
    assert sum(after.settled.values()) < sum(before.settled.values())
    assert asyncio.run(_again(fleet.redis.url)) == 1, "shards running would look again"


def _pictures(browser: webdriver.Chrome) -> None:
    enough_to_see(browser)
    browser.get(browser.current_url.partition("?")[0])
    picture(browser, "dashboard-fleet", (1360, 1900), False)
    picture(browser, "dashboard-fleet-dark", (1360, 1900), True)
    picture(browser, "dashboard-fleet-phone", (PHONE[0], 2600), False)


async def _counts(url: str) -> Counts:
    store = await RedisStore.open(url)
    try:
        return await store.counts()
    finally:
        await store.close()


async def _samples(url: str) -> int:
    keys = await FleetKeys.open(url)
    try:
        return len(await read_fleet_history(keys.window, 0.0, 100))
    finally:
        await keys.close()


async def _again(url: str) -> int:
    keys = await FleetKeys.open(url)
    try:
        return (await keys.window.wishes()).again
    finally:
        await keys.close()
