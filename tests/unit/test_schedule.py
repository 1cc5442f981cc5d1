from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from trawlnet.engine.schedule import Schedule


def test_lanes_come_when_their_instant_has_come_and_only_once():
    schedule = Schedule(10)
    schedule.add("a", 5.0)
    schedule.add("b", 1.0)
    assert list(schedule.take(0.5)) == []
    assert schedule.next() == 1.0
    assert list(schedule.take(5.0)) == ["b", "a"]
    assert list(schedule.take(9.0)) == [] and schedule.next() == math.inf


def test_lanes_whose_instant_is_near_come_along_with_one_whose_instant_has_come():
    schedule = Schedule(10)
    for lane, when in (("a", 1.0), ("b", 1.5), ("c", 1.6)):
        schedule.add(lane, when)
    assert list(schedule.take(0.9, gather=0.5)) == []
    assert list(schedule.take(1.0, gather=0.5)) == ["a", "b"]
    assert schedule.next() == 1.6


def test_an_earlier_instant_wins_and_a_later_one_changes_nothing():
    schedule = Schedule(10)
    schedule.add("a", 5.0)
    schedule.add("a", 2.0)
    schedule.add("a", 8.0)
    assert list(schedule.take(2.0)) == ["a"] and len(schedule) == 0


def test_equal_instants_go_round():
    schedule = Schedule(10)
    for lane in "abc":
        schedule.add(lane, 0.0)
    order = []
    for _ in range(6):
        lane = next(schedule.take(0.0))
        order.append(lane)
        schedule.add(lane, 0.0)
    assert "".join(order) == "abcabc"


def test_a_full_schedule_says_so_instead_of_growing():
    schedule = Schedule(2)
    for lane in "abc":
        schedule.add(lane, 0.0)
    assert len(schedule) == 2 and schedule.overflowed


@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.floats(0, 100))))
def test_it_agrees_with_a_dictionary_of_earliest_instants(adds):
    schedule, model = Schedule(100), {}
    for lane, when in adds:
        schedule.add(lane, when)
        model[lane] = min(when, model.get(lane, math.inf))
    assert schedule.next() == min(model.values(), default=math.inf)
    assert sorted(schedule.take(50.0)) == sorted(n for n, when in model.items() if when <= 50.0)


def test_the_lane_with_the_most_work_left_goes_first():
    left = {"short": 1.0, "long": 60.0, "middle": 5.0}
    schedule = Schedule(10, left.__getitem__)
    for lane in left:
        schedule.add(lane, 0.0)
    assert list(schedule.take(0.0)) == ["long", "middle", "short"]


def test_a_lane_waits_no_longer_than_another_has_more_work_than_it():
    schedule = Schedule(10, {"short": 1.0, "long": 9.0}.__getitem__)
    schedule.add("short", 0.0)
    turns = []
    for now in range(12):
        schedule.add("long", float(now))
        turns.append(next(schedule.take(float(now))))
    assert turns.index("short") == 8


def test_a_lane_that_came_early_in_vain_does_not_keep_others_waiting() -> None:
    schedule = Schedule(10, work_left={"early": 100.0, "left over": 1.0}.__getitem__)
    schedule.add("left over", 1.0)
    schedule.add("early", 1.01)
    assert next(schedule.take(1.0, gather=0.02)) == "early", "it has more work left"
    schedule.add("early", 1.01)  # The store leases its task no earlier.
    assert list(schedule.take(1.0, gather=0.02)) == ["left over"]
    assert list(schedule.take(1.01, gather=0.02)) == ["early"]
