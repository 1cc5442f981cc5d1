"""What is told of an ids crawl: alerts, figures, where it begins, and what Prometheus says."""

from __future__ import annotations

import asyncio
import itertools
import subprocess
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.program import PATIENCE
from tests.support.servers import free_port, require
from trawlnet.crawlers.ids.alerts import IdsAlerts, StatusFigures
from trawlnet.crawlers.ids.classic.law import NO_LAG, PeriodReading
from trawlnet.crawlers.ids.classic.prometheus import PrometheusReader, points_of, queries, weighted
from trawlnet.crawlers.ids.model import Answer, AnswerVerdict, Ask, LedgerEntry, LedgerMark, Purpose
from trawlnet.crawlers.ids.start import first_id, newest_found
from trawlnet.crawlers.ids.storing.spool_limit import has_no_room
from trawlnet.engine.gate import Gate
from trawlnet.engine.rules import Manners
from trawlnet.net.clock import SystemClock
from trawlnet.net.guard import Guard
from trawlnet.net.http import Http
from trawlnet.observe.alerts.shapes import Level
from trawlnet.observe.metrics.crawl import CrawlMetrics
from trawlnet.observe.metrics.ids import (
    LAG_BUCKETS,
    STATUSES,
    EndedRequest,
    IdsMeter,
    RecentCounts,
    RecentValues,
)


def saw(
    watch: IdsAlerts,
    verdict: AnswerVerdict,
    purpose: Purpose = Purpose.FIRST,
    *entries: LedgerEntry,
    now: float = 0.0,
) -> list[str]:
    answer = Answer(Ask(7, purpose), verdict, 0.1)
    return [alert.title for alert in watch.saw(now, answer, entries)]


def test_an_outage_is_told_once_and_so_is_its_end() -> None:
    watch = IdsAlerts(3600.0, 0.0)
    assert saw(watch, AnswerVerdict.DISABLED) == ["outage"]
    assert saw(watch, AnswerVerdict.DISABLED) == []
    assert saw(watch, AnswerVerdict.THROTTLED) == []
    assert saw(watch, AnswerVerdict.NOT_FOUND, now=30.0) == ["outage over"]
    assert saw(watch, AnswerVerdict.STORED) == []


@pytest.mark.parametrize("verdict", [AnswerVerdict.FAILED, AnswerVerdict.THROTTLED])
def test_nothing_but_errors_or_refusals_is_an_outage(verdict: AnswerVerdict) -> None:
    """A page of the proxy says 503 for maintenance, and for too many requests."""
    watch = IdsAlerts(3600.0, 0.0)
    titles = [saw(watch, verdict, now=float(second)) for second in range(30)]
    assert [second for second, told in enumerate(titles) if told] == [19]
    assert saw(watch, AnswerVerdict.FILTERED, now=40.0) == ["outage over"]


@pytest.mark.parametrize("verdict", [AnswerVerdict.FAILED, AnswerVerdict.THROTTLED])
def test_errors_and_refusals_among_answers_are_no_outage(verdict: AnswerVerdict) -> None:
    watch = IdsAlerts(3600.0, 0.0)
    for second in range(200):
        answer = AnswerVerdict.STORED if second % 15 == 0 else verdict
        assert saw(watch, answer, now=float(second)) == []


def test_a_key_that_is_refused_is_no_outage() -> None:
    watch = IdsAlerts(3600.0, 0.0, "BUNGIE_API_KEY")
    answer = Answer(Ask(7, Purpose.FIRST), AnswerVerdict.DISABLED, 0.1)
    (alert,) = watch.saw(0.0, answer, (), key_refused=True)
    assert (alert.title, alert.level) == ("key refused", Level.ERROR)
    assert "BUNGIE_API_KEY" in alert.text
    assert watch.saw(1.0, answer, (), key_refused=True) == []
    assert watch.key_refused
    assert saw(watch, AnswerVerdict.STORED, now=2.0) == ["key refused: over"]
    assert not watch.key_refused


def test_a_key_that_may_be_refused_is_named_where_every_request_is_turned_away() -> None:
    """With 403, which some say to a wrong key, and others to whoever comes too often."""
    for variable, is_named in (("SOME_KEY", True), ("", False)):
        watch = IdsAlerts(3600.0, 0.0, variable)
        answer = Answer(Ask(7, Purpose.FIRST), AnswerVerdict.THROTTLED, 0.1)
        told = [alert for now in range(100) for alert in watch.saw(float(now), answer, ())]
        assert [alert.title for alert in told] == ["outage"]
        assert "turns every request away" in told[0].text
        assert ("the key in SOME_KEY" in told[0].text) is is_named


def test_a_gap_is_told_when_it_is_found_and_when_it_is_known_for_good() -> None:
    watch = IdsAlerts(3600.0, 0.0)

    def first(i: int) -> list[str]:
        answer = Answer(Ask(i, Purpose.FIRST), AnswerVerdict.STORED, 0.1)
        return [alert.title for alert in watch.saw(0.0, answer, ())]

    assert first(99) == []
    assert saw(watch, AnswerVerdict.NOT_FOUND, Purpose.PROBE) == [], "nothing is found yet"
    assert saw(watch, AnswerVerdict.STORED, Purpose.PROBE) == [], "it may be the end of a stall"
    assert first(5000) == ["gap found"]
    assert first(5001) == []
    assert first(4999) == []
    gap = LedgerEntry(100, 5000, LedgerMark.UNSURVEYED)
    assert saw(watch, AnswerVerdict.STORED, Purpose.PROBE, gap) == ["gap crossed"]
    assert (
        saw(
            watch,
            AnswerVerdict.STORED,
            Purpose.FIRST,
            LedgerEntry(1, 5, LedgerMark.UNSURVEYED),
        )
        == []
    )
    finer = LedgerEntry(100, 5000, LedgerMark.UNSURVEYED, "1 of 64 ids was asked for")
    surveyed = LedgerEntry(100, 5000, LedgerMark.GAP, "1 of 2 ids was asked for")
    assert saw(watch, AnswerVerdict.NOT_FOUND, Purpose.SURVEY, finer, surveyed) == []
    island = LedgerEntry(100, 228, LedgerMark.PENDING, "island")
    assert saw(watch, AnswerVerdict.STORED, Purpose.SURVEY, island) == ["island found"]


def told_by_age(ages: Sequence[float]) -> list[tuple[int, str]]:
    watch = IdsAlerts(1e9, 0.0)
    looked = (
        (second, watch.looked(float(second), replace(figures(), newest_age=age)))
        for second, age in enumerate(ages)
    )
    return [(second, alert.title) for second, alerts in looked for alert in alerts]


def test_a_newest_id_that_grows_old_is_told_once_and_so_is_the_end() -> None:
    ages = [*range(40, 2000), *range(2000, 0, -4)]
    assert told_by_age(ages) == [
        (860, "newest id is old"),
        (1960 + 388, "newest id is old: over"),
    ]


def test_a_crawl_that_catches_up_is_not_told_that_its_newest_id_is_old() -> None:
    assert told_by_age([8000 - 4 * second for second in range(1900)]) == []
    behind = told_by_age([5000 + second for second in range(700)])
    assert behind == [(300, "newest id is old")]


def figures(errors: float = 0.0, requests: int = 100) -> StatusFigures:
    return StatusFigures(31.0, 0.02, errors, requests, 12, 15_000_000_000)


def test_runaway_errors_are_told_when_they_begin() -> None:
    watch = IdsAlerts(3600.0, 0.0)
    told = [
        [alert.title for alert in watch.looked(now, one)]
        for now, one in enumerate(
            [figures(), figures(0.6, 10), figures(0.6), figures(0.9), figures(), figures(0.6)]
        )
    ]
    assert told == [[], [], ["runaway errors"], [], [], ["runaway errors"]]


def test_the_status_is_told_now_and_then() -> None:
    watch = IdsAlerts(10.0, 0.0)
    told = [now for now in range(35) if watch.looked(float(now), figures())]
    assert told == [10, 20, 30]
    assert figures().fields()["lag behind head (P20)"] == "31 s"


# --- Figures ---


def test_the_meter_counts_every_request_and_only_real_lags() -> None:
    metrics = CrawlMetrics("ids", SystemClock())
    meter = IdsMeter(metrics)
    for verdict, lag in (
        ("stored", 30.0),
        ("filtered", 31.0),
        ("disabled", None),
        ("stored", -5.0),
    ):
        meter.answered(EndedRequest(verdict, "Word", "first", 0, 0.12, lag), now=100.0)
    meter.answered(EndedRequest("not_found", "Word", "retry", 3, 0.1, None), now=100.0)
    from prometheus_client import generate_latest

    text = generate_latest(metrics.registry).decode()
    assert 'pgcr_crawl_summary_status{attempts="1",status="1"} 2.0' in text
    assert 'pgcr_crawl_summary_status{attempts="4",status="3"} 1.0' in text
    assert 'pgcr_crawl_summary_lag_count{attempts="1",status="1"} 1.0' in text
    assert 'get_pgcr_req_count{status="Word"} 5.0' in text
    assert 'trawlnet_ids_asks_total{purpose="retry",verdict="not_found"} 1.0' in text
    assert "atlas_active_workers 0.0" in text
    assert meter.lag_p20(100.0) == 30.0
    assert meter.lag_p20(400.0) is None
    assert meter.fractions(100.0)["fraction_404"] == pytest.approx(0.2)


def test_every_verdict_has_its_number() -> None:
    assert set(STATUSES) == set(map(str, AnswerVerdict))
    assert sorted(STATUSES.values()) == [1, 2, 3, 4, 5, 6, 9, 10]


@pytest.mark.parametrize("lag", [301.0, 350.0, 600.0, 1700.0])
def test_the_buckets_do_not_make_300_seconds_look_like_600(lag: float) -> None:
    edges = [0, *LAG_BUCKETS]
    low, high = next(pair for pair in itertools.pairwise(edges) if lag <= pair[1])
    read = low + 0.2 * (high - low)
    assert abs(read - lag) <= 0.2 * lag


@given(st.lists(st.floats(0.0, 1e6), min_size=1, max_size=60))
def test_a_quantile_of_few_values_is_one_of_them(values: list[float]) -> None:
    recent = RecentValues(120.0)
    for value in values:
        recent.add(5.0, value)
    found = recent.quantile(5.0, 0.2)
    assert found is not None
    assert sum(value < found for value in values) <= 0.2 * len(values)


def test_recent_figures_are_bounded_and_forgotten() -> None:
    counts, values = RecentCounts(10.0), RecentValues(10.0)
    for second in range(1000):
        for _ in range(100):
            counts.add(float(second), "ok")
            values.add(float(second), 1.0)
    assert 1000 <= counts.counts(999.0)["ok"] <= 1100
    assert sum(len(kept) for _, kept in values._slots) <= 64 * 12


# --- Where to begin ---


def search(ids: range, gaps: list[range], holes: set[int] = frozenset()) -> tuple[int | None, int]:  # type: ignore[assignment]
    asked = 0

    async def exists(number: int) -> bool:
        nonlocal asked
        asked += 1
        return number in ids and number not in holes and not any(number in gap for gap in gaps)

    return asyncio.run(newest_found(exists)), asked


@given(st.integers(10, 2**38), st.integers(0, 2**20))
def test_the_newest_id_is_found_by_searching(newest: int, seed: int) -> None:
    holes = {newest - 7 - seed % 50, 2 ** (newest.bit_length() - 1)}
    found, asked = search(range(1, newest + 1), [], holes)
    assert found is not None
    assert newest - 12 <= found <= newest
    assert asked < 800


def test_a_gap_on_the_way_does_not_mislead_the_search() -> None:
    newest = 15_000_000_000
    gap = range(12_000_000_000, 13_000_000_000)
    found, _ = search(range(1, newest + 1), [gap])
    assert found is not None
    assert newest - 12 <= found <= newest


def test_where_nothing_is_found_nothing_is_claimed() -> None:
    assert search(range(0), [])[0] is None
    assert first_id(100, 10_000) == 1
    assert first_id(50_000, 10_000) == 40_000


# --- Prometheus ---


class ReadingPilot:
    def __init__(self) -> None:
        self.readings: list[PeriodReading | None] = []

    def on_reading(self, reading: PeriodReading | None) -> None:
        self.readings.append(reading)


def test_newer_points_weigh_more_and_silence_is_passed_over() -> None:
    assert weighted([1.0, 4.0], 0.0) == 3.0
    assert weighted([float("nan"), 4.0], 0.0) == 4.0
    assert weighted([], 900.0) == 900.0
    for wrong in ({}, {"data": {"result": [{}]}}, None):
        with pytest.raises(ValueError, match="range query"):
            points_of(wrong)


def test_a_real_prometheus_understands_every_query_and_its_absence_is_said(tmp_path: Path) -> None:
    (tmp_path / "prometheus.yml").write_text("scrape_configs: []\n")
    port = free_port()
    server = subprocess.Popen(
        [
            require("prometheus"),
            f"--config.file={tmp_path / 'prometheus.yml'}",
            f"--storage.tsdb.path={tmp_path / 'data'}",
            f"--web.listen-address=127.0.0.1:{port}",
        ],
        stderr=subprocess.DEVNULL,
    )

    async def main() -> tuple[PeriodReading | str, PeriodReading | str]:
        clock = SystemClock()
        gate = Gate(clock, Manners(rate=1e6))
        agent = "trawlnet/test (+nobody@example.org)"
        async with Http(gate, clock, agent, guard=Guard(allow_private=True)) as http:
            reader = PrometheusReader(http, f"http://127.0.0.1:{port}/", clock, ReadingPilot())
            deadline = time.monotonic() + PATIENCE
            while isinstance(found := await reader.read(clock.now(), 4), str):
                assert time.monotonic() < deadline, found
                await asyncio.sleep(0.1)
            server.kill()
            server.wait()
            return found, await reader.read(clock.now(), 1)

    try:
        found, gone = asyncio.run(main())
    finally:
        server.kill()
        server.wait()
    assert found == PeriodReading(0.0, NO_LAG, 0.0)
    assert isinstance(gone, str) and gone


def test_without_an_answer_the_pilot_goes_by_its_own_counters_and_the_log_says_so(
    caplog: pytest.LogCaptureFixture,
) -> None:
    pilot = ReadingPilot()
    reader = PrometheusReader(None, "", SystemClock(), pilot)  # type: ignore[arg-type]
    reading = PeriodReading(0.1, 30.0, 40.0)
    for one in ("refused", "refused", reading):
        reader._tell(one)
    assert pilot.readings == [None, None, reading]
    assert caplog.text.count("using own") == 1


@pytest.mark.parametrize("minutes", [1, 4])
def test_no_query_has_a_window_of_nothing(minutes: int) -> None:
    assert all("[0m]" not in query for query in queries(minutes).values())
    assert f"[{minutes}m]" in queries(minutes)["fraction_404"]


def test_a_full_spool_has_room_again_when_a_tenth_is_stored() -> None:
    assert not has_no_room(99, 100, waiting=False)
    assert has_no_room(100, 100, waiting=False)
    assert has_no_room(95, 100, waiting=True)
    assert not has_no_room(89, 100, waiting=True)
