"""What is told about a crawl: once when it begins, once when it is over, and nothing besides."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.worlds import DictSink, ListSource, World, numbered_pages
from trawlnet.engine.control import Control
from trawlnet.engine.crawl import Feed, Parts
from trawlnet.engine.gate import Gate
from trawlnet.engine.outcome import Outcome, Reason, Receipt
from trawlnet.engine.rules import Manners
from trawlnet.engine.task import Task
from trawlnet.net.clock import SystemClock
from trawlnet.observe.alerts.rules import (
    DISK_LEAST,
    FAILURES,
    OVER,
    STALLED_AFTER,
    AlertKind,
    CrawlState,
    Disk,
    alerts_between,
    judged,
)
from trawlnet.observe.alerts.shapes import Alert
from trawlnet.observe.alerts.watcher import Watcher
from trawlnet.observe.metrics.crawl import CrawlMetrics
from trawlnet.stores.memory import MemoryStore

CALM = CrawlState("web", 1000.0, workable=10)
GB = 1 << 30


def titles(*looks: CrawlState) -> list[list[str]]:
    """What each look tells after the one before; the first follows a calm one."""
    told, before = [], CALM
    for look in looks:
        now = judged(look, before.troubles)
        told.append([alert.title for alert in alerts_between(before, now)])
        before = now
    return told


def tried(ok: int, **failed: int) -> CrawlState:
    tries = {Reason.OK: ok} | {Reason(word): count for word, count in failed.items()}
    return replace(CALM, tries=tries)


def test_runaway_errors_begin_at_half_and_end_at_a_quarter() -> None:
    looks = [
        tried(60, timeout=40),
        tried(40, timeout=60),
        tried(70, timeout=30),
        tried(90, timeout=10),
    ]
    assert titles(*looks) == [[], ["runaway errors"], [], ["runaway errors: over"]]


def test_few_tries_are_no_runaway_and_none_do_not_end_one() -> None:
    looks = [tried(0, timeout=49), tried(0, timeout=50), tried(0), tried(5)]
    assert titles(*looks) == [[], ["runaway errors"], [], ["runaway errors: over"]]


def test_answers_and_waits_are_no_failures() -> None:
    patient = {"not_yet": 500, "rate_limited": 500, "parked": 500, "embargoed": 500}
    assert titles(tried(0, not_found=900, deactivated=900, **patient)) == [[]]
    assert Reason.TIMEOUT in FAILURES and Reason.UNKNOWN in FAILURES


def test_a_runaway_names_its_reasons_most_frequent_first() -> None:
    (alert,) = alerts_between(CALM, judged(tried(10, timeout=30, dns_error=60), frozenset()))
    assert alert.text == "90 % of the last 100 attempts failed"
    assert list(alert.fields.items()) == [("dns_error", "60"), ("timeout", "30")]


@pytest.mark.parametrize(
    ("change", "stalled"),
    [
        ({}, True),
        ({"idle": STALLED_AFTER - 1}, False),
        ({"running": False}, False),
        ({"workable": 0}, False),
    ],
)
def test_a_crawl_is_stalled_when_it_could_work_and_does_not(
    change: dict[str, float], stalled: bool
) -> None:
    look = replace(CALM, **({"idle": STALLED_AFTER} | change))  # type: ignore[arg-type]
    assert titles(look) == [["stalled"] if stalled else []]


@pytest.mark.parametrize(
    ("free", "size", "full"),
    [
        (4 * GB, 100 * GB, True),
        (6 * GB, 100 * GB, False),
        (100 * GB, 10_000 * GB, False),  # One hundredth, and yet a lot.
        (19 * GB, 10_000 * GB, True),
        (DISK_LEAST - 1, 2 * GB, True),
        (DISK_LEAST, 2 * GB, False),
    ],
)
def test_a_disk_is_nearly_full_by_its_size(free: int, size: int, full: bool) -> None:
    assert titles(replace(CALM, disk=Disk(free, size))) == [["disk nearly full"] if full else []]


def test_a_disk_that_hovers_at_the_limit_is_told_once() -> None:
    frees = [5.1, 4.9, 5.1, 4.9, 6.0, 6.3, 4.9]
    told = titles(*(replace(CALM, disk=Disk(int(free * GB), 100 * GB)) for free in frees))
    assert told == [
        [],
        ["disk nearly full"],
        [],
        [],
        [],
        ["disk nearly full: over"],
        ["disk nearly full"],
    ]


def test_newly_blocked_hosts_are_named_and_made_harmless() -> None:
    before = replace(CALM, blocked=frozenset({"old"}))
    fresh = {f"host{n}" for n in range(6)} | {"<script>\x1b[31m"}
    now = replace(before, blocked=before.blocked | fresh, blocked_tasks=1234)
    (alert,) = alerts_between(before, now)
    assert alert.title == "hosts blocked"
    assert "host0" in alert.text and "and 2 more" in alert.text and "\x1b" not in alert.text
    assert alert.fields == {"blocked hosts": "8", "their tasks": "1,234"}
    assert alerts_between(now, before) == []


LOOKS = st.builds(
    CrawlState,
    st.just("web"),
    st.floats(0, 1e9),
    st.booleans(),
    st.dictionaries(st.sampled_from(Reason), st.integers(0, 1000), max_size=4),
    st.floats(0, 1e5),
    st.integers(0, 10),
    st.integers(0, 10),
    st.frozensets(st.text(max_size=3), max_size=3),
    st.integers(0, 10),
    st.none() | st.builds(Disk, st.integers(0, 100 * GB), st.just(100 * GB)),
)


@given(st.lists(LOOKS, max_size=12))
def test_every_trouble_begins_before_it_ends_and_is_not_told_twice(looks: list[CrawlState]) -> None:
    there: set[str] = set()
    for told in titles(*looks):
        for title in told:
            if title.endswith(OVER):
                there.remove(title.removesuffix(OVER))
            elif title in set(AlertKind):
                assert title not in there
                there.add(title)


# --- The watcher ---


class Away:
    """A handler whose hosts are all away."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate

    async def __call__(self, task: object) -> Outcome:
        async with self._gate.turn(task.lane):  # type: ignore[attr-defined]
            return Outcome(Reason.CONNECTION_ERROR)


def watch(trouble: bool, tmp_path: Path) -> list[Alert]:
    from trawlnet.engine.crawl import Limits, crawl

    told: list[Alert] = []

    async def main() -> None:
        clock = SystemClock()
        gate = Gate(clock, Manners(rate=1e6))
        handler = Away(gate) if trouble else World(clock, gate, trouble=False)
        metrics, control = CrawlMetrics("toy", clock), Control(50)
        metrics.folder = tmp_path
        pages = numbered_pages(100 if trouble else 4, lanes=2)
        store = MemoryStore()
        parts = Parts(Feed(ListSource(pages), store), store, handler, DictSink(), gate, clock)
        watcher = Watcher(metrics, parts, control, told.append)
        await watcher.look()
        await crawl(parts, Limits(), control)
        await watcher.look()
        await watcher.look()

    asyncio.run(main())
    return told


def test_the_watcher_tells_of_hosts_that_were_blocked(tmp_path: Path) -> None:
    told = [alert for alert in watch(True, tmp_path) if alert.title != AlertKind.DISK]
    assert [alert.title for alert in told] == ["hosts blocked"]
    assert "lane0, lane1" in told[0].text


def test_the_watcher_has_nothing_to_tell_of_a_crawl_that_goes_well(tmp_path: Path) -> None:
    assert [alert.title for alert in watch(False, tmp_path) if alert.title != AlertKind.DISK] == []


@pytest.mark.parametrize(
    ("receipts", "told"),
    [
        # A hundred dead servers, beside one that answers thousands of requests.
        ([(Reason.OK, 9_000, True), (Reason.TIMEOUT, 100, False)], [AlertKind.RUNAWAY]),
        # One that is ill in the middle of its scan, and its step is tried again and again.
        ([(Reason.OK, 20, True), (Reason.OK, 60, False), (Reason.TIMEOUT, 900, None)], []),
    ],
)
def test_where_tasks_have_steps_what_became_of_the_tasks_counts(
    receipts: list[tuple[Reason, int, bool | None]], told: list[AlertKind]
) -> None:
    alerts: list[Alert] = []
    task = Task("https://pds.example", "pds.example")

    async def main() -> None:
        clock, store = SystemClock(), MemoryStore()
        gate, control = Gate(clock, Manners()), Control(1)
        parts = Parts(None, store, Away(gate), None, gate, clock)
        watcher = Watcher(CrawlMetrics("pds", clock), parts, control, alerts.append)
        for reason, count, is_step in receipts:
            following = task if is_step is None else None
            one = Receipt(task, reason, next=following, is_step=bool(is_step))
            control.figures.add_receipts([one] * count, clock.now())
        await watcher.look()

    asyncio.run(main())
    assert [alert.title for alert in alerts] == told
