"""Ids that never come, or come late: no delay helps against them, and none must be learnt."""

from __future__ import annotations

import pytest

from trawlnet.cli.ids.worlds import SimulatedApi
from trawlnet.crawlers.ids.controls import Controls
from trawlnet.crawlers.ids.model import Answer, Ask
from trawlnet.crawlers.ids.pilot_factory import make_pilot
from trawlnet.crawlers.ids.rehearsal import Rehearsal
from trawlnet.sim.ids import Traffic

END = 1500.0
FULL_OF_HOLES = Traffic(
    seed=1, rate=60.0, delay=10.0, hole_share=0.03, late_share=0.05, late_spread=40.0
)


@pytest.mark.slow
@pytest.mark.parametrize("timed", [True, False])
def test_a_crawl_keeps_up_where_more_ids_are_holes_than_may_be_asked_for_early(timed: bool) -> None:
    """Every hole was taken for an early ask: the crawl fell back half a second each second."""
    world = SimulatedApi(FULL_OF_HOLES)

    def reply(ask: Ask, at: float) -> Answer:
        answer = world.reply(ask, at)
        return answer if timed else Answer(ask, answer.verdict, answer.took)

    rehearsal = Rehearsal(reply, 400.0, 0.0)
    controls = Controls(max_rps=400.0, max_workers=300, freshness=0.005)
    rehearsal.run(make_pilot("adaptive", controls, FULL_OF_HOLES.first_id), 0.0, END)
    behind = FULL_OF_HOLES.head(END) - max(rehearsal.journal.fetched)
    assert behind < 60.0 * FULL_OF_HOLES.rate, "seconds' worth of ids"
    requests = len(rehearsal.journal.requests)
    assert requests < 1.4 * len(rehearsal.journal.fetched)
