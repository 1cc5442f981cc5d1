"""The pilots of an ids crawl in worlds that nobody wrote, judged by the server's own log."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.random_worlds.budget import worlds as fresh
from tests.random_worlds.ids_world import (
    World,
    configs,
    crawl,
    guessed,
    invented,
    rate_broken,
    repeated,
    served_twice,
    unfetched,
    waits_broken,
    worlds,
    wrongly_skipped,
)
from trawlnet.crawlers.ids.controls import Controls
from trawlnet.sim.ids import CounterLeap, TimeSpan, Traffic

drawn = worlds().flatmap(lambda world: st.tuples(st.just(world), configs(world.traffic.rate)))


@given(drawn)
@fresh(10)
def test_the_adaptive_crawl_keeps_its_promises(case: tuple[World, Controls]) -> None:
    world, controls = case
    run = crawl(world, controls, "adaptive")
    assert rate_broken(run, controls.max_rps) == []
    assert waits_broken(run) == []
    assert run.idle == []
    assert invented(run) == []
    assert repeated(run) == []
    assert served_twice(run) == []
    assert guessed(run) == []
    assert unfetched(run, world, controls.patience) == []


@given(drawn)
@fresh(3)
def test_the_classic_crawl_is_slow_and_polite(case: tuple[World, Controls]) -> None:
    world, controls = case
    run = crawl(world, controls, "classic")
    assert rate_broken(run, controls.max_rps) == []
    assert run.idle == []
    assert invented(run) == []
    assert repeated(run) == []
    assert served_twice(run) == []
    assert guessed(run) == []
    assert wrongly_skipped(run, world, controls.patience) == []


def test_a_search_that_needs_no_request_goes_on_at_once() -> None:
    """Found by a drawn world: what a probe would have asked for had come meanwhile, and the pilot
    wanted to be asked again at the same instant."""
    traffic = Traffic(
        seed=89,
        rate=1.0,
        wave=0.3,
        wave_period=7200.0,
        delay=180.0,
        late_share=0.0,
        late_spread=5.0,
        old_share=0.0,
        raid_share=0.2,
        gaps=(CounterLeap(at=897.0, size=40),),
    )
    world = World(traffic, failing=(TimeSpan(767.0, 807.0),), end=1908.5701414662296)
    controls = Controls(workers=13, max_workers=40, max_rps=6.0, patience=700.0)
    assert crawl(world, controls, "adaptive").idle == []
