"""Whatever the figures and the names: on no screen is a text of a page cut, broken or outside."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import pytest
from selenium import webdriver

from tests.support.pages.browser import PHONE, SMALL, WIDE, show
from tests.support.pages.page_fit import MISFITS, dashboard_page, report_page, saved

NARROW = (760, 900)
PAGES = 3  # Of each kind; sizes and colours are tried on each.
FOUND = (2508121340,)  # Pages on which something did not fit once.


@pytest.mark.parametrize("make", [dashboard_page, report_page])
def test_everything_fits_on_every_screen(
    make: Callable[[random.Random], str], browser: webdriver.Chrome, tmp_path: Path
) -> None:
    for seed in (*FOUND, *(random.SystemRandom().getrandbits(32) for _ in range(PAGES))):
        browser.get(saved(tmp_path, make(random.Random(seed))))
        for size in (WIDE, NARROW, PHONE, SMALL):
            show(browser, size)
            assert browser.execute_script(MISFITS) == [], f"seed {seed}, {size}"
