from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trawlnet.engine.figures import Figures
from trawlnet.engine.outcome import MEANING, Again, Blame, Outcome, Reason
from trawlnet.engine.rules import LanePace, Manners, RetryPolicy, judge, parked_until
from trawlnet.engine.task import Task

reasons = st.sampled_from(list(Reason))


def test_the_table_of_reasons_is_closed_and_complete():
    assert set(MEANING) == set(Reason)
    assert len(Reason) < 24
    assert all(meaning.gloss for meaning in MEANING.values())


def test_only_lane_trouble_is_blamed_on_the_lane():
    lane = {r for r in Reason if r.blame is Blame.LANE}
    assert lane == {
        Reason.RATE_LIMITED,
        Reason.UNAVAILABLE,
        Reason.DNS_ERROR,
        Reason.CONNECTION_ERROR,
        Reason.TIMEOUT,
        Reason.BLOCKED,
    }


@given(reasons, st.integers(0, 4), st.integers(0, 50), st.floats(0, 1e10))
def test_a_retry_is_always_later_and_always_ends(reason, attempt, waits, now):
    policy = RetryPolicy()
    task = Task("k", "l", attempt=attempt, waits=waits)
    receipt = judge(task, Outcome(reason), policy, now)
    if receipt.next is None:
        return
    assert receipt.next.due > now
    spent = (receipt.next.attempt, receipt.next.waits)
    assert spent in ((attempt + 1, waits), (attempt, waits + 1))
    assert receipt.next.attempt < policy.attempts and receipt.next.waits <= policy.patience


@given(st.integers(0, 4))
def test_waiting_because_told_to_uses_no_attempt(attempt):
    receipt = judge(
        Task("k", "l", attempt=attempt), Outcome(Reason.RATE_LIMITED, wait=60), RetryPolicy(), 0
    )
    assert receipt.next is not None
    assert receipt.next.attempt == attempt and receipt.next.due >= 60


def test_a_step_goes_on_at_once_and_is_no_word_about_its_key():
    task = Task("k", "l", payload={"step": "one"}, attempt=2, waits=1)
    figures = Figures()
    for reason in (Reason.HTTP_ERROR, Reason.OK):
        step = judge(task, Outcome(reason, again=Again.AT_ONCE), RetryPolicy(), 7.0)
        assert step.is_step and step.next == Task("k", "l", payload={"step": "one"}, due=7.0)
        figures.add_receipts([step], 7.0)
    figures.add_receipts([judge(task, Outcome(Reason.OK), RetryPolicy(), 7.0)], 7.0)
    assert figures.tally == {Reason.HTTP_ERROR: 1, Reason.OK: 2}
    assert figures.settled == {Reason.OK: 1} and figures.steps == 2


def test_an_outcome_can_be_the_last_word_whatever_its_reason_says():
    outcome = Outcome(Reason.RATE_LIMITED, wait=60.0, again=Again.NEVER)
    receipt = judge(Task("k", "l"), outcome, RetryPolicy(), 0.0)
    assert receipt.next is None and not receipt.is_step


def test_no_server_can_postpone_a_task_beyond_the_cap():
    receipt = judge(Task("k", "l"), Outcome(Reason.RATE_LIMITED, wait=1e12), RetryPolicy(), 0)
    assert receipt.next is not None and receipt.next.due <= RetryPolicy().cap


def test_a_revisit_starts_afresh():
    receipt = judge(
        Task("k", "l", attempt=3, waits=2), Outcome(Reason.OK, again_in=60), RetryPolicy(), 100
    )
    assert receipt.next is not None
    assert (receipt.next.due, receipt.next.attempt, receipt.next.waits) == (160, 0, 0)


@given(st.text(min_size=1), st.integers(0, 60))
def test_delays_double_within_jitter_and_stay_under_the_cap(key, attempt):
    policy = RetryPolicy(base=1.0, cap=100.0, jitter=0.25)
    delay = policy.delay(key, attempt)
    plain = min(100.0, 2.0 ** min(attempt, 40))
    assert plain * 0.75 <= delay <= plain * 1.25


def test_jitter_spreads_a_crowd():
    policy = RetryPolicy(base=100.0)
    delays = {round(policy.delay(f"k{n}", 0), 3) for n in range(100)}
    assert len(delays) > 90


@given(st.lists(reasons, max_size=80))
def test_pace_stays_between_floor_and_full_rate(history):
    manners, pace = Manners(rate=5.0, floor=0.5), LanePace()
    for reason in history:
        pace = pace.after(reason)
        assert 0.5 <= pace.rate(manners) <= 5.0


def failing(times: int, reason: Reason = Reason.UNAVAILABLE) -> LanePace:
    pace = LanePace()
    for _ in range(times):
        pace = pace.after(reason)
    return pace


def test_the_rate_halves_at_every_fifth_failure_and_a_success_restores_it():
    manners = Manners(rate=8.0, block_at=100)
    assert [failing(n).rate(manners) for n in (0, 4, 5, 9, 10, 15, 20, 50)] == [
        8.0,
        8.0,
        4.0,
        4.0,
        2.0,
        1.0,
        0.5,
        0.5,
    ]
    assert failing(12).after(Reason.OK).rate(manners) == 8.0


def test_a_lane_slower_than_the_floor_is_not_sped_up_by_failing():
    assert failing(5).rate(Manners(rate=0.1, floor=0.5)) == 0.1


def test_the_tenth_failure_blocks():
    manners = Manners()
    assert not failing(9).blocked(manners)
    assert failing(10).blocked(manners)
    assert parked_until(failing(10), Outcome(Reason.UNAVAILABLE), manners, 0.0) == math.inf


def test_an_answer_about_a_key_shows_that_its_lane_is_well():
    assert failing(9).after(Reason.NOT_FOUND) == LanePace()


@pytest.mark.parametrize("reason", [Reason.UNKNOWN, Reason.PARKED])
def test_our_own_trouble_neither_slows_nor_excuses_a_lane(reason):
    assert failing(3).after(reason) == failing(3)
    assert parked_until(LanePace(), Outcome(reason, wait=50), Manners(), 0.0) == 0.0


def test_slow_down_is_not_a_failure():
    assert not failing(50, Reason.RATE_LIMITED).blocked(Manners())


def test_slow_down_does_not_excuse_the_failures_before_it():
    pace = failing(7).after(Reason.RATE_LIMITED)
    assert (pace.failures, pace.throttled) == (7, 1)
    assert pace.rate(Manners(rate=8.0)) == failing(7).rate(Manners(rate=8.0))


def test_slow_down_without_a_time_parks_longer_each_time_within_the_cap():
    manners = Manners(first_park=5.0, longest_park=60.0)
    parks = [
        parked_until(failing(n, Reason.RATE_LIMITED), Outcome(Reason.RATE_LIMITED), manners, 0.0)
        for n in (1, 2, 3, 9)
    ]
    assert parks == [5.0, 10.0, 20.0, 60.0]


def test_a_servers_own_word_is_honoured_and_capped():
    manners = Manners(longest_park=100.0)
    pace = failing(1, Reason.RATE_LIMITED)
    assert parked_until(pace, Outcome(Reason.RATE_LIMITED, wait=7), manners, 50.0) == 57.0
    assert parked_until(pace, Outcome(Reason.UNAVAILABLE, wait=7), manners, 50.0) == 57.0
    assert parked_until(pace, Outcome(Reason.RATE_LIMITED, wait=1e9), manners, 50.0) == 150.0


def test_every_patient_reason_is_not_an_answer():
    assert not [r for r in Reason if r.again is Again.PATIENT and r.answer]


def test_a_steered_lane_is_held_to_its_rate_and_to_the_servers_word_only() -> None:
    manners = Manners(rate=25.0, concurrency=100, steered=True)
    pace = LanePace()
    for _ in range(30):
        pace = pace.after(Reason.UNAVAILABLE).after(Reason.RATE_LIMITED)
    assert pace.rate(manners) == 25.0
    assert pace.concurrency(manners) == 100
    assert parked_until(pace, Outcome(Reason.RATE_LIMITED), manners, now=10.0) == 0.0
    assert parked_until(pace, Outcome(Reason.RATE_LIMITED, wait=3.0), manners, now=10.0) == 13.0


def test_a_lane_with_probes_is_parked_longer_each_time_and_then_blocked():
    manners = Manners(block_at=10, probes=3, first_probe=30.0)
    trouble = Outcome(Reason.UNAVAILABLE)
    parked = [parked_until(failing(n), trouble, manners, 100.0) - 100.0 for n in range(9, 14)]
    assert parked == [-100.0, 30.0, 60.0, 120.0, math.inf]
    assert not failing(12).blocked(manners) and failing(13).blocked(manners)


def test_a_failure_on_a_lane_that_is_well_starts_its_pace_afresh():
    assert failing(9).after(Reason.UNAVAILABLE, lane_is_well=True) == LanePace()
    # "Slow down" is heeded each time, and adds up only where nobody is served.
    throttled = LanePace(failures=9, throttled=4)
    assert throttled.after(Reason.RATE_LIMITED) == LanePace(failures=9, throttled=5)
    assert throttled.after(Reason.RATE_LIMITED, lane_is_well=True) == LanePace(throttled=1)


@pytest.mark.parametrize(("reason", "score"), [(Reason.UNAVAILABLE, 207.5), (Reason.PARKED, 207)])
def test_a_failed_task_that_pays_with_no_try_goes_behind_fresh_ones_too(reason, score):
    policy = RetryPolicy(attempts=9, behind=0.5)
    outcome = Outcome(reason, again=Again.QUEUED)
    receipt = judge(Task("k", "l", score=207.0, attempt=1), outcome, policy, 0.0)
    assert receipt.next is not None
    assert (receipt.next.score, receipt.next.attempt, receipt.next.waits) == (score, 1, 0)


@pytest.mark.parametrize("reason", [Reason.UNAVAILABLE, Reason.RATE_LIMITED])
def test_a_retry_goes_behind_fresh_tasks_of_its_score_however_often_it_failed(reason):
    policy = RetryPolicy(attempts=9, behind=0.5)
    task = Task("k", "l", score=207.0)
    for _ in range(5):
        receipt = judge(task, Outcome(reason), policy, 0.0)
        assert receipt.next is not None
        task = receipt.next
        assert task.score == 207.5


def test_a_throttled_task_goes_behind_all_fresh_ones_and_stays_there():
    policy = RetryPolicy(behind=0.5, revisits_after=1000.0)
    task = Task("k", "l", score=207.0)
    for _ in range(5):
        receipt = judge(task, Outcome(Reason.RATE_LIMITED), policy, 0.0)
        assert receipt.next is not None
        task = receipt.next
        assert task.score == 1207.5
    failed = judge(Task("k", "l", score=207.0), Outcome(Reason.UNAVAILABLE), policy, 0.0)
    assert failed.next is not None and failed.next.score == 207.5
