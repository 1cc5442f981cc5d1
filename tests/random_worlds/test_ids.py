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
