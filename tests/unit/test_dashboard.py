"""The parts of the dashboard that decide: what is shown, what is sent, who is let in."""

from __future__ import annotations

import asyncio
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from markupsafe import Markup

from tests.support.pages.dashboard_run import HOSTILE, made_workspace, many_lanes, table_of
from trawlnet.net.clock import SystemClock
from trawlnet.observe.dashboard import charts, parts
from trawlnet.observe.dashboard.door import DoorKeys, is_own_page
from trawlnet.observe.dashboard.events import Face, difference, question_of
from trawlnet.observe.dashboard.lanes import PAGE_ROWS, LaneQuery, choose, wish_of
from trawlnet.observe.dashboard.place import (
    Action,
    ActionOrder,
    CrawlCondition,
    CrawlerFacts,
    CrawlView,
    order_of,
)
from trawlnet.observe.dashboard.words import UNKNOWN
from trawlnet.observe.dashboard.workspace import (
    WorkspacePlace,
    WorkspaceSource,
    look_at,
    read_files,
)
from trawlnet.observe.history import Sample
from trawlnet.observe.lane_table import LaneRow, LaneTable, read_table

ROWS = many_lanes(3000)
NOBODY = DoorKeys("127.0.0.1", "", b"secret")
TOKEN = "a-token-of-some-length"
GUARDED = DoorKeys("0.0.0.0", TOKEN, b"secret")


async def nothing() -> dict[str, Any]:
    return {}


async def told() -> CrawlerFacts:
    return CrawlerFacts({}, ())


async def retried(reason: object) -> int:
    return 0


def asked_of(path: Path, pid: int | None = None) -> WorkspaceSource:
    def flag(word: str) -> Path | None:
        return found if (found := path / f"{word}.web").exists() else None

    state = path / "state" / "web"
    return WorkspaceSource("web", path, lambda: state, lambda: pid, flag, nothing, told, retried)


def looked(path: Path, pid: int | None = None, now: float = 1_790_000_001.0) -> CrawlView:
    asked = asked_of(path, pid)
    return look_at(asked, read_files(asked.folder()), {"open": 7, "settled": {"ok": 5}}, now)


def test_troubled_hosts_come_first() -> None:
    chosen = choose(ROWS, LaneQuery())
    assert chosen.found == chosen.total == 3000
    assert {row.condition for row in chosen.rows} == {"blocked"}
    assert len(chosen.rows) == PAGE_ROWS


@pytest.mark.parametrize("down", [True, False])
@pytest.mark.parametrize("sort", ["lane", "rate", "in_flight", "failures", "parked_until"])
def test_pages_in_any_order_hold_every_row_once(sort: str, down: bool) -> None:
    pages = choose(ROWS, LaneQuery(sort=sort, down=down)).pages
    rows: list[LaneRow] = []
    for page in range(pages):
        rows += choose(ROWS, LaneQuery(sort=sort, down=down, page=page)).rows
    assert sorted(rows) == sorted(ROWS)
    values = [getattr(row, sort) or 0 for row in rows]
    assert values == sorted(values, reverse=down)


def test_a_filter_looks_at_name_and_condition_whatever_the_case() -> None:
    chosen = choose(ROWS, LaneQuery(contains="HOST29", condition="slowed"))
    assert chosen.found == sum(row.condition == "slowed" and "host29" in row.lane for row in ROWS)
    assert 0 < chosen.found < 100


def test_a_page_beyond_the_last_is_the_last() -> None:
    chosen = choose(ROWS, LaneQuery(page=10_000))
    assert chosen.page == chosen.pages - 1
    assert chosen.rows


@pytest.mark.parametrize(
    "query",
    [
        {"page": "-1", "sort": "__class__", "condition": "odd", "crawler": "none", "span": "x"},
        {"page": "9" * 50, "q": "x" * 5000, "down": "maybe"},
        {"page": "\u00b2"},
    ],
)
def test_an_address_that_makes_no_sense_shows_the_usual(query: dict[str, str]) -> None:
    question = question_of(query, ["web", "ids"])
    assert question.crawler == "web"
    assert question.wish.sort == "condition"
    assert len(question.wish.contains) <= 100
    assert choose(ROWS, question.wish).page < 60


def test_a_table_is_read_as_it_was_written() -> None:
    assert read_table(table_of(ROWS, 1_790_000_000.0).encode()).rows == ROWS


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b'{"torn',
        b"[]",
        b'{"at": 1, "left_out": 0}',
        table_of(many_lanes(2), 1.0).replace('"rate": [2.0, ', '"rate": [').encode(),
        table_of(many_lanes(2), 1.0).replace('"at": 1.0', '"at": "then"').encode(),
        table_of(many_lanes(2), 1.0).replace('"parked": [', '"parked": ["never", ').encode(),
    ],
)
def test_a_table_of_another_shape_is_empty(raw: bytes) -> None:
    assert read_table(raw) == LaneTable()


def test_a_table_is_read_again_only_when_it_has_changed(tmp_path: Path) -> None:
    path = made_workspace(tmp_path / "w", many_lanes(3))
    state = path / "state" / "web"
    first = read_files(state)
    assert read_files(state, first).lanes is first.lanes
    fresh = state / "lanes.tmp"
    fresh.write_text(table_of(many_lanes(2), 1_790_000_001.0))
    fresh.replace(state / "lanes.json")
    assert len(read_files(state, first).lanes.rows) == 2
    (state / "lanes.json").unlink()
    assert read_files(state, first).lanes == LaneTable()


def test_a_name_that_is_markup_is_shown_as_text() -> None:
    row = many_lanes(1)[0]
    html = parts.lane_row(row)
    assert row.lane == HOSTILE
    assert "<script" not in html
    assert "&lt;script&gt;" in html
    wish = wish_of({"q": '"><script>alert(1)</script>'})
    assert "<script" not in parts.lane_heads(wish, {"crawler": "web", "span": "hour"})


def test_only_what_changed_is_sent(tmp_path: Path) -> None:
    look = looked(made_workspace(tmp_path / "w", many_lanes(3)))
    old = Face(
        look, {"tiles": Markup("1"), "fresh": Markup("Live.")}, parts.lane_rows(look.lanes.rows)
    )
    moved = [look.lanes.rows[0]._replace(in_flight=9), *look.lanes.rows[1:]]
    new = replace(old, parts={**old.parts, "tiles": Markup("2")}, lanes=parts.lane_rows(moved))
    assert difference(old, old) == {}
    change = difference(old, new)
    assert change["parts"] == {"tiles": "2"}
    assert list(change["rows"]) == [parts.lane_key(look.lanes.rows[0])]
    assert "order" not in change
    assert difference(old, replace(old, lanes=parts.lane_rows(look.lanes.rows[1:])))["order"] == [
        parts.lane_key(row) for row in look.lanes.rows[1:]
    ]
    assert set(difference(None, new)) == {"parts", "rows", "order"}


def test_a_killed_crawl_is_told_from_one_that_ended(tmp_path: Path) -> None:
    path = made_workspace(tmp_path / "w", [])
    live, status = path / "state" / "web" / "live.json", path / "state" / "web" / "status.json"
    assert looked(path).standing is CrawlCondition.CUT_SHORT
    live.write_text(live.read_text().replace('"running"', '"ended"', 1))
    assert looked(path).standing is CrawlCondition.ENDED
    # An earlier one has ended; the last, which nobody watched, has not.
    status.write_text('{"running": 5000}')
    assert looked(path).standing is CrawlCondition.CUT_SHORT


def test_a_crawl_that_runs_is_as_its_files_say(tmp_path: Path) -> None:
    path = made_workspace(tmp_path / "w", [])
    assert looked(path, pid=4121).standing is CrawlCondition.RUNNING
    assert looked(path, pid=4121).counts == {"running": 4121, "open": 1}
    (path / "pause.web").touch()
    assert looked(path, pid=4121).standing is CrawlCondition.PAUSED
    (path / "stop.web").touch()
    assert looked(path, pid=4121).standing is CrawlCondition.DRAINING
    assert looked(tmp_path / "empty").standing is CrawlCondition.NEVER


def test_a_crawl_that_runs_shows_the_time_left(tmp_path: Path) -> None:
    path = made_workspace(tmp_path / "w", [])
    live = path / "state" / "web" / "live.json"
    found = json.loads(live.read_text())
    assert not _tile("time left", parts.tiles(looked(path))), "nothing is left of one that ended"
    for seconds, shown in ((None, UNKNOWN), (5400.0, "1h30m"), (0.04, "0.0 s")):
        live.write_text(json.dumps(found | {"eta_s": seconds}))
        assert _tile("time left", parts.tiles(looked(path, pid=4121))) == shown
    old = looked(path, pid=4121, now=1_790_000_100.0)
    assert _tile("time left", parts.tiles(old)) == UNKNOWN, "old figures promise nothing"


def _tile(name: str, html: str) -> str:
    found = re.search(rf"<dt>{name}</dt><dd>([^<]*)</dd>", html)
    return found[1] if found else ""


def test_old_figures_are_called_old(tmp_path: Path) -> None:
    path = made_workspace(tmp_path / "w", [])
    assert parts.freshness(looked(path, pid=4121)) == "Live."
    assert "2026-09-21" in parts.freshness(looked(path, pid=4121, now=1_790_000_100.0))
    assert "as of" in parts.freshness(looked(path))
    (path / "state" / "web" / "live.json").write_text('{"torn')
    assert looked(path).as_of == 1_790_000_000.0 - 10
    assert looked(path).figures["done"] == 40 * 59


def test_a_time_without_samples_breaks_the_line() -> None:
    figures = [(0.0, 0), (10.0, 50), (20.0, 100), (500.0, 400), (510.0, 20)]
    samples = [Sample(1_790_000_000.0 + at, {"done": done}) for at, done in figures]
    html = charts.pictures("web", samples, "hour")["throughput"]
    assert '<td class="number">5</td>' in html
    assert '<td class="number">-' not in html
    assert html.count("M") >= 1


def test_the_attempts_of_a_pds_crawl_are_called_steps() -> None:
    samples = [Sample(1_790_000_000.0 + at, {"done": at, "attempts": 9 * at}) for at in (0, 10)]
    assert "steps of scans here" in charts.pictures("pds", samples, "hour")["throughput"]
    assert "steps" not in charts.pictures("web", samples, "hour")["throughput"]


def test_what_is_drained_is_swept_only_when_it_is_over_and_ours(tmp_path: Path) -> None:
    stop = tmp_path / "stop.web"
    running, over = (WorkspacePlace(asked_of(tmp_path, pid), SystemClock()) for pid in (1, None))
    stop.write_text("by hand")
    over.sweep()
    assert stop.exists()
    asyncio.run(over.obey(ActionOrder("web", Action.DRAIN)))
    running.sweep()
    assert stop.exists()
    over.sweep()
    assert not stop.exists()


@pytest.mark.parametrize(
    ("action", "reason", "order"),
    [
        ("pause", "", Action.PAUSE),
        ("retry", "timeout", Action.RETRY),
        ("retry", "../../x", None),
        ("reset", "", None),
        ("", "", None),
    ],
)
def test_only_known_actions_and_known_reasons_are_orders(
    action: str, reason: str, order: Action | None
) -> None:
    made = order_of("web", action, reason)
    assert (made and made.action) == order


@pytest.mark.parametrize(
    ("host", "welcome"),
    [
        ("127.0.0.1:8080", True),
        ("localhost", True),
        ("[::1]:8080", True),
        ("127.9.9.9", True),
        ("evil.example:8080", False),
        ("127.0.0.1.evil.example", False),
        ("localhost@evil.example", False),
        ("", False),
        ("192.0.2.7", False),
    ],
)
def test_without_a_token_only_names_of_this_machine_are_answered(host: str, welcome: bool) -> None:
    assert NOBODY.answers_to(host) is welcome


def test_a_token_opens_as_cookie_or_bearer_and_as_nothing_else() -> None:
    assert NOBODY.knows("", "")
    assert not GUARDED.knows("", "")
    assert not GUARDED.knows(TOKEN, "")
    assert not GUARDED.knows("", f"Basic {TOKEN}")
    assert not GUARDED.knows("é", f"Bearer {TOKEN}x")
    assert GUARDED.knows(GUARDED.cookie, "")
    assert GUARDED.knows("", f"Bearer {TOKEN}")
    assert not NOBODY.opens("")
    assert TOKEN not in GUARDED.cookie


def test_a_stamp_is_good_for_one_crawler_of_one_process() -> None:
    stamp = NOBODY.stamp("web")
    assert NOBODY.is_stamped("web", stamp)
    assert not NOBODY.is_stamped("ids", stamp)
    assert not replace(NOBODY, secret=b"another").is_stamped("web", stamp)
    assert not NOBODY.is_stamped("web", "")


@pytest.mark.parametrize(
    ("headers", "own"),
    [
        ({"sec-fetch-site": "same-origin"}, True),
        ({"sec-fetch-site": "same-site", "origin": "http://a:1", "host": "a:1"}, False),
        ({"sec-fetch-site": "cross-site"}, False),
        ({"origin": "http://a:1", "host": "a:1"}, True),
        ({"origin": "http://a:2", "host": "a:1"}, False),
        ({"origin": "null", "host": "a:1"}, False),
        ({"host": "a:1"}, False),
    ],
)
def test_a_form_from_elsewhere_is_told_by_its_headers(headers: dict[str, str], own: bool) -> None:
    assert is_own_page(headers) is own
