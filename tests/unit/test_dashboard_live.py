"""The part of the dashboard about live following shows what `status` has, and trusts none of it."""

from __future__ import annotations

import re
from typing import Any

from trawlnet.observe.dashboard.charts import pictures
from trawlnet.observe.dashboard.following import following, live_of
from trawlnet.observe.dashboard.parts import tiles
from trawlnet.observe.dashboard.place import CrawlCondition, CrawlerFacts, CrawlView
from trawlnet.observe.history import Sample
from trawlnet.observe.lane_table import LaneTable

HOSTILE = "<script>alert(1)</script>"
LIVE: dict[str, Any] = {
    "cursor": {"relay.example": 7, "pds.example": 8},
    "seconds_behind": 3723.0,
    "commits": 1500,
    "commits_per_s": 12.5,
    "verified": 1400,
    "rejected": {"bad_signature": 60, "wrong_prev_data": 40},
    "desynchronized": 4,
    "resyncs": 31,
    "resyncs_begun": {"broken_chain": 35},
    "resyncs_ended": {"fetched": 31},
    "events": 9000,
    "gaps": 2,
    "comparing": 5,
    "waiting": {"frames": 17, "bytes": 1},
    "upstreams": {
        "pds.example": {"connected": False, "seconds_behind": 3723.0},
        "relay.example": {"connected": True, "seconds_behind": 0.25},
    },
    "troubles": {"pds.example": HOSTILE + "x" * 5000},
}


def look(counts: dict[str, Any], yields: dict[str, float]) -> CrawlView:
    running, lanes = CrawlCondition.RUNNING, LaneTable()
    return CrawlView("repos", 9.0, running, "pid 1", 9.0, counts, yields, lanes, yields)


def shown_tiles(html: str) -> dict[str, str]:
    return dict(re.findall(r"<dt>(.*?)</dt><dd>(.*?)</dd>", html))


def rows(html: str) -> list[str]:
    return [re.sub(r"<[^>]+>", " ", row).split() for row in re.findall(r"<tr>.*?</tr>", html)]


def test_every_figure_is_there() -> None:
    html = str(following(LIVE))
    assert shown_tiles(html) == {
        "seconds behind": "1h02m",
        "commits per second": "12.5",
        "commits": "1,500",
        "commits verified": "1,400",
        "messages rejected": "100",
        "desynchronized": "4",
        "resyncs": "31",
        "messages waiting": "17",
        "events": "9,000",
        "gaps": "2",
        "pages to compare": "5",
    }
    text = [" ".join(row) for row in rows(html)]
    assert any(row.startswith("pds. example not connected") for row in text)
    assert "relay. example connected 0.2 s" in text or "relay. example connected 0.3 s" in text
    assert text.index(next(r for r in text if r.startswith("pds."))) < text.index(
        next(r for r in text if r.startswith("relay."))
    ), "the one that is furthest behind comes first"
    assert "bad signature 60 60.0%" in text and "wrong prev data 40 40.0%" in text
    assert "begun: broken chain 35" in text and "ended: fetched 31" in text


def test_what_a_server_said_is_escaped_and_cut() -> None:
    html = str(following(LIVE))
    assert HOSTILE not in html and len(html) < 10_000


def test_what_every_firehose_waits_for_comes_first() -> None:
    html = str(following(LIVE | {"troubles": {"event_queue": "RabbitMQ does not answer"}}))
    first, *others = [" ".join(row) for row in rows(html) if "connected" in row or "queue" in row]
    assert first.startswith("event queue waited for: RabbitMQ does not answer")
    assert len(others) == 2


def test_at_rest_there_is_no_state_of_connections() -> None:
    running = {"upstreams", "troubles", "commits_per_s", "waiting"}
    html = str(following({key: value for key, value in LIVE.items() if key not in running}))
    assert html.count("not followed now") == 2
    assert shown_tiles(html)["commits per second"] == "–"  # noqa: RUF001 - the sign for unknown.


def test_the_running_process_knows_better_than_what_it_saved() -> None:
    saved = CrawlerFacts({"live": {"commits": 1}}, ())
    assert live_of(look({"live": LIVE}, {}), saved) == LIVE
    assert live_of(look({}, {}), saved) == {"commits": 1}
    assert live_of(look({}, {}), CrawlerFacts({}, ())) is None
    assert following(None) == ""


def test_figures_of_all_runs_are_not_shown_as_those_of_this_run() -> None:
    html = str(tiles(look({}, {"repos": 3, "commits": 1500, "seconds behind": 4})))
    assert "repos, this run" in html and "1,500" not in html and "seconds behind" not in html


def test_commits_are_a_line_over_time_where_something_is_followed() -> None:
    samples = [Sample(10.0 * n, {"commits": 50 * n, "seconds behind": n}) for n in range(9)]
    made = pictures("repos", samples, "hour")
    assert '<td class="number">5</td>' in made["commits"] and "Seconds behind" in made["behind"]
    assert not {"commits", "behind"} & pictures("repos", [Sample(1.0, {"done": 1})], "hour").keys()
