"""Where ids are few, a crawl knows little of them: what it gets wrong must not cost them hours."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.random_worlds.ids_world import World, crawl
from trawlnet.cli.ids.trials import TrialPlan, run_plan
from trawlnet.cli.ids.worlds import SimulatedApi
from trawlnet.crawlers.ids.adaptive.combs import Comb, Combs
from trawlnet.crawlers.ids.controls import Controls
from trawlnet.crawlers.ids.pilot_factory import make_pilot
from trawlnet.crawlers.ids.rehearsal import Rehearsal
from trawlnet.sim.ids import CounterLeap, TimeSpan, Traffic
from trawlnet.sim.ids.events import WorldEvents


@pytest.mark.slow
@pytest.mark.parametrize("rate", [0.2, 0.5])
def test_ids_that_were_asked_for_blindly_are_fetched_when_they_are_due(rate: float) -> None:
    """They waited for their third and fourth tries: 20 minutes for one in twenty."""
    traffic = Traffic(seed=1, rate=rate, late_share=0.0, old_share=0.0)
    rehearsal = Rehearsal(SimulatedApi(traffic).reply, 400.0, 0.0)
    rehearsal.run(make_pilot("adaptive", Controls(max_rps=400.0), traffic.first_id), 0.0, 7200.0)
    lags = sorted(lag for _, lag in rehearsal.journal.lags)
    assert len(lags) > 0.9 * 7200.0 * rate
    assert lags[int(0.95 * len(lags))] < 300.0


@pytest.mark.slow
def test_a_delay_that_pauses_made_long_is_soon_forgotten() -> None:
    """It lost half a second each five seconds: ten minutes behind took two hours."""
    quiet = (TimeSpan(403.0, 1103.0), TimeSpan(1105.0, 1805.0))
    traffic = Traffic(
        seed=0,
        rate=1.0,
        wave=0.0,
        delay=1.0,
        delay_spread=0.5,
        late_share=0.0,
        hole_share=0.0,
        old_share=0.0,
        gaps=(CounterLeap(1104.0, 1), CounterLeap(1805.0, 600)),
        pauses=quiet,
        outages=quiet[1:],
    )
    controls = Controls(workers=1, max_workers=40, max_rps=6.0, freshness=0.005, patience=700.0)
    run = crawl(World(traffic, end=6000.0), controls, "adaptive")
    assert traffic.head(6000.0) - max(run.done) < 60


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rate", "pause", "bound"), [(50.0, 30, 600.0), (10.0, 30, 1200.0), (5.0, 10, 1200.0)]
)
def test_a_leap_of_a_million_ids_after_a_pause_is_crossed_in_minutes(
    rate: float, pause: int, bound: float
) -> None:
    """It took 18 minutes and 49: four probes a second were all, however many could be sent."""
    events = WorldEvents(
        gaps=(CounterLeap((20 + pause) * 60.0, 1_000_000),),
        pauses=(TimeSpan(20 * 60.0, (20 + pause) * 60.0),),
    )
    hours = (20 + pause + 25) / 60
    plan = TrialPlan("steady", "adaptive", 1, rate=rate, hours=hours, events=events)
    measures = run_plan(plan).measures
    assert measures.m5_gap_cross_s is not None and measures.m5_gap_cross_s < bound
    assert measures.m6_lost == 0


def test_a_long_silence_costs_few_probes_where_ids_are_few() -> None:
    """A counter that rests each night is not asked ten times a second until the morning."""
    hours = [probes_of_a_silence(nth * 3600.0, (nth + 1) * 3600.0) for nth in range(8)]
    assert max(hours[:2]) < 10.0 * 3600.0
    assert max(hours[2:]) < 4.0 * 3600.0


def probes_of_a_silence(start: float, end: float) -> int:
    """Between these seconds of it."""
    return sum(comb.count for now, comb in combs_of_a_silence(end) if now >= start)


def test_a_block_as_old_as_the_silence_cannot_lie_between_two_teeth() -> None:
    for now, comb in combs_of_a_silence(3600.0):
        assert 2 * comb.step <= now


def combs_of_a_silence(end: float) -> Iterator[tuple[float, Comb]]:
    """At an id a second, and a pace of a hundred."""
    combs, now = Combs(0.0), 0.0
    combs.pace = 100.0
    while (now := max(now, combs.next_at())) < end:
        comb = combs.take(now, 1.0, now)
        if comb is not None:
            yield now, comb
