"""Whoever says "now" has something to ask for: else a crawl would look again and again at one
instant, and in virtual time for ever."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.random_worlds.ids_world import World, crawl
from trawlnet.crawlers.ids.adaptive.ceiling import EvenPace
from trawlnet.crawlers.ids.adaptive.combs import Combs
from trawlnet.crawlers.ids.adaptive.head import HeadModel
from trawlnet.crawlers.ids.adaptive.stall_detector import StallDetector
from trawlnet.crawlers.ids.adaptive.survey import Ground
from trawlnet.crawlers.ids.adaptive.walk import Walk
from trawlnet.crawlers.ids.controls import Controls
from trawlnet.crawlers.ids.ledger.second_chances import ChancePolicy, SecondChances
from trawlnet.crawlers.ids.ledger.span_codec import Miss
from trawlnet.sim.ids import CounterLeap, TimeSpan, Traffic

_LOOKS = 40

# A crawl's own clock, and that of the world: the later it is, the coarser its steps are.
nows = st.one_of(st.floats(0.0, 1e5), st.floats(1.7e9, 1.8e9))
rates = st.floats(0.25, 400.0)


def looks(now: float, next_at: Callable[[float], float], take: Callable[[float], int]) -> None:
    """Look whenever it says; each look that comes to nothing must be followed by a later one."""
    for _ in range(_LOOKS):
        taken = take(now)
        at = next_at(now)
        assert taken or at > now
        if at == math.inf:
            return
        now = max(now, at)


@given(nows, rates)
def test_a_survey_has_a_tooth_when_it_says_so(now: float, rate: float) -> None:
    ground = Ground()
    ground.add(1000, 900_000)
    ground.retune(now, rate)

    def take(at: float) -> int:
        taken = ground.take(at, 3)
        for i in taken:
            ground.answered(i, False)
        return len(taken)

    looks(now, ground.next_at, take)


@given(nows, rates)
def test_a_pace_lets_one_go_when_it_says_so(now: float, rate: float) -> None:
    pace = EvenPace(rate)

    def take(at: float) -> int:
        ready = pace.ready(at)
        pace.spend(ready)
        return ready

    looks(now, pace.next_at, take)


@given(nows, rates, st.floats(0.0, 200.0))
def test_a_comb_is_there_when_it_is_due(now: float, rate: float, delay: float) -> None:
    combs, began = Combs(now), now

    def take(at: float) -> int:
        out = rate * max(0.0, at - delay - began) / rate
        return combs.take(at, rate, out) is not None

    looks(now, lambda at: combs.next_at(), take)


@given(nows, rates, st.lists(st.floats(0.0, 900.0), min_size=1, max_size=9))
def test_a_second_chance_is_there_when_it_is_due(
    now: float, rate: float, ages: list[float]
) -> None:
    second = SecondChances(ChancePolicy(per_second=rate))
    second.remember(now, {i: Miss(0, now - age) for i, age in enumerate(ages)})
    looks(now, second.wake_at, lambda at: len(second.asks(at, 5)))


@pytest.mark.slow
@pytest.mark.parametrize("law", ["adaptive", "classic"])
def test_a_pilot_that_is_to_be_asked_at_once_has_something_to_ask_for(law: str) -> None:
    """Two leaps with a pause between: the stall is searched, the gaps are crossed and surveyed."""
    traffic = Traffic(
        seed=3,
        rate=1.7,
        gaps=(CounterLeap(500.0, 2000), CounterLeap(900.0, 700)),
        pauses=(TimeSpan(800.0, 900.0),),
    )
    run = crawl(World(traffic, end=3000.0), Controls(max_rps=11.0), law)
    assert run.idle == []


def test_a_search_goes_on_at_once_when_it_needs_no_request() -> None:
    """What it wants to look at was fetched by an earlier probe."""
    walk = Walk(100, 1, [])
    lookout = StallDetector(HeadModel(0.02), walk)
    for nth in range(30):
        lookout.first_ask(0.2 * nth, missing=True)
    assert lookout.stalled
    lookout.anchored(6.0, 200)
    assert walk.fetched_ahead(149)  # Half-way from the last id to the one that is known.
    assert lookout.probes(6.0, 1) == [124]
