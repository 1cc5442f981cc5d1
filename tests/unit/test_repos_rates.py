"""How fast a PDS is asked, by its accounts: as pages add them, and after a restart."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from trawlnet.crawlers.repos.accounts.rates import PdsRates, rate_for
from trawlnet.crawlers.repos.accounts.residents import NotedResidents
from trawlnet.crawlers.repos.config import ReposConfig, manners
from trawlnet.engine.gate import Gate
from trawlnet.engine.rules import LanePace
from trawlnet.net.clock import SystemClock
from trawlnet.stores.lmdb.notes import LmdbNotes, open_notes

CONFIG = ReposConfig(default_pds_rps=5)


@pytest.mark.parametrize(
    ("accounts", "rate"), [(0, 2), (99, 2), (100, 5), (999, 5), (1000, 10), (500_000, 10)]
)
def test_size_decides(accounts: int, rate: float) -> None:
    assert rate_for(accounts, CONFIG) == rate


@pytest.mark.parametrize("follows", [False, True])
def test_only_a_crawl_that_ends_gives_a_host_up(follows: bool) -> None:
    ours = manners(ReposConfig(follow=follows, block_after=10))
    failing = LanePace(failures=100_000)
    assert failing.suspended(ours)
    assert failing.blocked(ours) is not follows, "a later run asks it again, and there is none"


def accounts(count: int, first: int = 0) -> list[str]:
    return [f"did:plc:{number}" for number in range(first, first + count)]


async def opened(notes: LmdbNotes) -> tuple[PdsRates, NotedResidents, Gate]:
    gate, residents = Gate(SystemClock(), manners(CONFIG)), NotedResidents(notes)
    return await PdsRates.open(residents, gate, CONFIG), residents, gate


def test_rates_follow_the_pages_and_outlive_the_process(tmp_path: Path) -> None:
    async def main() -> None:
        notes = open_notes(tmp_path)
        rates, residents, gate = await opened(notes)
        seen = []
        for page in range(12):
            await rates.add({"big": accounts(100, 100 * page), "own": accounts(1)})
            seen.append(gate.manners("big").rate)
        assert seen == [5.0] * 9 + [10.0] * 3
        assert gate.manners("own").rate == 2.0 and rates.pdses == 2
        residents.close()

        kept, residents, again = await opened(notes)
        assert (again.manners("big").rate, again.manners("own").rate) == (10.0, 2.0)
        await kept.begin()
        await kept.add({"big": accounts(150)})
        assert again.manners("big").rate == 5.0, "a new sweep counts anew, not on top"
        residents.close()
        assert (await opened(notes))[0].pdses == 1
        notes.close()

    asyncio.run(main())


@pytest.mark.parametrize(("count", "rate"), [(50, 2.0), (99, 2.0), (500, 5.0), (999, 5.0)])
def test_an_account_that_is_named_again_counts_once(
    count: int, rate: float, tmp_path: Path
) -> None:
    """By its host and then by its document, on two pages, or again after a crash."""

    async def main() -> None:
        notes = open_notes(tmp_path)
        rates, residents, gate = await opened(notes)
        await rates.add({"pds": [*accounts(count), *accounts(count)]})
        for did in accounts(count):
            await rates.add({"pds": [did]})
        assert gate.manners("pds").rate == rate
        residents.close()
        rates, residents, gate = await opened(notes)
        await rates.add({"pds": accounts(count), "other": accounts(3)})
        assert gate.manners("pds").rate == rate
        await rates.add({"pds": accounts(1000)})
        assert gate.manners("pds").rate == 10.0, "others count"
        notes.close()

    asyncio.run(main())


def test_a_lane_that_is_listed_again_is_counted_from_nothing(tmp_path: Path) -> None:
    async def main() -> None:
        notes = open_notes(tmp_path)
        rates, residents, gate = await opened(notes)
        await rates.add({"pds": accounts(150), "other": accounts(150)})
        residents.close()
        rates, residents, gate = await opened(notes)
        await rates.begin("pds")
        await rates.add({"pds": accounts(99)})
        assert [gate.manners(lane).rate for lane in ("pds", "other")] == [2.0, 5.0]
        residents.close()
        rates, residents, gate = await opened(notes)
        await rates.add({"pds": accounts(99), "other": accounts(1)})
        assert [gate.manners(lane).rate for lane in ("pds", "other")] == [2.0, 5.0]
        await rates.add({"pds": accounts(1, 99)})
        assert gate.manners("pds").rate == 5.0
        notes.close()

    asyncio.run(main())


def test_halving_and_blocking_work_on_the_rate_of_its_size(tmp_path: Path) -> None:
    async def main() -> None:
        notes = open_notes(tmp_path)
        rates, _, gate = await opened(notes)
        await rates.add({"big": accounts(5000)})
        polite = gate.manners("big")
        kept = (polite.rate, polite.halve_every, polite.floor, polite.block_at)
        assert kept == (10.0, 5, 0.5, 10)
        notes.close()

    asyncio.run(main())
