"""Crawls of ids that are killed: every id that was public is stored, and none is made up."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.random_worlds.budget import worlds as fresh
from tests.random_worlds.ids_kills import (
    WHERE,
    FileHome,
    Home,
    Kill,
    KilledRun,
    asked_in_vain,
    crawl_killed,
    killed_worlds,
    lives_of,
    lost,
    unserved,
)
from tests.random_worlds.ids_redis import RedisHome
from tests.random_worlds.ids_world import (
    World,
    configs,
    guessed,
    invented,
    rate_broken,
    unfetched,
)
from tests.support.servers import RedisServer, redis_server
from trawlnet.crawlers.ids.controls import Controls
from trawlnet.sim.ids import Traffic

drawn = killed_worlds().flatmap(
    lambda case: st.tuples(st.just(case), configs(case[0].traffic.rate))
)

# Found by a drawn world: a ledger that was never begun could not be opened again.
FIRST_WRITE = Kill(0.0, "ledger before", 2.0)


@pytest.fixture(scope="module")
def redis() -> Iterator[RedisServer]:
    with redis_server() as server:
        yield server


@given(drawn)
@fresh(2)
def test_a_killed_crawl_keeps_its_promises(
    case: tuple[tuple[World, Sequence[Kill]], Controls],
) -> None:
    (world, kills), controls = case
    with new_folder() as folder:
        judge(world, controls, kills, folder, FileHome(folder))


@given(drawn)
@fresh(1)
def test_a_killed_crawl_with_its_ledger_in_redis_keeps_its_promises(
    redis: RedisServer, case: tuple[tuple[World, Sequence[Kill]], Controls]
) -> None:
    (world, kills), controls = case
    with new_folder() as folder:
        judge(world, controls, kills, folder, RedisHome.emptied(redis))


def test_a_crawl_is_killed_at_each_kind_of_instant() -> None:
    """One after the other, in a world without any other trouble."""
    kills = [FIRST_WRITE, *(Kill(60.0, where, 2.0) for where in WHERE)]
    with new_folder() as folder:
        told = judge(calm(len(kills)), Controls(max_rps=12.0), kills, folder, FileHome(folder))
    assert len(told.kills) == len(kills)


def test_a_crawl_and_the_redis_that_has_its_ledger_are_killed(redis: RedisServer) -> None:
    """Each life takes the ledger over from one that said nothing of its end."""
    where = (*WHERE, "server before", "server after")
    kills = [FIRST_WRITE, *(Kill(60.0, one, 2.0) for one in where)]
    home = RedisHome.emptied(redis)
    with new_folder() as folder:
        told = judge(calm(len(kills)), Controls(max_rps=12.0), kills, folder, home)
    assert len(told.kills) == len(kills)
    assert home.restarts == 2


def calm(lives: int) -> World:
    traffic = Traffic(seed=1, rate=2.0, wave=0.0, late_share=0.0, raid_share=1.0)
    over = 70.0 * lives + 120.0
    return World(traffic, over=over, bound=300.0, end=over + 540.0)


@contextmanager
def new_folder() -> Iterator[Path]:
    """In memory where that can be: thousands of syncs on a busy disk take minutes, and who dies
    here takes no machine along."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(
        prefix="ids-", dir=memory if os.access(memory, os.W_OK) else None
    ) as folder:
        yield Path(folder)


def judge(
    world: World, controls: Controls, kills: Sequence[Kill], folder: Path, home: Home
) -> KilledRun:
    told = crawl_killed(world, controls, kills, folder, home)
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
