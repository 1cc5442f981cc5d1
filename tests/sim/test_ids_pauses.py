"""Counters that pause, leap, or both, and embargoes that end: the adaptive crawl goes on."""

from __future__ import annotations

import pytest

from trawlnet.cli.ids.trials import lost
from trawlnet.cli.ids.worlds import SimulatedApi, Trial, trial
from trawlnet.crawlers.ids.controls import Controls
from trawlnet.crawlers.ids.model import AnswerVerdict
from trawlnet.crawlers.ids.pilot_factory import make_pilot
from trawlnet.crawlers.ids.rehearsal import Journal, Rehearsal
from trawlnet.sim.ids import CounterLeap, SimEmbargo, TimeSpan, Traffic

RATE, CAP = 5.0, 50.0
QUIET = TimeSpan(300.0, 900.0)  # Ten minutes.
# The traffic, when its last trouble is over, and in how many seconds the crawl is at it again.
TROUBLE = {
    "pause": (Traffic(seed=1, rate=RATE, pauses=(QUIET,)), 900.0, 60.0),
    "maintenance": (Traffic(seed=2, rate=RATE, pauses=(QUIET,), outages=(QUIET,)), 900.0, 60.0),
    # Fewer ids than would have come meanwhile.
    "small leap": (
        Traffic(seed=3, rate=RATE, pauses=(QUIET,), gaps=(CounterLeap(900.0, 700),)), 900.0, 240.0,
    ),
    "leap": (
        Traffic(seed=4, rate=RATE, pauses=(QUIET,), gaps=(CounterLeap(900.0, 30_000),)),
        900.0, 420.0,
    ),
    "leap of an API that was off": (
        Traffic(
            seed=5, rate=RATE, pauses=(QUIET,), outages=(QUIET,), gaps=(CounterLeap(900.0, 30_000),)
        ), 900.0, 420.0,
    ),
    "leaps in a row": (
        Traffic(
            seed=6, rate=RATE,
            gaps=(CounterLeap(300.0, 5000), CounterLeap(370.0, 300), CounterLeap(440.0, 20_000)),
        ), 440.0, 420.0,
    ),
    "pauses in a row": (
        Traffic(
            seed=7,
            rate=RATE,
            pauses=(TimeSpan(300.0, 420.0), TimeSpan(450.0, 600.0), TimeSpan(800.0, 860.0)),
            gaps=(CounterLeap(600.0, 3000), CounterLeap(860.0, 900)),
        ), 860.0, 300.0,
    ),
}  # fmt: skip


def crawl(traffic: Traffic, end: float, cap: float = CAP, law: str = "adaptive") -> Journal:
    rehearsal = Rehearsal(SimulatedApi(traffic).reply, cap, 0.0)
    rehearsal.run(make_pilot(law, Controls(max_rps=cap), traffic.first_id), 0.0, end)
    return rehearsal.journal


@pytest.mark.parametrize("name", TROUBLE)
def test_a_counter_that_pauses_or_leaps_is_followed(name: str) -> None:
    traffic, over, bound = TROUBLE[name]
    end = over + bound + 300.0
    journal = crawl(traffic, end)
    assert lost(Trial(name, traffic, 0.0, end, 0.0), journal) == []
    newest = traffic.head(end - 120.0)
    assert max(journal.fetched) >= newest, "it has not caught up"
    assert all(_allocated(traffic, i) for i in journal.fetched), "ids that never were"


def _allocated(traffic: Traffic, i: int) -> bool:
    return traffic.allocated_at(i) is not None


def test_ids_that_were_asked_for_in_vain_before_a_stall_are_fetched_right_after_it() -> None:
    """Found by a random world: their next ask was a whole patience away."""
    stall = TimeSpan(400.0, 1100.0)
    traffic = Traffic(seed=98, rate=2.0, late_share=0.0, hole_share=0.0, stalls=(stall,))
    rehearsal = Rehearsal(SimulatedApi(traffic).reply, CAP, 0.0)
    controls = Controls(max_rps=CAP, patience=4000.0)
    rehearsal.run(make_pilot("adaptive", controls, traffic.first_id), 0.0, stall.end + 120.0)
    due = range(traffic.first_id, traffic.head(stall.end - 60.0) + 1)
    assert [i for i in due if i not in rehearsal.journal.fetched] == []


def test_a_gap_that_is_larger_than_any_before_is_crossed() -> None:
    """It was given up at twenty million ids: at this rate that is a comb of a few thousand."""
    traffic = Traffic(seed=8, rate=200.0, wave=0.0, gaps=(CounterLeap(60.0, 25_000_000),))
    journal = crawl(traffic, 300.0, cap=400.0)
    assert max(journal.fetched) > traffic.gap_ranges()[0][1]


@pytest.mark.parametrize("delay", [90.0, 180.0])
def test_a_long_delay_of_publication_is_learnt(delay: float) -> None:
    traffic = Traffic(seed=9, rate=10.0, delay=delay)
    journal = crawl(traffic, delay + 900.0, cap=100.0)
    late = [verdict for at, _, verdict in journal.requests if at > delay + 300.0]
    early = sum(verdict is AnswerVerdict.NOT_FOUND for verdict in late) / len(late)
    assert early < 0.12
    lags = sorted(lag for at, lag in journal.lags if at > delay + 300.0)
    assert lags[len(lags) // 2] < delay + 30.0


def test_few_ids_are_asked_for_sooner() -> None:
    """One early request every other second is nothing, and the median is what the classic law's
    is, which asks all the time."""
    traffic = Traffic(seed=10, rate=2.0, wave=0.0)
    lags = sorted(lag for at, lag in crawl(traffic, 2400.0, cap=25.0).lags if at > 900.0)
    assert lags[len(lags) // 2] < 29.0


@pytest.mark.parametrize("law", ["adaptive", "classic"])
@pytest.mark.parametrize(("rate", "share"), [(2.0, 0.5), (20.0, 0.05)])
def test_embargoed_ids_are_fetched_soon_after_they_open_at_any_rate(
    law: str, rate: float, share: float
) -> None:
    opens = 600.0
    embargo = SimEmbargo(TimeSpan(0.0, 500.0), opens)
    traffic = Traffic(seed=11, rate=rate, wave=0.0, raid_share=share, embargoes=(embargo,))
    journal = crawl(traffic, opens + 500.0, cap=25.0, law=law)
    assert len(journal.withheld) > 300
    assert journal.withheld <= set(journal.fetched)


def test_embargoes_that_end_one_after_the_other_waste_little() -> None:
    early, late = (
        SimEmbargo(TimeSpan(0.0, 300.0), 700.0),
        SimEmbargo(TimeSpan(300.0, 600.0), 2000.0),
    )
    traffic = Traffic(seed=12, rate=4.0, raid_share=0.5, embargoes=(early, late))
    journal = crawl(traffic, 1700.0)
    opened = [i for i in journal.withheld if traffic.opens_at(i) == 700.0]
    assert set(opened) <= set(journal.fetched)
    refused = [v for at, _, v in journal.requests if at > 700.0 and v is AnswerVerdict.EMBARGOED]
    assert len(refused) < 1200, "those that stay closed are not asked for again and again"


def test_the_scenarios_pause_and_leap_as_they_say() -> None:
    pause, leap = trial("pause", 1, 10.0), trial("pause:5k", 1, 10.0)
    assert pause.traffic.count(1800.0) == pytest.approx(pause.traffic.count(3600.0))
    assert leap.traffic.gap_ranges()[0][1] - leap.traffic.gap_ranges()[0][0] == 5000
    assert leap.since > leap.traffic.pauses[0].end
    off = trial("maintenance:1m", 1, 10.0).traffic
    assert off.outages == off.pauses
    assert len(trial("leaps", 1, 10.0).traffic.gap_ranges()) == 4
