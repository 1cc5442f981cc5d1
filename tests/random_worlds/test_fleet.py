"""Fleets in drawn worlds: everything is archived once, and no host is asked too soon."""

from __future__ import annotations

import asyncio
import itertools
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.random_worlds.budget import worlds
from tests.random_worlds.fleet_run import Ran, run_world
from tests.random_worlds.fleet_world import (
    Event,
    FleetWorld,
    Host,
    called_unless_frozen,
    ended_unless_dead,
)
from tests.support.fleet.run import dids_in_manifest
from tests.support.servers import RedisServer, redis_server
from trawlnet.engine.outcome import Reason
from trawlnet.fleet import shard, supervise
from trawlnet.stores.redis import scripts
from trawlnet.stores.redis.fleet.shards import Word

ROUNDING = 0.002  # Seconds; clocks and timers are no more exact.
WHAT = ["scale", "move", "kill", "freeze", "restart_redis", "lose_objects", "pause", "freeze_in"]


@pytest.fixture(scope="module")
def redis() -> Iterator[RedisServer]:
    with redis_server() as server:
        yield server


@st.composite
def drawn_worlds(draw: st.DrawFn) -> FleetWorld:
    hosts = []
    for number in range(draw(st.integers(2, 7))):
        # A gap that is longer than lanes take to change hands shows whether it is kept then.
        gap = draw(st.sampled_from([0.01, 0.03, 0.07, 0.15, 0.9]))
        keys = draw(st.integers(1, 14 if gap < 0.5 else 4))
        hosts.append(
            Host(
                name=f"pds{number}.example",
                keys=keys,
                gap=gap,
                latency=draw(st.sampled_from([0.001, 0.02, 0.12])),
                missing=draw(st.integers(0, keys // 4)),
                hidden=draw(st.integers(0, keys // 2)),
                flaky=draw(st.integers(0, keys // 4)),
            )
        )
    total = sum(host.keys for host in hosts)
    events = draw(
        st.lists(
            st.builds(
                Event,
                at=st.integers(1, total),
                what=st.sampled_from(WHAT),
                shard=st.integers(0, 3),
                number=st.integers(1, 4),
                seconds=st.sampled_from([0.1, 0.5, 1.1, 2.6]),
                script=st.sampled_from(["settle", "lease", "feed", "hold", "renew", "beat"]),
                kills=st.booleans(),
            ),
            max_size=5,
        )
    )
    return FleetWorld(
        hosts=hosts,
        events=events,
        shards=draw(st.integers(1, 4)),
        workers=draw(st.integers(1, 6)),
        stands=draw(st.sampled_from([0.7, 1.3])),
        part_seconds=draw(st.sampled_from([0.05, 0.4, 1.5])),
        part_size=draw(st.sampled_from([1 << 10, 1 << 14])),
        page=draw(st.integers(1, 20)),
        segment=draw(st.sampled_from([1, 4000])),
    )


@st.composite
def worlds_that_freeze_in_a_call(draw: st.DrawFn, script: str) -> FleetWorld:
    """One shard, until another has its lanes: nobody else can hide what it does on waking up.

    Parts gather for longer than a composer waits, so that whoever wakes finds some composed and
    the work of the rest under way.
    """
    keys, names = draw(st.integers(6, 9)), draw(st.integers(3, 6))
    gap, latency = draw(st.sampled_from([0.03, 0.08])), draw(st.sampled_from([0.001, 0.04]))
    frozen = Event(
        at=draw(st.integers(1, keys * names // 4)),
        what="freeze_in",
        number=2,  # The second one settles the rest of a part.
        seconds=draw(st.sampled_from([0.4, 0.6])) if script == "settle" else 0.0,
        script=script,
        # One that lives on gives back what it has leased; one that dies then cannot.
        kills=script == "lease" or draw(st.booleans()),
    )
    return FleetWorld(
        hosts=[Host(f"pds{n}.example", keys, gap, latency, 0, 0, 0) for n in range(names)],
        events=[frozen],
        shards=1,
        workers=draw(st.integers(3, 6)),
        stands=0.7,
        part_seconds=draw(st.sampled_from([0.8, 1.2])),
        part_size=1 << 14,
        page=100,
        segment=1,
    )


def crawled(world: FleetWorld, redis: RedisServer, folder: Path) -> Ran:
    """In a hurry: what a fleet looks at now and then, it looks at often."""
    with (
        patch.object(scripts, "_ended", ended_unless_dead),
        patch.object(scripts.Scripts, "_call", called_unless_frozen),
        patch.object(supervise, "_LOOK_EVERY", 0.1),
        patch.object(supervise, "_COMPOSE_EVERY", 0.3),
        patch.object(supervise, "_BEGINS", 5.0),
        patch.object(shard, "_PAUSE", 0.2),
        patch.object(shard, "_WAKE_EVERY", 0.1),
    ):
        return asyncio.run(_crawled(world, redis, folder))


async def _crawled(world: FleetWorld, redis: RedisServer, folder: Path) -> Ran:
    from redis.asyncio import Redis

    client = Redis.from_url(redis.url)
    await client.flushall()
    await client.aclose()
    return await run_world(world, redis, folder)


def judge(world: FleetWorld, ran: Ran, archive: Path) -> None:
    assert ran.word is Word.DONE, ran.happened
    present = world.present()
    found = dids_in_manifest(archive) if present else Counter[str]()
    assert found == present, (ran.happened, present - found, found - present)
    assert {key for key, reason in ran.failed.items() if reason is Reason.NOT_FOUND} == (
        world.absent()
    ), ran.happened
    assert ran.failed.keys() == world.absent(), ran.failed
    assert list((archive / "parts").glob("*")) == [], "a part that nobody composed"
    for host in world.hosts:
        for first, later in itertools.pairwise(sorted(ran.network.log[host.name])):
            # Even the longest time that there can have been between them.
            longest = later[1] - first[0]
            assert longest >= host.gap - ROUNDING, (host.name, host.gap, longest, ran.happened)


@worlds(4)
@given(world=drawn_worlds())
def test_a_fleet_archives_everything_once_and_politely(
    redis: RedisServer, world: FleetWorld
) -> None:
    with tempfile.TemporaryDirectory(prefix="fleet-") as folder:
        ran = crawled(world, redis, Path(folder))
        judge(world, ran, Path(folder) / "archive")


@pytest.mark.parametrize("script", ["settle", "lease"])
@worlds(2)
@given(data=st.data())
def test_a_shard_that_wakes_in_a_call_does_no_harm(
    redis: RedisServer, script: str, data: st.DataObject
) -> None:
    world = data.draw(worlds_that_freeze_in_a_call(script))
    with tempfile.TemporaryDirectory(prefix="fleet-") as folder:
        ran = crawled(world, redis, Path(folder))
        judge(world, ran, Path(folder) / "archive")


def test_a_lane_that_changes_hands_has_its_gap_first(redis: RedisServer, tmp_path: Path) -> None:
    """Gaps that are longer than a lane takes to change hands."""
    hosts = [Host(f"pds{n}.example", 4, 1.2, 0.001, 0, 0, 0) for n in range(5)]
    events = [Event(at, "scale", number=number) for at, number in ((4, 1), (9, 3))]
    world = FleetWorld(hosts, events, 2, 5, 4.0, 0.05, 1 << 10, 20)
    ran = crawled(world, redis, tmp_path)
    judge(world, ran, tmp_path / "archive")
    assert len(ran.happened) == 2
