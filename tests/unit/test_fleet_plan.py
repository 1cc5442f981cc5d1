"""A plan in virtual time keeps to what hosts, shards and arithmetic allow."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.program import at_once, trawlnet
from trawlnet.fleet.plan import Assumptions, HostSize, forecast, read_hosts, slowest
from trawlnet.tables.registry.entry import Terms
from trawlnet.tables.registry.registry import open_registry
from trawlnet.tables.registry.rules import PdsSource

USUAL = Assumptions()
sizes = st.lists(st.integers(0, 5000), min_size=1, max_size=30)


@given(sizes, st.integers(1, 6))
@settings(deadline=None, max_examples=40)
def test_no_plan_is_faster_than_its_hosts_or_its_shards(found: list[int], shards: int) -> None:
    hosts = [HostSize(f"pds{n}.example", repos) for n, repos in enumerate(found)]
    planned = forecast(hosts, shards, USUAL)
    total = sum(found)
    assert planned.seconds >= planned.floor - 1e-6
    assert planned.seconds >= total / (shards * USUAL.shard_rate) - 1e-6
    assert planned.curve[-1][1] == pytest.approx(total, abs=1e-3)
    done = [point[1] for point in planned.curve]
    assert done == sorted(done)


def test_one_large_host_is_the_floor_for_any_number_of_shards() -> None:
    hosts = [
        HostSize("large.example", 1_000_000),
        *(HostSize(f"s{n}.example", 50) for n in range(200)),
    ]
    plans = [forecast(hosts, shards, USUAL) for shards in (1, 4, 16)]
    floor = 1_000_000 / min(10.0, 4 / 0.5)
    assert [plan.seconds for plan in plans] == pytest.approx([floor] * 3, rel=0.01)
    assert slowest(hosts, USUAL, 1) == [(hosts[0], floor)]


def test_shards_help_as_long_as_they_are_what_is_short() -> None:
    hosts = [HostSize(f"pds{n}.example", 20_000) for n in range(400)]
    one, four = forecast(hosts, 1, USUAL), forecast(hosts, 4, USUAL)
    assert one.seconds == pytest.approx(8_000_000 / USUAL.shard_rate, rel=0.02)
    assert 3.0 < one.seconds / four.seconds <= 4.0


def test_sizes_are_read_with_or_without_a_head() -> None:
    told = ["host,repos", "a.example,5", "# a comment", "", "b.example\t7"]
    assert read_hosts(told) == [HostSize("a.example", 5), HostSize("b.example", 7)]
    with pytest.raises(ValueError, match="line 2"):
        read_hosts(["a.example 1", "b.example many"])


@pytest.mark.slow
def test_the_command_tells_the_floor_and_draws(tmp_path: Path) -> None:
    file, picture = tmp_path / "sizes.csv", tmp_path / "plan.png"
    file.write_text("big.example,40000\nsmall.example,10\n")
    ran = trawlnet("fleet", "plan", "--hosts", file, "--shards", 2, "--json", "--plot", picture)
    (row,) = ran.rows
    assert row["repos"] == 40_010 and row["floor"][0]["host"] == "big.example"
    assert row["plans"][0]["shards"] == 2 and row["plans"][0]["seconds"] >= 4000
    assert picture.read_bytes().startswith(b"\x89PNG")
    file.write_text("")
    assert trawlnet("fleet", "plan", "--hosts", file).code == 2


def test_the_command_plans_from_the_registry(tmp_path: Path) -> None:
    plan = ("fleet", "plan", "--from-registry", "--shards", 1, "--json", "-w", tmp_path)
    assert "pds discover" in at_once(*plan).error["hint"]

    async def fill() -> None:
        registry = await open_registry(tmp_path / "r.db", Terms())
        await registry.register("https://pds.world.net", PdsSource.RELAY, accounts=800, now=1.0)
        await registry.register("https://new.world.net", PdsSource.USER, now=1.0)
        await registry.close()

    asyncio.run(fill())
    ran = at_once(*plan, "--registry", tmp_path / "r.db")
    (row,) = ran.rows
    assert (row["hosts"], row["repos"]) == (1, 800) and "skipped: 1 hosts" in ran.err
    assert row["floor"] == [{"host": "pds.world.net", "repos": 800, "seconds": 160}]


@pytest.mark.parametrize("places", [(), ("--hosts", "x.csv", "--from-registry")])
def test_a_plan_has_its_sizes_from_one_place(places: tuple[str, ...]) -> None:
    ran = at_once("fleet", "plan", *places)
    assert ran.code == 2 and "--hosts FILE or --from-registry" in ran.err
