"""The registry's page in a real browser: headless Chromium, keyboard only.

TRAWLNET_SCREENSHOTS=docs/img keeps pictures of it; without that nothing is written.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from selenium import webdriver
from selenium.common.exceptions import WebDriverException
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.wait import WebDriverWait

from tests.support.pages.browser import CONTRAST, PHONE, SMALL, WIDE, show
from tests.support.pages.page_fit import MISFITS
from tests.support.pds.registry_rows import fill_registry
from tests.support.pds.registry_site import Running, serving
from trawlnet.tables.registry.rules import PdsSource, PdsStatus

_MOST_STOPS = 80  # Presses of Tab from the top of the page to anywhere.


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with serving(tmp_path_factory.mktemp("registry") / "r.db", seed=fill_registry) as running:
        yield running


def press(browser: webdriver.Chrome, *keys: str) -> None:
    ActionChains(browser).send_keys(*keys).perform()


def send(browser: webdriver.Chrome, *keys: str) -> None:
    """Press keys that lead to another page, and wait until it is there."""
    # By a mark on the old page: an element of a page that is going has several names for that.
    browser.execute_script("window.isOld = true")
    press(browser, *keys)
    arrived = "return !window.isOld && document.readyState === 'complete'"
    WebDriverWait(browser, 60, ignored_exceptions=[WebDriverException]).until(
        lambda page: page.execute_script(arrived)
    )


def tab_to(browser: webdriver.Chrome, name: str) -> None:
    """Move there as somebody without a mouse would."""
    for _ in range(_MOST_STOPS):
        press(browser, Keys.TAB)
        if browser.switch_to.active_element.get_attribute("id") == name:
            return
    pytest.fail(f"the keyboard does not get to {name}")


def hosts(browser: webdriver.Chrome) -> list[str]:
    return [one.text for one in browser.find_elements(By.CSS_SELECTOR, ".hosts .host")]


def test_the_page_shows_the_figures_of_the_registry(
    site: Running, browser: webdriver.Chrome
) -> None:
    show(browser, WIDE)
    browser.get(site.url)
    stats = site.run(site.registry.stats(site.site.service.clock.now()))
    assert browser.find_element(By.CSS_SELECTOR, "h1 .number").text == f"{stats.total:,}"
    shown = {
        tile.find_element(By.TAG_NAME, "a").get_attribute("href").partition("status=")[2]: tile
        for tile in browser.find_elements(By.CSS_SELECTOR, ".tile")
    }
    for status in PdsStatus:
        figure = shown[f"{status}#find"].find_element(By.TAG_NAME, "a").text
        assert figure == f"{stats.by_status[status]:,}"
    side = browser.find_element(By.CSS_SELECTOR, ".side-column").text
    assert f"PLC directory\n{stats.by_source[PdsSource.PLC]}" in side
    for reason, count in stats.failures.items():
        assert f"{reason.replace('_', ' ')}\n{count}" in side
    largest = site.run(site.registry.largest())
    assert hosts(browser) == [row.pds_url.removeprefix("https://") for row in largest]


def test_the_picture_and_the_table_behind_it_agree(
    site: Running, browser: webdriver.Chrome
) -> None:
    show(browser, WIDE)
    browser.get(site.url)
    stats = site.run(site.registry.stats(site.site.service.clock.now()))
    browser.find_element(By.TAG_NAME, "summary").send_keys(Keys.ENTER)
    rows = browser.find_elements(By.CSS_SELECTOR, "details tbody tr")
    cells = [[int(td.text) for td in row.find_elements(By.TAG_NAME, "td")] for row in rows]
    scans = sum(sum(hour.results.values()) for hour in stats.scans)
    assert len(rows) == 48
    assert sum(map(sum, cells)) == scans > 0
    bars = len(browser.find_elements(By.CSS_SELECTOR, ".picture rect"))
    assert bars == sum(1 for row in cells for cell in row if cell)


def test_searching_works_with_the_keyboard(site: Running, browser: webdriver.Chrome) -> None:
    show(browser, WIDE)
    browser.get(site.url)
    tab_to(browser, "q")
    send(browser, "coral", Keys.ENTER)
    found = hosts(browser)
    assert found
    assert all("coral" in host for host in found)
    assert browser.find_element(By.ID, "q").get_attribute("value") == "coral"
    assert f"{len(found)} found" in browser.find_element(By.CSS_SELECTOR, ".told").text


def test_results_go_on_on_the_next_page(site: Running, browser: webdriver.Chrome) -> None:
    show(browser, WIDE)
    browser.get(f"{site.url}/?status=no_chive_records")
    seen: list[str] = []
    for _ in range(20):
        seen += hosts(browser)
        more = browser.find_elements(By.CSS_SELECTOR, ".more a[rel=next]")
        if not more:
            break
        browser.execute_script("arguments[0].focus()", more[0])
        send(browser, Keys.ENTER)
    stats = site.run(site.registry.stats(site.site.service.clock.now()))
    assert len(seen) == len(set(seen)) == stats.by_status[PdsStatus.NO_CHIVE_RECORDS]


def test_the_form_registers_a_pds(site: Running, browser: webdriver.Chrome) -> None:
    show(browser, WIDE)
    url = site.world.urls["pds"]
    browser.get(site.url)
    before = int(browser.find_element(By.CSS_SELECTOR, "h1 .number").text)
    tab_to(browser, "pds_url")
    send(browser, url, Keys.ENTER)
    told = browser.find_element(By.ID, "told")
    assert told.get_attribute("role") == "status"
    assert f"{url} is registered" in told.text
    assert int(browser.find_element(By.CSS_SELECTOR, "h1 .number").text) == before + 1
    row = site.run(site.registry.get(url))
    assert row is not None
    assert row.discovery_source is PdsSource.USER


def test_the_form_says_what_is_wrong_where_it_is_wrong(
    site: Running, browser: webdriver.Chrome
) -> None:
    show(browser, WIDE)
    browser.get(site.url)
    tab_to(browser, "pds_url")
    send(browser, site.world.urls["relay"], Keys.ENTER)
    field = browser.find_element(By.ID, "pds_url")
    told = browser.find_element(By.ID, "told")
    assert "relay" in told.text
    assert told.get_attribute("role") == "alert"
    assert field.get_attribute("aria-describedby") == "told"
    assert field.get_attribute("aria-invalid") == "true"
    assert field.get_attribute("value") == site.world.urls["relay"]


def test_nothing_is_loaded_from_elsewhere_and_nothing_complains(
    site: Running, browser: webdriver.Chrome
) -> None:
    show(browser, WIDE)
    browser.get("about:blank")
    browser.get_log("performance")
    browser.get_log("browser")
    for path in ("/", "/?q=coral", "/?status=unreachable", "/docs", "/?q=nothing-like-that"):
        browser.get(f"{site.url}{path}")
        assert browser.execute_script("return document.scripts.length") == 0
    asked = list(requests_of(browser))
    assert {f"{site.url}/", f"{site.url}/static/style.css"} <= set(asked)
    assert [url for url in asked if not url.startswith(f"{site.url}/")] == []
    assert browser.get_log("browser") == []


def requests_of(browser: webdriver.Chrome) -> Iterator[str]:
    for entry in browser.get_log("performance"):
        message: dict[str, Any] = json.loads(entry["message"])["message"]
        if message["method"] == "Network.requestWillBeSent":
            yield message["params"]["request"]["url"]


@pytest.mark.parametrize("path", ["/", "/?q=coral", "/?status=unreachable", "/docs", "/nowhere"])
@pytest.mark.parametrize("size", [PHONE, SMALL], ids=["phone", "small"])
def test_nothing_is_wider_than_a_phone(
    site: Running, browser: webdriver.Chrome, path: str, size: tuple[int, int]
) -> None:
    show(browser, size)
    browser.get(f"{site.url}{path}")
    wide, seen = browser.execute_script(
        "return [document.documentElement.scrollWidth, window.innerWidth]"
    )
    assert wide <= seen == size[0]


@pytest.mark.parametrize("path", ["/", "/?status=unreachable", "/docs", "/pds?url={first}"])
def test_no_word_is_cut_or_broken_on_any_screen(
    site: Running, browser: webdriver.Chrome, path: str
) -> None:
    (row,) = site.ask("GET", "/api/pds?status=unreachable&limit=1").json["pdses"]
    for size in (WIDE, PHONE, SMALL):
        show(browser, size)
        browser.get(site.url + path.format(first=quote(row["pds_url"], safe="")))
        assert browser.execute_script(MISFITS) == [], size


@pytest.mark.parametrize("path", ["/", "/docs", "/?q=nothing-like-that"])
def test_the_page_tells_its_parts_to_a_screen_reader(
    site: Running, browser: webdriver.Chrome, path: str
) -> None:
    show(browser, WIDE)
    browser.get(f"{site.url}{path}")
    for landmark in ("header", "nav[aria-label]", "main", "footer", "h1"):
        assert len(browser.find_elements(By.CSS_SELECTOR, landmark)) == 1, landmark
    assert browser.execute_script("return document.documentElement.lang") == "en"
    nameless = browser.execute_script(
        "return [...document.querySelectorAll('input, select, section, [role=region]')]"
        ".filter(e => !(e.labels?.length || e.ariaLabel"
        " || document.getElementById(e.getAttribute('aria-labelledby')))).map(e => e.outerHTML)"
    )
    assert nameless == []
    ids = browser.execute_script("return [...document.querySelectorAll('[id]')].map(e => e.id)")
    assert len(ids) == len(set(ids))
    levels = browser.execute_script(
        "return [...document.querySelectorAll('h1,h2,h3')].map(e => +e.tagName[1])"
    )
    assert all(deeper - level <= 1 for level, deeper in pairwise(levels))


def test_the_keyboard_always_shows_where_it_is(site: Running, browser: webdriver.Chrome) -> None:
    show(browser, WIDE)
    browser.get(site.url)
    first = None
    for _ in range(_MOST_STOPS):
        press(browser, Keys.TAB)
        here = browser.switch_to.active_element
        if here == first or here.tag_name == "body":
            break
        first = first or here
        assert here.value_of_css_property("outline-style") == "solid", here.get_attribute("id")
    else:
        pytest.fail("there is no end to the stops of the keyboard")
    assert first is not None


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_every_text_stands_out_from_what_is_behind_it(
    site: Running, browser: webdriver.Chrome, dark: bool
) -> None:
    show(browser, WIDE, dark)
    for path in ("/?status=unreachable", "/?q=coral", "/docs"):
        browser.get(f"{site.url}{path}")
        assert browser.execute_script(CONTRAST) == []


def test_pictures_are_kept_when_they_are_asked_for(
    site: Running, browser: webdriver.Chrome, tmp_path: Path
) -> None:
    """Also shows that there is something to see: an empty page makes a small file."""
    folder = Path(os.environ.get("TRAWLNET_SCREENSHOTS") or tmp_path)
    for name, size, dark in (("", WIDE, False), ("-dark", WIDE, True), ("-phone", PHONE, False)):
        show(browser, size, dark)
        browser.get(site.url)
        tall = browser.execute_script("return document.documentElement.scrollHeight")
        show(browser, (size[0], tall if size == WIDE else 1700), dark)
        picture = folder / f"pds-registry{name}.png"
        assert browser.save_screenshot(str(picture))
        assert picture.stat().st_size > 30_000
