"""A budget that changes while a crawl runs."""

from __future__ import annotations

import asyncio

import pytest

from trawlnet.crawlers.ids.build import heeding
from trawlnet.crawlers.ids.config import IdsConfig, manners
from trawlnet.crawlers.ids.controls import Controls
from trawlnet.crawlers.ids.ledger.askers import Askers
from trawlnet.crawlers.ids.ledger.second_chances import ChancePolicy, SecondChances
from trawlnet.crawlers.ids.model import Answer, AnswerVerdict, Pilot
from trawlnet.crawlers.ids.pilot_factory import make_pilot
from trawlnet.engine.control import Control
from trawlnet.engine.gate import Gate
from trawlnet.sim.virtual import SimClock, run_sim

TICK = 0.05
LONG_AGO = 100_000.0  # Seconds: a backlog that no budget of these tests gets through.


def sent(pilot: Pilot, start: float, seconds: int) -> int:
    """Requests that leave in so many seconds, each answered at once."""
    count = 0
    for tick in range(round(seconds / TICK)):
        now = start + tick * TICK
        if tick % round(1.0 / TICK) == 0:
            pilot.decide(now)
        for ask in pilot.asks(now, 1000):
            count += 1
            pilot.answered(
                now, Answer(ask, AnswerVerdict.FILTERED, 0.01, now - LONG_AGO + ask.id / 50)
            )
    return count


@pytest.mark.parametrize("scaling", ["adaptive", "classic"])
@pytest.mark.parametrize("before, after", [(10.0, 40.0), (40.0, 10.0)])
def test_a_pilot_keeps_to_another_budget_from_now_on(
    scaling: str, before: float, after: float
) -> None:
    pilot = make_pilot(scaling, Controls(max_rps=before, workers=50), 1)
    sent(pilot, 1000.0, 20)
    assert sent(pilot, 1020.0, 20) == pytest.approx(20 * before, rel=0.1)
    pilot.allow(1040.0, after)
    sent(pilot, 1040.0, 2)
    assert sent(pilot, 1042.0, 20) == pytest.approx(20 * after, rel=0.1)


def test_who_asks_hears_of_what_the_gate_was_told() -> None:
    async def main() -> tuple[int, int]:
        clock = SimClock()
        gate = Gate(clock, manners(IdsConfig(max_rps=10.0)))
        gate.manners("api")
        pilot = make_pilot("classic", Controls(max_rps=10.0, workers=50), 1)
        askers = Askers(pilot, SecondChances(ChancePolicy()))
        heed = asyncio.create_task(heeding(gate, "api", askers, clock)(Control(1)))
        await clock.sleep(5.0)
        before = sent(pilot, clock.now(), 20)
        await clock.sleep(20.0)
        gate.retune(manners(IdsConfig(max_rps=40.0)))
        await clock.sleep(5.0)
        heed.cancel()
        return before, sent(pilot, clock.now(), 20)

    before, after = run_sim(main())
    assert before == pytest.approx(200, rel=0.1)
    assert after == pytest.approx(800, rel=0.1)
