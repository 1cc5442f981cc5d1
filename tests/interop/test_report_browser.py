"""Reports in a real browser: headless Chromium, on a laptop and a telephone, light and dark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from selenium import webdriver

from tests.cli.test_reports import put_up_ids, put_up_pds, put_up_web
from tests.support.program import at_once
from tests.support.repos.made_segments import make_block, write

SIZES = ((1280, 900), (390, 844), (320, 640))
# How many names below a picture begin before the one beside them has ended.
OVERLAPS = """
return [...document.querySelectorAll('.picture')].flatMap(picture => {
  const names = [...picture.querySelectorAll('.name')].map(one => one.getBoundingClientRect());
  return names.slice(1).filter((one, n) => one.left < names[n].right).map(one => one.left);
}).length
"""


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("reports")
    for put_up in (put_up_web, put_up_ids, put_up_pds):
        put_up(folder)
    months = {
        str(n): b'{"createdAt":"20%02d-%02d-01","langs":["en"]}' % (10 + n // 12, 1 + n % 12)
        for n in range(150)
    }
    write(folder / "archive", [make_block("did:plc:" + "a" * 24, 5, {"a.b.c": months})])
    made = {name: folder / f"{name}.html" for name in ("web", "ids", "pds", "repos")}
    for name, page in made.items():
        place: tuple[Any, ...] = ("-w", folder) if name != "repos" else (folder / "archive",)
        assert at_once(name, "report", *place, "-o", page).code == 0
    return made


@pytest.mark.parametrize("name", ["web", "ids", "pds", "repos"])
def test_a_report_fits_every_screen_and_asks_nobody(
    name: str, browser: webdriver.Chrome, pages: dict[str, Path]
):
    papers = set()
    for width, height in SIZES:
        for scheme in ("light", "dark"):
            screen = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
            browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
            feature = {"name": "prefers-color-scheme", "value": scheme}
            browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
            browser.get(pages[name].as_uri())
            assert browser.execute_script("return document.documentElement.scrollWidth") <= width
            assert browser.execute_script(OVERLAPS) == 0
            papers.add(
                browser.execute_script("return getComputedStyle(document.body).backgroundColor")
            )
    assert len(papers) == 2  # Dark is another paper.
    assert [line for line in browser.get_log("browser") if line["level"] == "SEVERE"] == []
    asked = [line["message"] for line in browser.get_log("performance")]
    sent = [text for text in asked if "Network.requestWillBeSent" in text]
    assert sent and all('"url":"file://' in text for text in sent)
