"""The dashboards of ids and pds in a real browser, with real crawls of simulated worlds."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from selenium import webdriver
from selenium.webdriver.common.by import By

from tests.support.pages.browser import CONTRAST, PHONE, WIDE, show
from tests.support.pages.dashboard_browser import (
    enough_to_see,
    follow,
    picture,
    standing,
    tile,
    until,
)
from tests.support.pages.dashboard_run import dashboard_of
from tests.support.program import started
from tests.support.repos.followed import follow_flags, live_world
from trawlnet.sim.atproto.live.relay_stream import Mischief
from trawlnet.sim.ids import read_manifest

LONG = 90  # Seconds; only a test that fails waits that long.


@contextmanager
def world(folder: Path, *arguments: object) -> Iterator[dict[str, Any]]:
    with started("sim", *arguments, folder=folder) as program:
        program.until(lambda: program.out.endswith("\n"), "the ready line")
        yield json.loads(program.out)


def panel(browser: webdriver.Chrome, title: str) -> list[list[str]]:
    """The rows of its table, whether that is open or not."""
    found = browser.execute_script(
        "return [...document.querySelectorAll('#part-panels figure')]"
        ".filter(f => f.querySelector('h2').textContent === arguments[0])"
        ".flatMap(f => [...f.querySelectorAll('tbody tr')])"
        ".map(row => [...row.children].map(cell => cell.textContent))",
        title,
    )
    return [list(map(str, row)) for row in found]


def well_shown(browser: webdriver.Chrome, name: str) -> None:
    """On a laptop and a phone, in the light and in the dark."""
    browser.get(browser.current_url)
    until(browser, lambda: standing(browser) == "running", "the page")
    picture(browser, name, (1360, 1900), False)
    picture(browser, f"{name}-phone", (PHONE[0], 2600), False)
    for dark in (False, True):
        show(browser, WIDE, dark)
        assert browser.execute_script(CONTRAST) == []
    picture(browser, f"{name}-dark", (1360, 1900), True)
    show(browser, PHONE)
    assert browser.execute_script("return document.documentElement.scrollWidth") <= PHONE[0]
    show(browser, WIDE)


def test_ids_show_lag_workers_and_what_each_decision_came_to(
    browser: webdriver.Chrome, tmp_path: Path
) -> None:
    show(browser, WIDE)
    with world(tmp_path / "api", "ids", "--seed", 3) as api:
        traffic = read_manifest(Path(api["manifest"]))[1]
        target = traffic.head(280.0)
        command = (
            *("ids", "crawl", "-w", tmp_path / "net", "--base-url", api["base_url"]),
            *("--preset", "pgcr", "--target", target, "--buffer", 50, "--max-rps", 120),
            "--allow-private-hosts",
        )
        with (
            started(*command, folder=tmp_path / "talk") as crawl,
            dashboard_of(_begun(crawl, tmp_path / "net")) as site,
        ):
            browser.get(site.url)
            until(browser, lambda: standing(browser) == "running", "the crawl")

            def shows_the_crew() -> bool:
                newest = panel(browser, "Decisions")[0]
                return tile(browser, "tasks in flight").split(" of ")[1] == newest[1]

            def judged() -> list[list[str]]:
                return [row for row in panel(browser, "Decisions") if row[4][:1].isdigit()]

            until(browser, judged, "a decision that was measured", LONG)
            at, workers, rate, expected, measured, why = judged()[0]
            assert len(at) == len("12:00:00") and int(workers) > 0 and why
            assert min(float(n.replace(",", "")) for n in (rate, expected, measured)) >= 0.0
            assert any(row[2] for row in panel(browser, "Ids per second: expected and measured"))
            until(browser, lambda: tile(browser, "lag, 20th percentile").endswith("s"), "the lag")
            until(browser, shows_the_crew, "as many places as the pilot has decided on")
            enough_to_see(browser)
            titles = {"Lag", "Requests that found no id", "Gaps", "Tasks in flight"}
            assert _titles(browser) >= titles
            well_shown(browser, "dashboard-ids")


def test_pds_show_the_registry_and_lead_to_it(browser: webdriver.Chrome, tmp_path: Path) -> None:
    show(browser, WIDE)
    told = {"TRAWLNET_PDS_CONTACT": "you@example.org", "TRAWLNET_PDS_ALLOW_PRIVATE_HOSTS": "true"}
    with world(tmp_path / "sim", "atproto", "--seed", 11, "--scale", 0.5) as network:
        command = (
            *("pds", "crawl", "-w", tmp_path / "net", "--relay", network["relay"]),
            *("--plc-url", network["plc"], "--plc-rps", 500, "--requests-per-minute", 60),
            *("--scan-interval", 2, "--collections", "app.bsky.*"),
        )
        with (
            started(*command, folder=tmp_path / "talk", **told) as crawl,
            dashboard_of(_begun(crawl, tmp_path / "net"), **told) as site,
        ):
            browser.get(site.url)
            until(browser, lambda: standing(browser) == "running", "the crawl")
            until(browser, lambda: len(panel(browser, "Registry by status")) > 1, "scans", LONG)
            until(browser, lambda: len(network["pds"]) == _sum(browser, "status"), "all of it")
            assert _sum(browser, "source") == len(network["pds"])
            enough_to_see(browser)
            well_shown(browser, "dashboard-pds")
            follow(browser, "#part-panels .more a")
            assert browser.current_url.endswith("/registry/")
            assert f"{len(network['pds'])}" in browser.find_element(By.TAG_NAME, "main").text


def _sum(browser: webdriver.Chrome, what: str) -> int:
    """Of a chart of bars: a name, the bar, a number, a share."""
    return sum(int(row[2].replace(",", "")) for row in panel(browser, f"Registry by {what}"))


def _begun(crawl: Any, workspace: Path) -> Path:
    crawl.says("running 0s")
    return workspace


def _titles(browser: webdriver.Chrome) -> set[str]:
    heads = "return [...document.querySelectorAll('h2')].map(one => one.textContent)"
    return set(map(str, browser.execute_script(heads)))


def test_a_follower_shows_its_firehoses(browser: webdriver.Chrome, tmp_path: Path) -> None:
    show(browser, WIDE)
    with live_world(35, tmp_path, accounts=30, hosts=3) as living:
        command = ("repos", "crawl", "--follow", "-w", tmp_path / "net")
        hoses = ("--relay", living.world.relay, "--pds", living.world.pds[0])
        with (
            started(
                *command, *follow_flags(living.world, *hoses), folder=tmp_path / "talk"
            ) as crawl,
            dashboard_of(_begun(crawl, tmp_path / "net")) as site,
        ):
            browser.get(site.url)
            until(browser, lambda: _states(browser) == {"connected"}, "the firehoses", LONG)
            living.write(living.writers()[:5], Mischief.FORGE)
            living.acts(200)
            until(browser, lambda: tile(browser, "messages rejected") > "0", "a rejection", LONG)
            until(browser, lambda: tile(browser, "resyncs") > "0", "a resync", LONG)
            enough_to_see(browser)
            assert {"Live", "Rejected, by reason", "Resyncs"} <= _titles(browser)
            if folder := os.environ.get("TRAWLNET_SCREENSHOTS"):
                show(browser, (1360, 710))
                browser.execute_script("document.querySelector('#live').scrollIntoView()")
                assert browser.save_screenshot(str(Path(folder) / "dashboard-live.png"))
            show(browser, PHONE)
            assert browser.execute_script("return document.documentElement.scrollWidth") <= PHONE[0]
            show(browser, WIDE)


def _states(browser: webdriver.Chrome) -> set[str]:
    found = "return [...document.querySelectorAll('#live tbody .dot')].map(one => one.textContent)"
    return set(map(str, browser.execute_script(found)))
