"""`web report`, `ids report` and `pds report`: what was put in is what is told."""

from __future__ import annotations

import asyncio
import hashlib
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.support.pds.registry_rows import fill_registry
from tests.support.program import at_once
from trawlnet.captures.capture import CapturedLink
from trawlnet.captures.counters import CounterCsv, latest
from trawlnet.captures.files import LOG
from trawlnet.captures.line import CaptureLine
from trawlnet.captures.log import CaptureLog
from trawlnet.crawlers.ids.report_survey import read_decisions
from trawlnet.crawlers.web.survey import Frequent, Met, survey_captures
from trawlnet.observe.history import History, Sample
from trawlnet.observe.reports.rows import grown, over_time, top
from trawlnet.stores.lmdb.spans import SpanFile
from trawlnet.stores.spans import Span
from trawlnet.tables.registry.registry import open_registry

EVIL = "<script>alert(1)</script>"
NOON = 1_700_006_400.0  # A whole hour.


def capture(n: int, body: str = "", **given: Any) -> CaptureLine:
    sha = hashlib.sha256(body.encode()).hexdigest()
    kept = {"content_sha256": sha, "content_bytes": len(body), "stored_path": f"store/{sha}"}
    usual = {"page_type": "page", "content_type": "text/html; charset=utf-8", "depth": n % 3}
    return CaptureLine(
        **{
            "batch": n,
            "run": "r",
            "visit": str(n),
            "timestamp": NOON + 1800 * n,
            "url": f"http://a.example/{n}",
            "http_status": 200,
            **usual,
            **(kept if body else {}),
            **given,
        }
    )


def put_up_web(workspace: Path) -> None:
    log = CaptureLog(workspace / LOG)
    links = [CapturedLink("http://a.example/hub"), CapturedLink(f"http://{EVIL}/")]
    log.append(
        [
            capture(0, "x" * 1000, links=links),
            capture(1, "x" * 1000, links=links[:1]),  # The same body again.
            capture(2, "y" * 10, url=f"http://{EVIL}/2", content_type=EVIL),
            capture(3, http_status=301, content_type=""),
            capture(4, http_status=304),
        ]
    )
    log.close()
    counters = CounterCsv(workspace / "logs" / "crawler_metrics.csv")
    counters.write(NOON, {"robots_denied": 1})
    counters.write(NOON + 10, {"robots_denied": 7, "too_deep": 2})


def put_up_ids(workspace: Path) -> None:
    state = workspace / "state" / "ids"
    file = SpanFile(state / "ledger")
    spans = [
        Span(100, 200, "done"),
        Span(200, 5200, "gap crossed"),
        Span(5200, 5300, "done"),
        Span(5300, 5302, "hole"),
        Span(5302, 5303, f"missed {EVIL}"),
        Span(5310, 5320, "done"),
    ]
    file.write(spans, {"first": 100, "attempts": {"ok": 210, "not_yet": 12}})
    file.close()
    lines = [{"at": NOON + n, "predicted_rate": 10 + n, "measured_rate": None, "reason": EVIL}
             for n in range(3)]  # fmt: skip
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (state / "decisions.jsonl").write_text(text + "{torn")
    history = History(state / "history")
    for n, stored in enumerate((0, 40, 90, 5)):  # The last is of another run.
        history.add(NOON + 1800 * n, {"stored": stored, "lag_p20_s": 30 + n, "workers": 4})


def put_up_pds(workspace: Path) -> None:
    async def run() -> None:
        registry = await open_registry(workspace / "state" / "pds" / "registry.db")
        await fill_registry(registry, NOON, 40)
        await registry.close()

    asyncio.run(run())


MADE: dict[str, Callable[[Path], None]] = {
    "web": put_up_web,
    "ids": put_up_ids,
    "pds": put_up_pds,
}


def told(crawler: str, workspace: Path) -> dict[str, Any]:
    MADE[crawler](workspace)
    ran = at_once(crawler, "report", "-w", workspace, "--json")
    assert ran.code == 0, ran.err
    (row,) = ran.rows
    return row


@pytest.mark.parametrize("crawler", MADE)
def test_a_page_is_whole_escaped_and_loads_nothing(crawler: str, tmp_path: Path):
    MADE[crawler](tmp_path)
    page = tmp_path / "page.html"
    ran = at_once(crawler, "report", "-w", tmp_path, "-o", page)
    assert ran.code == 0 and ran.out.strip() == str(page), ran.err
    text = page.read_text()
    assert "<script" not in text and text.endswith("</html>\n")
    assert not re.search(r"(?:src|href)=|url\(|@import", text)
    assert (crawler == "pds") or "&lt;script&gt;" in text


@pytest.mark.parametrize("crawler", MADE)
def test_a_workspace_without_a_crawl_is_told_with_how_to_begin(crawler: str, tmp_path: Path):
    ran = at_once(crawler, "report", "-w", tmp_path)
    assert ran.code == 1 and f"begin with: trawlnet {crawler}" in ran.err
    assert at_once(crawler, "report", "-w", tmp_path / "none").code == 10
    assert list(tmp_path.iterdir()) == []


def test_the_web_report_adds_up(tmp_path: Path):
    row = told("web", tmp_path)
    assert (row["captures"], row["stored"], row["unchanged"], row["redirects"]) == (5, 3, 1, 1)
    assert row["pages"] == 5
    assert (row["bytes"], row["bytes_repeated"]) == (2010, 1000)
    assert row["hosts"] == {"a.example": 4, EVIL.partition("/")[0]: 1}
    assert row["statuses"] == {"200": 3, "301": 1, "304": 1}
    assert row["content_types"]["text/html"] == 3 and row["depths"] == {"0": 2, "1": 2, "2": 1}
    assert row["links"] == 3 and row["linked_pages"]["http://a.example/hub"] == 2
    assert list(row["hours"].values()) == [2, 2, 1]
    assert row["last_run"] == {"robots_denied": 7.0, "too_deep": 2.0}


def test_the_ids_report_adds_up(tmp_path: Path):
    row = told("ids", tmp_path)
    assert row["marks"] == {"done": 210, "hole": 2, "gap": 5000, "missed": 1, "pending": 7}
    assert sum(row["marks"].values()) == row["beyond"] - row["first"] == 5220
    assert row["largest"][0] == {"start": 200, "end": 5200, "reason": "gap"}
    assert row["missed"] == {EVIL: 1} and row["lag_p20_s"] == 33
    assert len(row["decisions"]) == 3 and row["instances"] is None
    assert list(row["stored_by_hour"].values()) == [40, 55]


def test_the_pds_report_adds_up(tmp_path: Path):
    row = told("pds", tmp_path)
    assert row["total"] == 40 == sum(row["by_status"].values()) == sum(row["by_source"].values())
    assert row["records"] == {} and row["largest"]


def test_a_survey_needs_no_more_memory_for_more_words(tmp_path: Path):
    log = CaptureLog(tmp_path / LOG)
    for n in range(30):
        links = [CapturedLink(f"http://h{n}-{m}.example/{m}") for m in range(2000)]
        log.append([capture(n, links=[*links, CapturedLink("http://hub.example/")])])
    log.close()
    seen = survey_captures(tmp_path, lambda done: None)
    assert seen.links == 30 * 2001 == sum(seen.linked_hosts.values())
    assert len(seen.linked_hosts) <= 50_001 and len(seen.linked_pages.counts) < 40_000
    assert seen.linked_pages.counts.most_common(1) == [("http://hub.example/", 30)]


def test_progress_adds_up_to_the_log(tmp_path: Path):
    log = CaptureLog(tmp_path / LOG, segment_bytes=500)
    for n in range(20):
        log.append([capture(n, "x" * n)])
    log.close()
    steps: list[int] = []
    survey_captures(tmp_path, steps.append)
    assert sum(steps) == sum(path.stat().st_size for path in (tmp_path / LOG).iterdir())


def test_the_frequent_stay_when_the_rare_are_forgotten():
    words = Frequent(10)
    for n in range(1000):
        words.add(["often", f"rare {n}"])
    assert words.counts["often"] == 1000 and len(words.counts) < 20 and words.forgotten


def test_a_content_is_met_again_only_when_it_was_there():
    met = Met()
    digests = [hashlib.sha256(str(n).encode()).digest() for n in range(20_000)]
    assert sum(map(met.again, digests)) == 0 and all(map(met.again, digests))


def test_rows_are_in_an_order_that_two_readings_share():
    assert top({"b": 2, "a": 2, "": 9, "c": 1}, 3) == [
        ("(none)", 9),
        ("a", 2),
        ("b", 2),
        ("others, 1 of them", 1),
    ]


def test_hours_become_days_when_there_are_many_and_a_wrong_clock_is_no_flood():
    word, rows = over_time({0: 1, 30: 2})
    assert word == "hour" and len(rows) == 31 and rows[0] == ("1970-01-01 00:00", 1)
    word, rows = over_time({0: 1, 400: 2, 401: 3})
    assert word == "day" and rows[-1] == ("1970-01-17", 5)
    assert len(over_time({0: 1, 10_000_000: 1})[1]) < 4000


def test_what_a_restart_has_set_to_zero_is_not_taken_away():
    samples = [Sample(3600.0 * n, {"x": v}) for n, v in enumerate((5, 8, 2, 4))]
    assert dict(grown(samples, "x")) == {0: 5, 1: 3, 2: 2, 3: 2}
    assert grown(samples, "y") == {}


def test_counters_are_read_from_the_end_whatever_was_torn(tmp_path: Path):
    path = tmp_path / "c.csv"
    assert latest(path) == {}
    path.write_text("timestamp,metric,value\n1,a,1\n2,a,2\nodd\n3,b,x\n4,a,")
    assert latest(path) == {"a": 2.0}


def test_no_decisions_are_no_trouble(tmp_path: Path):
    assert read_decisions(tmp_path / "none.jsonl") == []
