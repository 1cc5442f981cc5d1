"""The dashboard in a real browser, with real crawls of the simulated web.

TRAWLNET_SCREENSHOTS=docs/img keeps pictures of it; without that nothing is written.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from selenium import webdriver
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from tests.support.pages.browser import CONTRAST, PHONE, SMALL, WIDE, show
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
from tests.support.pages.dashboard_run import (
    HOSTILE,
    Dashboard,
    crawl_of,
    dashboard_of,
    made_workspace,
    many_lanes,
    small_web,
)
from tests.support.program import started, trawlnet


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dashboard]:
    """A crawl that was killed, with three thousand hosts."""
    path = made_workspace(tmp_path_factory.mktemp("large") / "w", many_lanes(3000))
    with dashboard_of(path) as site:
        yield site


def test_a_crawl_is_watched_paused_resumed_killed_and_looked_at_again(
    browser: webdriver.Chrome, tmp_path: Path
) -> None:
    show(browser, WIDE)
    workspace = tmp_path / "net"
    with (
        small_web(tmp_path / "web") as world,
        started(*crawl_of(world, workspace), folder=tmp_path / "talk") as crawl,
    ):
        crawl.says("running 0s")
        with dashboard_of(workspace) as site:
            _numbers_move(browser, site)
            _a_parked_host_shows_why(browser, f"{world.site.hosts[-1]}:{world.site.port}")
            _pause_and_resume(browser, workspace)
            _frontier(browser)
            _pictures(browser)
            crawl.tell(signal.SIGKILL)
            crawl.process.wait()
            until(browser, lambda: standing(browser) == "cut short", "the page to notice")
            _reopened(browser, site, workspace)
            _retry(browser, workspace)
    assert [entry for entry in browser.get_log("browser") if "8080" in entry["message"]] == []


def _numbers_move(browser: webdriver.Chrome, site: Dashboard) -> None:
    browser.get(site.url)
    browser.execute_script("window.sameness = 1")
    until(browser, lambda: standing(browser) == "running", "the crawl to be seen running")
    first = done(browser)
    until(browser, lambda: done(browser) > first, "more to be done")
    then = done(browser)
    until(browser, lambda: done(browser) > then, "still more to be done")
    assert browser.execute_script("return window.sameness") == 1
    until(browser, lambda: fresh(browser) == "Live.", "fresh figures")


def _a_parked_host_shows_why(browser: webdriver.Chrome, host: str) -> None:
    def row() -> list[str]:
        return next((cells for cells in hosts(browser) if cells[0] == host), [])

    seen: list[str] = []

    def is_parked() -> bool:
        seen[:] = row()
        return seen[1:2] == ["parked"]

    until(browser, is_parked, "the host to be parked")
    name, condition, _, _, parked_until, why, _, last = seen
    assert (name, condition, why, last) == (host, "parked", "rate limited", "rate limited")
    assert len(parked_until) == len("12:00:00")
    assert hosts(browser)[0][0] == host


def _pause_and_resume(browser: webdriver.Chrome, workspace: Path) -> None:
    follow(browser, "#do-pause")
    assert browser.find_element(By.TAG_NAME, "h1").text == "Pause the web crawl?"
    assert not (workspace / "pause.web").exists()
    follow(browser, "#yes")
    assert "Paused" in browser.find_element(By.CSS_SELECTOR, ".notice").text
    until(browser, lambda: standing(browser) == "paused", "the pause")
    until(browser, lambda: tile(browser, "tasks in flight").startswith("0 of"), "rest")
    is_gone(browser, "do-pause")
    follow(browser, "#do-resume")
    follow(browser, "#yes")
    until(browser, lambda: standing(browser) == "running", "the crawl to go on")
    before = done(browser)
    until(browser, lambda: done(browser) > before, "more to be done after the pause")


def _frontier(browser: webdriver.Chrome) -> None:
    def heads() -> list[str]:
        return [one.text for one in browser.find_elements(By.CSS_SELECTOR, "#part-panels h2")]

    until(browser, lambda: heads() == ["Frontier by depth", "Frontier by host"], "the frontier")
    table = "#part-panels details tbody"
    until(
        browser,
        lambda: browser.find_element(By.CSS_SELECTOR, table).get_attribute("textContent"),
        "its rows",
    )


def _pictures(browser: webdriver.Chrome) -> None:
    enough_to_see(browser, 8)
    browser.get(browser.current_url.partition("?")[0])
    until(browser, lambda: standing(browser) == "running", "the page")
    picture(browser, "dashboard", (1360, 1500), False)
    picture(browser, "dashboard-dark", (1360, 1500), True)
    picture(browser, "dashboard-phone", (PHONE[0], 1700), False)


def _reopened(browser: webdriver.Chrome, site: Dashboard, workspace: Path) -> None:
    """From the workspace alone: the figures are those of the store."""
    browser.get("about:blank")
    browser.get(site.url)
    assert standing(browser) == "cut short"
    assert "Figures as of" in fresh(browser)
    row = trawlnet("web", "status", "-w", workspace, "--json").rows[0]
    assert done(browser) == sum(row["settled"].values()) > 0
    assert tile(browser, "open") == f"{row['open']:,}"
    is_gone(browser, "do-pause")
    assert len(browser.find_elements(By.CSS_SELECTOR, "#part-chart-queue path")) == 2


def _retry(browser: webdriver.Chrome, workspace: Path) -> None:
    before = trawlnet("web", "status", "-w", workspace, "--json").rows[0]
    follow(browser, "#part-reasons td.act a")
    assert browser.find_element(By.TAG_NAME, "h1").text.startswith("Retry keys that ended in")
    follow(browser, "#yes")
    after = trawlnet("web", "status", "-w", workspace, "--json").rows[0]
    assert sum(after["settled"].values()) < sum(before["settled"].values())
    assert after["open"] > before["open"]


def test_three_thousand_hosts_are_sorted_and_filtered_with_the_keyboard(
    large: Dashboard, browser: webdriver.Chrome
) -> None:
    show(browser, WIDE)
    browser.get(large.url)
    browser.execute_script("window.sameness = 1; document.getElementById('q').focus()")
    ActionChains(browser).send_keys("host012").perform()
    until(browser, lambda: len(hosts(browser)) == 10, "the filter")
    assert all(row[0].startswith("host012") for row in hosts(browser))
    assert browser.switch_to.active_element.get_attribute("id") == "q"
    link = browser.find_element(By.CSS_SELECTOR, "#part-lane-heads th:nth-child(1) a")
    browser.execute_script("arguments[0].focus()", link)
    ActionChains(browser).send_keys(Keys.ENTER).perform()
    names = [f"host{n:04}.example" for n in range(120, 130)]
    until(browser, lambda: [row[0] for row in hosts(browser)] == names, "the order")
    ActionChains(browser).send_keys(Keys.ENTER).perform()
    until(browser, lambda: [row[0] for row in hosts(browser)] == names[::-1], "the other order")
    sort = browser.find_element(By.CSS_SELECTOR, "#part-lane-heads th:nth-child(1)")
    assert sort.get_attribute("aria-sort") == "descending"
    assert browser.execute_script("return window.sameness") == 1
    browser.refresh()
    assert [row[0] for row in hosts(browser)] == names[::-1]


def test_pages_lead_through_all_hosts(large: Dashboard, browser: webdriver.Chrome) -> None:
    show(browser, WIDE)
    browser.get(f"{large.url}/?condition=slowed&sort=lane&down=0")
    seen = [row[0] for row in hosts(browser)]
    while browser.execute_script(
        "const link = document.getElementById('lanes-next'); link?.click(); return Boolean(link)"
    ):
        last = seen[-1]
        until(browser, lambda: hosts(browser)[0][0] > last, "the next page")  # noqa: B023
        seen += [row[0] for row in hosts(browser)]
    expected = sorted(row[0] for row in many_lanes(3000) if row[1] == "slowed")
    assert seen == expected


def test_a_host_named_like_a_script_runs_nothing(
    large: Dashboard, browser: webdriver.Chrome
) -> None:
    show(browser, WIDE)
    browser.get_log("browser")
    browser.get(f"{large.url}/?condition=parked")
    assert hosts(browser)[0][0] == HOSTILE
    assert browser.execute_script("return document.scripts.length") == 1
    assert browser.get_log("browser") == []


@pytest.mark.parametrize("size", [PHONE, SMALL], ids=["phone", "small"])
def test_nothing_is_wider_than_a_phone(
    large: Dashboard, browser: webdriver.Chrome, size: tuple[int, int]
) -> None:
    show(browser, size)
    for path in ("/", "/ask?crawler=web&do=drain", "/nowhere", "/enter"):
        browser.get(f"{large.url}{path}")
        wide = browser.execute_script("return document.documentElement.scrollWidth")
        assert wide <= size[0], path


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_every_text_stands_out_from_what_is_behind_it(
    large: Dashboard, browser: webdriver.Chrome, dark: bool
) -> None:
    show(browser, WIDE, dark)
    for path in ("/", "/ask?crawler=web&do=drain", "/enter"):
        browser.get(f"{large.url}{path}")
        assert browser.execute_script(CONTRAST) == []


def test_the_page_tells_its_parts_to_a_screen_reader(
    large: Dashboard, browser: webdriver.Chrome
) -> None:
    show(browser, WIDE)
    browser.get(large.url)
    for landmark in ("body > header", "main", "footer", "h1", "#part-standing[role=status]"):
        assert len(browser.find_elements(By.CSS_SELECTOR, landmark)) == 1, landmark
    nameless = browser.execute_script(
        "return [...document.querySelectorAll('input:not([type=hidden]), select, nav,"
        " section, [role=region], [role=img]')].filter(e => !(e.labels?.length || e.ariaLabel))"
        ".map(e => e.outerHTML.slice(0, 80))"
    )
    assert nameless == []
    ids = browser.execute_script("return [...document.querySelectorAll('[id]')].map(e => e.id)")
    assert len(ids) == len(set(ids))
    levels = browser.execute_script(
        "return [...document.querySelectorAll('h1,h2,h3')].map(e => +e.tagName[1])"
    )
    assert all(deeper - level <= 1 for level, deeper in pairwise(levels))
    pictures = browser.find_elements(By.CSS_SELECTOR, "figure svg[role=img]")
    tables = browser.find_elements(By.CSS_SELECTOR, "figure:has(svg[role=img]) > details table")
    assert len(pictures) == len(tables) >= 5


def test_new_figures_neither_close_a_table_nor_take_the_keyboard(
    large: Dashboard, browser: webdriver.Chrome
) -> None:
    show(browser, WIDE)
    browser.get(large.url)
    still_open, held = browser.execute_script(
        "const part = document.getElementById('part-chart-queue');"
        "part.querySelector('details').open = true;"
        "const old = part.querySelector('summary');"
        "old.focus();"
        "apply({parts: {'chart-queue': part.innerHTML + '<p>new</p>'}});"
        "const now = part.querySelector('summary');"
        "return [part.querySelector('details').open, document.activeElement === now && now !== old]"
    )
    assert still_open
    assert held
