"""What tests of the dashboard see in a browser, and do there."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from selenium import webdriver
from selenium.common.exceptions import StaleElementReferenceException, WebDriverException
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.wait import WebDriverWait

from tests.support.pages.browser import WIDE, show

PATIENCE = 120  # Seconds; only a test that fails waits that long.


def until(
    browser: webdriver.Chrome, true: Callable[[], object], what: str, patience: float = PATIENCE
) -> None:
    ignored = [StaleElementReferenceException]
    WebDriverWait(browser, patience, 0.1, ignored).until(lambda _: true(), f"waited for {what}")


def is_gone(browser: webdriver.Chrome, name: str) -> None:
    """Wait for it: what is found may be replaced before it is looked at."""
    until(
        browser,
        lambda: not browser.find_element(By.ID, name).is_displayed(),
        f"{name} to be gone",
    )


def standing(browser: webdriver.Chrome) -> str:
    return browser.find_element(By.CSS_SELECTOR, "#part-standing .pill").text


def fresh(browser: webdriver.Chrome) -> str:
    return browser.find_element(By.ID, "part-fresh").text


def tile(browser: webdriver.Chrome, name: str) -> str:
    """Read at once: the tiles may be replaced between two questions."""
    return str(
        browser.execute_script(
            "return [...document.querySelectorAll('.tile')]"
            ".find(t => t.querySelector('dt').textContent === arguments[0])"
            "?.querySelector('dd').textContent || ''",
            name,
        )
    )


def done(browser: webdriver.Chrome) -> int:
    return int(tile(browser, "done").replace(",", ""))


def hosts(browser: webdriver.Chrome) -> list[list[str]]:
    found = browser.execute_script(
        "return [...document.querySelectorAll('#lane-rows tr')]"
        ".map(row => [...row.children].map(cell => cell.textContent))"
    )
    return [list(map(str, row)) for row in found]


def follow(browser: webdriver.Chrome, selector: str) -> None:
    """Press Enter on something that leads to another page, and wait until it is there."""
    # Found and focused at once: its part of the page may be replaced at any time.
    focus = "window.isOld = true; document.querySelector(arguments[0]).focus()"
    browser.execute_script(focus, selector)
    ActionChains(browser).send_keys(Keys.ENTER).perform()
    # While a page goes the driver has several names for what is no longer there.
    waiting = WebDriverWait(browser, PATIENCE, 0.1, [WebDriverException])
    there = "return !window.isOld && document.readyState === 'complete'"
    waiting.until(lambda _: browser.execute_script(there), f"waited for what {selector} leads to")


def picture(browser: webdriver.Chrome, name: str, size: tuple[int, int], dark: bool) -> None:
    if folder := os.environ.get("TRAWLNET_SCREENSHOTS"):
        show(browser, size, dark)
        assert browser.save_screenshot(str(Path(folder) / f"{name}.png"))
        show(browser, WIDE)


def enough_to_see(browser: webdriver.Chrome, samples: int = 6) -> None:
    """Pictures are for people: there must be something to see in the charts."""
    if os.environ.get("TRAWLNET_SCREENSHOTS"):
        rows = "#part-chart-throughput tbody tr"
        until(
            browser,
            lambda: len(browser.find_elements(By.CSS_SELECTOR, rows)) > samples,
            "some history",
            samples * 30,
        )
