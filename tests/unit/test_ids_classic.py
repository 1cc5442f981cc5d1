"""The classic law gives the spec's figures, and its counters read what was counted."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trawlnet.crawlers.ids.classic.counters import SecondCounters
from trawlnet.crawlers.ids.classic.law import NO_LAG, PeriodReading, Setting, Strategy, classic_law
from trawlnet.crawlers.ids.classic.pilot import ClassicPilot
from trawlnet.crawlers.ids.controls import Controls
from trawlnet.crawlers.ids.model import Answer, AnswerVerdict, Ask, LedgerMark, PilotStart, Purpose

MANY = 1_000_000  # Workers: enough to see a share of them to six digits.


def law(fraction: float, lag: float = 40.0, rate: float = 50.0, workers: int = 100) -> Setting:
    return classic_law(PeriodReading(fraction, lag, rate), workers, 5, 250)


@pytest.mark.parametrize(
    ("fraction", "change"),
    [(0.001, 0.118), (0.02, 0.030), (0.05, -0.122), (0.10, -0.321), (0.193, -0.65), (0.4, -0.65)],
)
def test_the_normal_step_has_the_values_that_were_checked_by_hand(
    fraction: float, change: float
) -> None:
    setting = classic_law(PeriodReading(fraction, 40.0, 50.0), MANY, 5, 2 * MANY)
    assert setting.strategy is Strategy.NORMAL
    assert setting.workers / MANY - 1.0 == pytest.approx(change, abs=0.0006)


def test_at_the_base_fraction_nothing_changes() -> None:
    assert law(0.025).workers == 100


def test_more_than_half_not_found_is_a_gap() -> None:
    assert law(0.51) == Setting(Strategy.GAP, 25, 2500)
    assert law(0.50).strategy is Strategy.NORMAL


@pytest.mark.parametrize(("fraction", "lag"), [(0.0009, 40.0), (0.02, 600.0)])
def test_few_missing_or_much_lag_is_catching_up(fraction: float, lag: float) -> None:
    assert law(fraction, lag).strategy is Strategy.CATCH_UP


def test_catching_up_adds_one_percent_for_each_second_of_lag_above_twenty() -> None:
    assert law(0.0, 70.0).workers == 150
    assert law(0.0, 3.0).workers == 100
    assert law(0.0, 600.0, workers=10).workers == 68


def test_the_period_of_catching_up_grows_with_lag_and_workers() -> None:
    assert law(0.0, 70.0).period == 10_000
    assert law(0.0, 7200.0, workers=200).period == int((200 * 7180) ** 0.824)
    assert classic_law(PeriodReading(0.0, 90_000.0, 0.0), 1, 5, 250).period == int(
        (5 * 89_980) ** 0.824
    )


@pytest.mark.parametrize(
    ("fraction", "rate", "period"),
    [(0.02, 50.0, 15_000), (0.074, 50.0, 15_000), (0.075, 50.0, 5_000), (0.025, 0.0, 60_000)],
)
def test_the_normal_period_is_five_minutes_of_work(
    fraction: float, rate: float, period: int
) -> None:
    assert law(fraction, rate=rate).period == period


@given(
    st.floats(0.0, 1.0),
    st.floats(0.0, 1e6),
    st.floats(0.0, 1e4),
    st.integers(0, 1000),
    st.integers(1, 20),
    st.integers(20, 500),
)
def test_workers_stay_within_their_bounds_whatever_is_read(
    fraction: float, lag: float, rate: float, workers: int, least: int, most: int
) -> None:
    setting = classic_law(PeriodReading(fraction, lag, rate), workers, least, most)
    assert least <= setting.workers <= most
    assert setting.period >= 1


def test_counters_weigh_the_newest_minutes_most() -> None:
    counters = SecondCounters()
    for second in range(480):
        missing = second >= 240
        counters.count(second, AnswerVerdict.NOT_FOUND if missing else AnswerVerdict.STORED)
    reading = counters.reading(479.0, 240.0)
    # Windows of four minutes that end 4, 3, 2, 1 and 0 minutes ago, weights 1 to 5.
    assert reading.fraction_404 == pytest.approx(
        (0 + 2 * 0.25 + 3 * 0.5 + 4 * 0.75 + 5) / 15, abs=0.01
    )
    assert reading.count_404 == 240


def test_a_period_of_less_than_a_minute_is_read_over_a_minute() -> None:
    counters = SecondCounters()
    for second in range(50):
        counters.count(second, AnswerVerdict.STORED)
    assert counters.reading(49.0, 5.0).pgcr_rate > 0.0


def test_a_lag_of_three_hundred_seconds_does_not_look_like_six_hundred() -> None:
    counters = SecondCounters()
    for second in range(120):
        counters.count(second, AnswerVerdict.STORED)
        counters.lag(second, 301.0)
    assert 300.0 < counters.reading(119.0, 120.0).p20_lag < 360.0


def test_without_any_answer_the_lag_is_the_fallback() -> None:
    reading = SecondCounters().reading(1000.0, 300.0)
    assert (reading.fraction_404, reading.p20_lag, reading.pgcr_rate) == (0.0, NO_LAG, 0.0)


def test_a_lag_below_zero_is_dropped() -> None:
    counters = SecondCounters()
    counters.lag(1.0, -5.0)
    assert counters.reading(2.0, 60.0).p20_lag == NO_LAG


def answer(ask: Ask, verdict: AnswerVerdict) -> Answer:
    return Answer(ask, verdict, 0.1)


def test_a_missing_id_is_tried_four_times_then_six_more_then_missed() -> None:
    pilot = ClassicPilot(Controls(workers=5, max_rps=1000.0), PilotStart(100))
    purposes, now, entries = [], 0.0, []
    (ask, *others) = pilot.asks(now, 5)
    for other in others:
        pilot.answered(now, answer(other, AnswerVerdict.FILTERED))
    while not entries:
        purposes.append(ask.purpose)
        entries = list(pilot.answered(now, answer(ask, AnswerVerdict.NOT_FOUND)))
        while not entries:
            now += 0.5
            asked = pilot.asks(now, 50)
            for one in asked:
                if one.id != ask.id:
                    pilot.answered(now, answer(one, AnswerVerdict.FILTERED))
            again = [one for one in asked if one.id == ask.id]
            if again:
                (ask,) = again
                break
    assert purposes == [Purpose.FIRST] + [Purpose.RETRY] * 3 + [Purpose.OFFLOAD] * 6
    assert [(e.start, e.mark) for e in entries] == [(100, LedgerMark.MISSED)]
    assert 3.3 * 60 < now < 12 * 60


def test_a_worker_that_waits_takes_no_other_id() -> None:
    pilot = ClassicPilot(Controls(workers=5, max_rps=1000.0), PilotStart(100))
    asks = [ask for k in range(10) for ask in pilot.asks(k / 10, 50)]
    assert [ask.id for ask in asks] == [100, 101, 102, 103, 104]
    for ask in asks:
        pilot.answered(1.0, answer(ask, AnswerVerdict.NOT_FOUND))
    assert list(pilot.asks(1.5, 50)) == []


def test_a_period_ends_only_when_every_worker_is_back() -> None:
    controls = Controls(workers=250, max_rps=1e6)
    pilot = ClassicPilot(controls, PilotStart(0))
    pilot.decide(0.0)
    now, asked, decisions = 0.0, [], []
    while len(asked) < 10_000:
        now += 0.1
        asks = pilot.asks(now, 250)
        asked += asks
        for ask in asks[: len(asks) if len(asked) < 10_000 else -1]:
            pilot.answered(now, answer(ask, AnswerVerdict.FILTERED))
    decisions.append(pilot.decide(now))
    assert (list(pilot.asks(now, 250)), decisions) == ([], [None])
    pilot.answered(now, answer(asked[-1], AnswerVerdict.FILTERED))
    decision = pilot.decide(now)
    assert decision is not None
    assert decision.law == "classic"
    assert [ask.id for ask in pilot.asks(now, 1)] == [10_000]


def test_what_a_metrics_server_says_counts_for_one_decision() -> None:
    pilot = ClassicPilot(Controls(workers=100, max_rps=1e6), PilotStart(0))
    pilot.decide(0.0)
    pilot.on_reading(PeriodReading(0.9, 10.0, 5.0))
    for _ in range(10_000 // 100):
        for ask in pilot.asks(1.0, 100):
            pilot.answered(1.0, answer(ask, AnswerVerdict.FILTERED))
        pilot.asks(1.0, 0)
    decision = None
    now = 1.0
    while decision is None:
        now += 0.1
        for ask in pilot.asks(now, 100):
            pilot.answered(now, answer(ask, AnswerVerdict.FILTERED))
        decision = pilot.decide(now)
    assert decision.workers == 25
    assert "gap" in decision.reason


def test_people_are_told_of_the_workers_that_the_law_has_set() -> None:
    """There is room for more requests beside them: for retries in the slow lane, and probes."""
    pilot = ClassicPilot(Controls(workers=25), PilotStart(0))
    assert pilot.crew == 25
    assert pilot.workers > 25
