"""The parts of the adaptive law, one by one, and the promises that its pilot keeps anywhere."""

from __future__ import annotations

import random
from collections import Counter
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trawlnet.crawlers.ids.adaptive.ceiling import Ceiling, EvenPace
from trawlnet.crawlers.ids.adaptive.combs import Comb
from trawlnet.crawlers.ids.adaptive.concurrency import Concurrency
from trawlnet.crawlers.ids.adaptive.embargo import Embargo
from trawlnet.crawlers.ids.adaptive.gap_search import GapSearch
from trawlnet.crawlers.ids.adaptive.head import HeadModel
from trawlnet.crawlers.ids.adaptive.outage import Outage
from trawlnet.crawlers.ids.adaptive.pilot import AdaptivePilot
from trawlnet.crawlers.ids.adaptive.walk import Walk
from trawlnet.crawlers.ids.controls import Controls
from trawlnet.crawlers.ids.model import Answer, AnswerVerdict, Ask, LedgerMark, PilotStart, Purpose
from trawlnet.crawlers.ids.pilot_factory import make_pilot, pilot_at
from trawlnet.crawlers.ids.rehearsal import Rehearsal
from trawlnet.crawlers.ids.retries import Tries, Waiting

INF = float("inf")


# --- The head ---


def steady_head(rate: float = 50.0, seconds: int = 120) -> HeadModel:
    head = HeadModel(0.02)
    for second in range(seconds):
        for k in range(int(rate)):
            at = second + k / rate
            # One in fifty had happened long before it got its id.
            head.saw(int(1000 + rate * at), at, at - 3000.0 if k == 7 else at)
        head.refresh()
    return head


def test_the_head_follows_the_line_through_recent_ids() -> None:
    head = steady_head()
    assert head.rate == pytest.approx(50.0, rel=0.02)
    assert head.newest(150.0) == pytest.approx(1000 + 50 * (150 - head.delay), abs=60)
    assert head.newest(head.due(5000)) == pytest.approx(5000)


def test_the_delay_grows_while_too_many_asks_are_early_and_shrinks_otherwise() -> None:
    head, now = steady_head(), 0.0
    before = head.delay
    for k in range(300):
        now += 0.1
        head.first_ask(now, early=k % 10 == 0)
    grown = head.delay
    for _ in range(300):
        now += 0.1
        head.first_ask(now, early=False)
    assert before < grown > head.delay


def test_a_delay_that_a_pause_made_long_is_halved_within_minutes() -> None:
    """By half a second each five seconds it would take most of an hour."""
    head, began = steady_head(rate=1.0), 120.0
    head.published_late(began + 600.0)
    assert head.delay > 500.0
    for second in range(900):
        head.first_ask(began + 600.0 + second, early=False)
    assert head.delay < 60.0


def test_ids_that_stop_coming_do_not_drive_the_head_backwards() -> None:
    head = steady_head()
    before, heads = head.delay, []
    for k in range(200):
        now = 120.0 + k / 10
        head.first_ask(now, early=True)
        heads.append(head.newest(now))
    assert heads[-1] > heads[0]
    head.stopped()
    assert head.delay == before


def test_nothing_known_means_anything_may_be_asked_for() -> None:
    assert HeadModel(0.02).newest(5.0) == INF


# --- The ceiling ---


def throttle(ceiling: Ceiling, now: float, rate: float) -> bool:
    return sum(ceiling.refused(now, sent=now, rate=rate, wait=None) for _ in range(60)) > 0


def test_a_lone_refusal_does_not_slow_the_crawl() -> None:
    ceiling = Ceiling(100.0)
    assert not ceiling.refused(10.0, sent=9.9, rate=50.0, wait=None)
    assert ceiling.value(10.0) == 100.0


def test_refusals_cut_the_rate_that_was_sent_not_the_one_that_was_allowed() -> None:
    ceiling = Ceiling(400.0)
    assert throttle(ceiling, 10.0, rate=50.0)
    assert ceiling.value(10.0) == pytest.approx(0.85 * 50.0)


def test_answers_to_what_was_sent_before_a_cut_do_not_cut_again() -> None:
    ceiling = Ceiling(400.0)
    throttle(ceiling, 10.0, rate=50.0)
    assert not any(ceiling.refused(10.3, sent=9.9, rate=50.0, wait=None) for _ in range(20))


def test_the_rate_lingers_where_it_was_refused_and_then_is_free_again() -> None:
    ceiling = Ceiling(400.0)
    throttle(ceiling, 0.0, rate=50.0)
    values = [ceiling.value(float(t)) for t in range(120)]
    assert values == sorted(values)
    assert values[15] == pytest.approx(50.0)
    assert values[20] < 51.0
    assert values[-1] == 400.0


@given(st.lists(st.tuples(st.floats(0.0, 3.0), st.floats(0.1, 5000.0)), max_size=60))
def test_the_ceiling_is_never_above_what_was_set_nor_at_zero(
    cuts: list[tuple[float, float]],
) -> None:
    ceiling, now = Ceiling(25.0), 0.0
    for gap, rate in cuts:
        now += gap
        throttle(ceiling, now, rate)
        assert 0.0 < ceiling.value(now) <= 25.0
        assert 0.0 < ceiling.value(now + 1e7) <= 25.0


def test_a_server_that_names_a_time_is_left_alone_for_it() -> None:
    ceiling = Ceiling(25.0)
    ceiling.refused(10.0, sent=9.0, rate=5.0, wait=30.0)
    assert ceiling.held_until == 40.0


@given(st.lists(st.floats(0.0, 2.0), min_size=5, max_size=100), st.floats(0.5, 2000.0))
def test_no_more_leaves_than_the_rate_allows(gaps: list[float], rate: float) -> None:
    pace, now, sent = EvenPace(rate), 0.0, 0
    for gap in gaps:
        now += gap
        count = pace.ready(now)
        pace.spend(count)
        sent += count
    assert sent <= now * rate + max(2.0, 0.1 * rate) + 1


# --- How many in flight ---


def test_the_crew_follows_littles_law_with_a_dead_zone() -> None:
    crew = Concurrency(Controls(workers=25))
    for _ in range(1000):
        crew.took(0.1)
    assert crew.fit(0.0, 300.0)
    assert crew.size == 41
    assert not crew.fit(1.0, 320.0)
    assert not crew.fit(2.0, 250.0)


def test_the_crew_shrinks_only_when_fewer_have_been_enough_for_a_minute() -> None:
    crew = Concurrency(Controls(workers=100))
    for _ in range(1000):
        crew.took(0.1)
    crew.fit(0.0, 800.0)
    sizes = [(crew.fit(float(t), 100.0), crew.size)[1] for t in range(1, 70)]
    assert sizes[:55] == [sizes[0]] * 55
    assert sizes[-1] < sizes[0]


def test_two_predictions_that_were_far_off_freeze_the_crew() -> None:
    crew = Concurrency(Controls(workers=25))
    for second in range(12):
        crew.predict(float(second), 100.0, second * 10)
    crew.measure(10.0, 100)
    assert not crew.judge(10.0)
    crew.measure(11.0, 110)
    assert crew.judge(11.0)
    assert not crew.fit(12.0, 5000.0)


# --- Gaps ---


def search(world: range, finder: GapSearch, hidden: frozenset[int] = frozenset()) -> int:
    """Answer every probe honestly, but hide some ids in the first minute."""
    now, probes = 0.0, 0
    while finder.gap is None:
        now = max(now, min(finder.next_at(now), now + 1e6))
        ids = finder.take(now, 16)
        probes += len(ids)
        random.Random(now).shuffle(ids)
        for i in ids:
            finder.answered(now, i, i in world and (now > 60.0 or i not in hidden))
        if not ids and finder.next_at(now) == INF and finder.gap is None:
            return -1
        now += 0.1
    return probes


@given(st.integers(1, 10_000_000), st.integers(40, 5000), st.data())
@settings(max_examples=50, deadline=None)
def test_a_comb_finds_the_first_id_behind_a_gap(gap: int, block: int, data: st.DataObject) -> None:
    finder = GapSearch(1000)
    world = range(1000 + gap, 1000 + gap + block)
    step = max(1, int(0.45 * block))
    finder.comb(1000, Comb(0, step, gap // step + 3))
    hidden = frozenset(data.draw(st.lists(st.sampled_from(world), max_size=5)))
    assert search(world, finder, hidden - {world[0]}) > 0
    # Ids that hide mislead the search only until they are looked for again.
    assert finder.gap is not None
    assert finder.gap[0] == 1000
    assert finder.first is not None
    assert finder.first <= world[0] + len(hidden)


@given(st.integers(100, 10_000_000), st.integers(100, 5000))
@settings(max_examples=40, deadline=None)
def test_an_anchor_needs_few_probes(gap: int, block: int) -> None:
    world = range(1000 + gap, 1000 + gap + block)
    finder = GapSearch(1000, known=world[-1])
    assert search(world, finder) <= (gap + block).bit_length() + 25
    assert finder.gap == (1000, world[0])


def test_ids_that_were_late_are_handed_back_to_the_walk() -> None:
    world = range(500_000, 510_000)
    finder = GapSearch(1000, known=world[-1])
    late = frozenset(range(500_000, 503_000))
    extras = []
    now = 0.0
    while finder.gap is None:
        now = max(now, finder.next_at(now))
        for i in finder.take(now, 8):
            finder.answered(now, i, i in world and (now > 50.0 or i not in late))
            if finder.extra:
                extras.append(finder.extra)
                finder.extra = None
    assert finder.gap == (1000, 500_000)
    assert extras == [(500_000, 503_000)]


def test_a_probe_without_an_answer_is_sent_again() -> None:
    finder = GapSearch(0)
    finder.comb(0, Comb(0, 10, 2))
    assert finder.take(0.0, 5) == [10, 20]
    finder.answered(0.0, 10, None)
    assert finder.take(0.0, 5) == [10]


def test_a_probe_that_never_tells_anything_does_not_hold_up_the_search() -> None:
    finder = GapSearch(0)
    finder.comb(0, Comb(0, 10, 1))
    for _ in range(20):
        assert finder.take(0.0, 5) == [10]
        finder.answered(0.0, 10, None)
    assert not finder.searching


# --- The walk ---


def test_old_ranges_come_before_new_ids_and_probed_ones_are_left_out() -> None:
    walk = Walk(100, 1, [(7, 9), (3, 5)])
    assert walk.fetched_ahead(101)
    assert not walk.fetched_ahead(101)
    assert walk.old(3) == [3, 4, 7]
    assert walk.new(3, INF) == [100, 102, 103]
    assert (walk.old(9), walk.behind) == ([8], False)


def test_a_long_dry_run_inside_an_old_range_is_taken_for_a_gap() -> None:
    walk = Walk(10_000_000, 1, [(0, 5_000_000)])
    left = None
    while left is None:
        for i in walk.old(10):
            left = left or walk.walked(i, missing=True)
    assert left[0] < 200
    assert left[1] == 5_000_000
    assert not walk.behind


# --- Embargo and outage ---


def test_embargoed_ids_are_sampled_until_they_open_and_then_all_are_asked_for() -> None:
    embargo = Embargo()
    for i in range(100):
        embargo.hold(0.0, i)
    assert embargo.take(30.0, 100) == []
    sample = embargo.take(61.0, 100)
    assert len(sample) == 5
    for i in sample:
        embargo.hold(61.5, i)
    assert embargo.take(62.0, 100) == []
    rounds = 0
    while len(embargo):
        rounds += 1
        for i in embargo.take(130.0 + rounds, 1000):
            embargo.let_go(i)
    assert rounds <= 4


def test_a_withheld_id_that_two_requests_have_met_is_requested_once() -> None:
    """A probe and the walk may have asked for it side by side."""
    embargo = Embargo()
    for i in (7, 7, 8):
        embargo.hold(0.0, i)
    assert len(embargo) == 2
    embargo.let_go(8)  # The other request has fetched it.
    assert embargo.take(61.0, 9) == [7]
    embargo.hold(62.0, 7)  # Not by this one, and it stays in flight for nobody.
    embargo.let_go(7)
    assert not embargo.knows(7) and len(embargo) == 0 and embargo.take(130.0, 9) == []


def test_an_open_embargo_is_noticed_when_requests_leave_one_at_a_time() -> None:
    embargo, now = Embargo(range(1000)), 0.0
    while len(embargo) and now < 3600.0:
        now += 0.1
        embargo.sent(1)  # Ten requests a second, and no room to spare.
        for i in embargo.take_share(now, 1):
            embargo.let_go(i)
    assert now < 2100.0, "a twentieth of them is theirs"


@given(st.floats(0.0, 0.15))
@settings(max_examples=20, deadline=None)
def test_a_few_that_open_early_are_no_flood(share: float) -> None:
    """A thousand ids, of which some are open, all the time: samples, and little more."""
    embargo, drawn, asked = Embargo(range(1000)), random.Random(1), 0
    for second in range(3600):
        for i in embargo.take(float(second), 10):
            asked += 1
            if drawn.random() < share:
                embargo.let_go(i)
            else:
                embargo.hold(float(second), i)
    assert 300 <= asked <= 1500


def test_during_an_outage_one_canary_is_out_at_a_time() -> None:
    outage = Outage()
    for k in range(50):
        outage.disabled(5.0 + k / 100)
    assert not outage.take_canary(6.9)
    sent = []
    for tenth in range(69, 600):
        if outage.take_canary(tenth / 10):
            assert not outage.take_canary(tenth / 10 + 100.0)
            sent.append(tenth / 10)
            outage.disabled(tenth / 10)
    assert [round(b - a) for a, b in pairwise([5.0, *sent])] == [2, 4, 8, 10, 10, 10, 10]
    outage.answered(4.0)
    assert outage.on, "an answer that was under way says nothing"
    outage.answered(59.0)
    assert not outage.on


@pytest.mark.parametrize(
    "verdict", [AnswerVerdict.THROTTLED, AnswerVerdict.FAILED, AnswerVerdict.DISABLED]
)
def test_after_a_canary_without_news_there_is_another(verdict: AnswerVerdict) -> None:
    pilot = AdaptivePilot(Controls(max_rps=100.0), PilotStart(0))
    (ask,) = pilot.asks(0.0, 1)
    pilot.answered(1.0, Answer(ask, AnswerVerdict.DISABLED, 0.1))
    (canary,) = pilot.asks(pilot.wake_at(1.0), 5)
    pilot.answered(10.0, Answer(canary, verdict, 0.1))
    (other,) = pilot.asks(pilot.wake_at(10.0), 5)
    assert [canary.purpose, other.purpose] == [Purpose.CANARY] * 2
    pilot.answered(40.0, Answer(other, AnswerVerdict.STORED, 0.1, 30.0))
    assert len(pilot.asks(41.0, 5)) > 1


@pytest.mark.parametrize(
    "second", [AnswerVerdict.STORED, AnswerVerdict.EMBARGOED, AnswerVerdict.FILTERED]
)
def test_an_id_that_was_asked_for_twice_and_is_withheld_is_fetched_once(
    second: AnswerVerdict,
) -> None:
    """A probe and the walk may ask for it side by side, and the API open it in between."""
    pilot = AdaptivePilot(Controls(max_rps=100.0), PilotStart(0))
    (ask,) = pilot.asks(0.0, 1)
    assert pilot.answered(1.0, Answer(ask, AnswerVerdict.EMBARGOED, 0.1))
    pilot.answered(1.1, Answer(ask, second, 0.1, 1.0))
    again = [one.id for now in (70.0, 140.0, 210.0) for one in pilot.asks(now, 50)]
    assert again.count(ask.id) == (second is AnswerVerdict.EMBARGOED)


def test_failures_in_a_row_are_an_outage_too() -> None:
    outage = Outage()
    for k in range(30):
        outage.failed(k / 3)
    assert outage.on


# --- The pilot ---


class Flaky:
    """Ids exist from 0 on, one for each tenth of a second, with holes and all sorts of trouble."""

    def __init__(self, seed: int, trouble: float) -> None:
        self._rng = random.Random(seed)
        self._trouble = trouble
        self.sent: list[float] = []
        self.asked: Counter[int] = Counter()

    def reply(self, ask: Ask, at: float) -> Answer:
        self.sent.append(at)
        self.asked[ask.id] += 1
        took = self._rng.uniform(0.01, 0.3)
        if self._rng.random() < self._trouble:
            return Answer(ask, self._rng.choice(_TROUBLE), took)
        born = ask.id / 10.0
        if ask.id % 97 == 13 or at < born + 5.0 + ask.id % 7:
            return Answer(ask, AnswerVerdict.NOT_FOUND, took)
        return Answer(ask, AnswerVerdict.STORED, took, happened_at=born)


_TROUBLE = (
    AnswerVerdict.FAILED,
    AnswerVerdict.MALFORMED,
    AnswerVerdict.THROTTLED,
    AnswerVerdict.DISABLED,
)


@pytest.mark.slow
@pytest.mark.parametrize("scaling", ["adaptive", "classic"])
@given(st.integers(0, 1000), st.sampled_from([0.0, 0.01, 0.1]))
@settings(max_examples=6, deadline=None)
def test_every_id_that_was_passed_is_fetched_or_remembered(
    scaling: str, seed: int, trouble: float
) -> None:
    world = Flaky(seed, trouble)
    rehearsal = Rehearsal(world.reply, 1e6, 0.0)
    rehearsal.run(make_pilot(scaling, Controls(max_rps=50.0), 0), 0.0, 300.0)
    journal = rehearsal.journal
    for i in range(journal.beyond):
        assert i in journal.fetched or i in journal.asked or i in journal.marks, i
    holes = [i for i, mark in journal.marks.items() if mark is LedgerMark.HOLE]
    assert all(i % 97 == 13 for i in holes)
    assert len(journal.fetched) > 100


@pytest.mark.parametrize("scaling", ["adaptive", "classic"])
def test_the_budget_is_never_exceeded(scaling: str) -> None:
    world = Flaky(1, 0.0)
    rehearsal = Rehearsal(world.reply, 1e6, 0.0)
    # Far behind: there is every reason to be fast.
    rehearsal.run(make_pilot(scaling, Controls(max_rps=25.0), 0), 4000.0, 4200.0)
    for start in range(4000, 4190):
        sent = sum(start <= at < start + 10.0 for at in world.sent)
        assert sent <= 250 + 3, f"{sent} in ten seconds from {start}"
    assert len(world.sent) > 0.6 * 25 * 200


def test_room_is_never_overrun() -> None:
    pilot = AdaptivePilot(Controls(max_rps=1000.0), PilotStart(0))
    pilot.decide(0.0)
    assert sum(len(pilot.asks(k / 10, 3)) for k in range(1, 2)) <= 3
    assert list(pilot.asks(5.0, 0)) == []


def test_a_pilot_goes_on_where_another_was_killed() -> None:
    pilot = pilot_at("adaptive", Controls(max_rps=1000.0), PilotStart(0, 30, [(5, 8), (20, 21)]))
    asks = [ask for k in range(6) for ask in pilot.asks(k / 10, 3)]
    assert [ask.id for ask in asks][:5] == [5, 6, 7, 20, 30]
    assert {ask.purpose for ask in asks if ask.id < 30} == {Purpose.RETRY}


def test_memory_is_bounded_by_what_is_pending() -> None:
    world = Flaky(3, 0.0)
    rehearsal = Rehearsal(world.reply, 1e6, 0.0)
    pilot = AdaptivePilot(Controls(max_rps=100.0), PilotStart(0))
    rehearsal.run(pilot, 1500.0, 1800.0)
    assert len(rehearsal.journal.fetched) > 10_000
    assert len(pilot._waiting) < 400  # Only the holes, whose patience takes half an hour.
    assert len(pilot._waiting._tries) < 400
    assert not pilot._walk._ahead


def test_left_out_ids_are_told_to_the_ledger() -> None:
    pilot = AdaptivePilot(Controls(max_rps=1000.0, step=5), PilotStart(100))
    (ask,) = pilot.asks(0.0, 1)
    entries = pilot.answered(0.1, Answer(ask, AnswerVerdict.STORED, 0.1, 0.0))
    assert [(e.start, e.end, e.mark) for e in entries] == [(100, 101, "done"), (101, 105, "gap")]
    assert [ask.id for ask in pilot.asks(1.0, 1)] == [105]


def test_refusals_and_nothing_else_are_an_outage() -> None:
    """Maintenance behind a proxy looks like throttling; one canary at a time is enough for it."""
    pilot, now, asked = AdaptivePilot(Controls(max_rps=20.0), PilotStart(0)), 0.0, []
    while now < 120.0:
        now = max(now + 0.01, pilot.wake_at(now))
        for ask in pilot.asks(now, 5):
            asked.append(now)
            pilot.answered(now + 0.1, Answer(ask, AnswerVerdict.THROTTLED, 0.1))
        pilot.decide(now)
    assert len([at for at in asked if at > 60.0]) <= 8


def test_an_api_that_only_fails_costs_no_id_its_tries() -> None:
    """Found by a random world: with few ids, canaries used up the tries of those that waited."""
    pilot, now, missed = AdaptivePilot(Controls(max_rps=6.0), PilotStart(0)), 0.0, []
    while now < 1500.0:
        now = max(now + 0.01, pilot.wake_at(now))
        for ask in pilot.asks(now, 5):
            entries = pilot.answered(now + 0.1, Answer(ask, AnswerVerdict.FAILED, 0.1))
            missed += [entry for entry in entries if entry.mark is LedgerMark.MISSED]
        pilot.decide(now)
    assert missed == []


def test_the_hurry_after_a_stall_costs_no_try() -> None:
    waiting = Waiting()
    waiting.put(7, 1000.0, Tries(3, 1))
    waiting.put(8, 2.0, Tries(1))
    waiting.hurry(0.0)
    assert sorted(waiting.take(10.0)) == [7, 8]
    assert waiting.tries(7) == Tries(2, 1), "the ask that comes now is the third once more"
    assert waiting.tries(8) == Tries(1), "it was due anyway"


@pytest.mark.parametrize("wait", [20.0, 250.0])
def test_a_stated_wait_is_kept(wait: float) -> None:
    pilot = AdaptivePilot(Controls(max_rps=20.0), PilotStart(0))
    (ask,) = pilot.asks(0.0, 1)
    pilot.answered(0.1, Answer(ask, AnswerVerdict.THROTTLED, 0.1, wait=wait))
    assert pilot.wake_at(0.2) >= 0.1 + wait
    assert list(pilot.asks(wait - 1.0, 9)) == []
    assert list(pilot.asks(wait + 1.0, 9)) != []


@pytest.mark.parametrize("rate", [0.5, 25.0, 400.0])
def test_a_quiet_minute_saves_up_no_more_than_a_burst(rate: float) -> None:
    pace = EvenPace(rate)
    pace.spend(pace.ready(0.0))
    assert pace.ready(60.0) <= max(2.0, 0.1 * rate)
