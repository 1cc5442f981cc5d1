"""What the dashboard makes of a fleet's keys, and what a shard makes of a watcher's wishes."""

from __future__ import annotations

import json

import pytest
import zstandard

from tests.support.pages.dashboard_run import lane, table_of
from trawlnet.cli.dashboard.fleet import merged, shard_row, speed_and_eta, standing_of, state_of
from trawlnet.engine.control import Control
from trawlnet.engine.outcome import Reason
from trawlnet.engine.partition import bucket_of, owner_of
from trawlnet.engine.ports import Counts
from trawlnet.fleet.history import figures_of
from trawlnet.fleet.telling import heed, unpacked
from trawlnet.observe.dashboard.place import CrawlCondition
from trawlnet.observe.lane_table import LaneTable
from trawlnet.stores.redis.fleet.shards import FleetPlan, Heard, Word
from trawlnet.stores.redis.window import Wishes

ROW = {
    "token": "s000-00000001", "version": 1, "node": "n", "pid": 7, "dry": False, "draining": False,
    "paused": False, "stands": 10.0, "workers": 5, "memory": 1 << 20, "in_flight": 2,
    "attempts": 9, "settled": {"ok": 9}, "rate": 3.5, "parts": 2, "bytes": 100,
}  # fmt: skip


@pytest.mark.parametrize(
    ("plan", "at_work", "commanded", "paused", "standing"),
    [
        (FleetPlan(), False, False, False, CrawlCondition.NEVER),
        (FleetPlan(1, 1, 2, Word.RUN), True, True, False, CrawlCondition.RUNNING),
        (FleetPlan(1, 1, 2, Word.RUN), True, True, True, CrawlCondition.PAUSED),
        (FleetPlan(1, 1, 2, Word.RUN), False, True, False, CrawlCondition.RUNNING),
        (FleetPlan(1, 1, 2, Word.RUN), True, False, False, CrawlCondition.RUNNING),
        (FleetPlan(1, 1, 2, Word.RUN), False, False, False, CrawlCondition.CUT_SHORT),
        (FleetPlan(1, 1, 2, Word.DRAIN), True, True, False, CrawlCondition.DRAINING),
        (FleetPlan(1, 1, 2, Word.DRAIN), False, True, False, CrawlCondition.ENDED),
        (FleetPlan(1, 1, 2, Word.STOP), False, False, True, CrawlCondition.ENDED),
        (FleetPlan(1, 1, 2, Word.DONE), True, True, False, CrawlCondition.ENDED),
    ],
)
def test_a_fleet_stands_as_its_plan_and_its_shards_say(
    plan: FleetPlan, at_work: bool, commanded: bool, paused: bool, standing: CrawlCondition
) -> None:
    assert standing_of(plan, at_work, commanded, paused) is standing


@pytest.mark.parametrize(
    ("more", "stands", "state"),
    [
        ({}, 9.0, "reading"),
        ({"dry": True}, 9.0, "working"),
        ({"paused": True}, 9.0, "paused"),
        ({"draining": True, "paused": True}, 9.0, "draining"),
        ({}, 4.0, "silent"),
        ({}, -1.0, "gone"),
        ({}, -1.7e9, "gone"),
    ],
)
def test_a_shard_is_shown_as_what_was_last_heard_of_it(
    more: dict[str, object], stands: float, state: str
) -> None:
    assert state_of(Heard(ROW | more, stands)) == state


def test_figures_of_a_shard_that_is_not_heard_of_are_not_shown() -> None:
    assert shard_row(0, Heard(ROW, 9.0))[:6] == (
        "shard\N{NO-BREAK SPACE}0",
        "reading",
        "n",
        "7",
        "3.5",
        "2",
    )
    assert shard_row(1, Heard(ROW, -2.0))[4:6] == ("\N{EN DASH}", "\N{EN DASH}")
    assert shard_row(1, Heard(ROW, -2.0))[-1] == "12s ago"
    assert shard_row(1, Heard(ROW, -1.7e9))[-1] == "long ago"
    assert shard_row(2, None)[1] == "not begun"


def test_a_lane_that_two_shards_know_is_as_its_owner_says() -> None:
    owner = owner_of(bucket_of("a.example"), 2)
    mine, old = lane("a.example", in_flight=3), lane("a.example", "blocked")
    for tables in ({owner: [mine], 1 - owner: [old]}, {1 - owner: [old], owner: [mine]}):
        assert merged(tables, 2) == [mine]
    assert merged({0: [old], 1: [lane("b.example")]}, 2) == [old, lane("b.example")]


def test_the_time_left_is_known_only_when_there_is_less_and_less_to_do() -> None:
    assert speed_and_eta([(0.0, 0, 100)]) == (0.0, None)
    assert speed_and_eta([(0.0, 0, 100), (10.0, 50, 50)]) == (5.0, 10.0)
    assert speed_and_eta([(0.0, 0, 100), (10.0, 50, 200)]) == (5.0, None)
    assert speed_and_eta([(0.0, 90, 10), (10.0, 100, 0)]) == (1.0, 0.0)
    assert speed_and_eta([(0.0, 90, 10), (10.0, 20, 80)])[0] == 0.0


def test_what_shards_bring_in_is_summed_up_with_what_the_store_counts() -> None:
    counts = Counts(open=5, settled={Reason.OK: 7}, attempts={Reason.OK: 7, Reason.TIMEOUT: 2})
    figures = figures_of(counts, [ROW, ROW])
    assert (figures["done"], figures["attempts"], figures["errors"]) == (7, 9, 2)
    assert (figures["in_flight"], figures["workers"], figures["parts"]) == (4, 10, 4)
    assert "pid" not in figures and "settled" not in figures
    assert json.dumps(figures)


def test_a_table_that_is_damaged_or_too_large_is_empty() -> None:
    table = table_of([lane("a")], 1.0).encode()
    packed = zstandard.compress(table)
    assert [row.lane for row in unpacked(packed).rows] == ["a"]
    assert unpacked(packed[:-3]) == LaneTable()
    assert unpacked(b"") == LaneTable()
    assert unpacked(zstandard.compress(b" " * (33 << 20))) == LaneTable()


def test_a_shard_heeds_a_pause_and_looks_again_once_when_failures_were_put_back() -> None:
    control = Control(4)
    heed(control, None, Wishes(again=3))
    assert (control.paused, control.relist) == (False, False)
    heed(control, Wishes(again=3), Wishes(paused=True, again=3))
    assert (control.paused, control.relist) == (True, False)
    heed(control, Wishes(paused=True, again=3), Wishes(again=4))
    assert (control.paused, control.relist) == (False, True)
