"""Crawls of ids that are killed: every id that was public is stored, and none is made up."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from tests.random_worlds.budget import worlds as fresh
from tests.random_worlds.ids_kills import (
    WHERE,
    Kill,
    KilledRun,
    asked_in_vain,
    crawl_killed,
    killed_worlds,
    lives_of,
    lost,
    unserved,
)
from tests.random_worlds.ids_world import (
    World,
    configs,
    guessed,
    invented,
    rate_broken,
    unfetched,
)
from trawlnet.crawlers.ids.controls import Controls
from trawlnet.sim.ids import Traffic

drawn = killed_worlds().flatmap(
    lambda case: st.tuples(st.just(case), configs(case[0].traffic.rate))
)


@given(drawn)
@fresh(2)
def test_a_killed_crawl_keeps_its_promises(
    case: tuple[tuple[World, Sequence[Kill]], Controls],
) -> None:
    (world, kills), controls = case
    judge(world, controls, kills)


def test_a_crawl_is_killed_at_each_kind_of_instant() -> None:
    """One after the other, in a world without any other trouble."""
    kills = [Kill(90.0, where, 2.0) for where in WHERE]
    traffic = Traffic(seed=1, rate=2.0, wave=0.0, late_share=0.0, raid_share=1.0)
    world = World(traffic, over=600.0, bound=300.0, end=1140.0)
    told = judge(world, Controls(max_rps=12.0), kills)
    assert len(told.kills) == len(kills)


def judge(world: World, controls: Controls, kills: Sequence[Kill]) -> KilledRun:
    with tempfile.TemporaryDirectory(prefix="ids-") as folder:
        told = crawl_killed(world, controls, kills, Path(folder))
    assert lost(told) == []
    assert unserved(told) == []
    assert told.run.idle == []
    assert invented(told.run) == []
    assert asked_in_vain(told) == []
    assert guessed(told.run) == []
    assert unfetched(told.run, world, controls.patience) == []
    for life in lives_of(told):
        assert rate_broken(life, controls.max_rps) == []
    return told
