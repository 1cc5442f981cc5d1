"""Where ids are few, a crawl knows little of them: what it gets wrong must not cost them hours."""

from __future__ import annotations

import pytest

from tests.random_worlds.ids_world import World, crawl
from trawlnet.cli.ids.worlds import SimulatedApi
from trawlnet.crawlers.ids.controls import Controls
from trawlnet.crawlers.ids.pilot_factory import make_pilot
from trawlnet.crawlers.ids.rehearsal import Rehearsal
from trawlnet.sim.ids import CounterLeap, TimeSpan, Traffic


@pytest.mark.parametrize("rate", [0.2, 0.5])
def test_ids_that_were_asked_for_blindly_are_fetched_when_they_are_due(rate: float) -> None:
    """They waited for their third and fourth tries: 20 minutes for one in twenty."""
    traffic = Traffic(seed=1, rate=rate, late_share=0.0, old_share=0.0)
    rehearsal = Rehearsal(SimulatedApi(traffic).reply, 400.0, 0.0)
    rehearsal.run(make_pilot("adaptive", Controls(max_rps=400.0), traffic.first_id), 0.0, 7200.0)
    lags = sorted(lag for _, lag in rehearsal.journal.lags)
    assert len(lags) > 0.9 * 7200.0 * rate
    assert lags[int(0.95 * len(lags))] < 300.0


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
