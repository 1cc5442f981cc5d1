"""Schedulers that share one registry and are killed: nobody is scanned twice at once, and nobody
is forgotten."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import TypeVar

import pytest

from tests.crash.nursery import Nursery, nursery_of
from tests.crash.registry_roles import fails_at_first, has_record
from tests.support.servers import PostgresServer, postgres_server
from trawlnet.tables.registry.entry import Terms
from trawlnet.tables.registry.registry import Registry, open_registry
from trawlnet.tables.registry.rules import FoundPds, PdsRow, PdsSource, PdsStatus

T = TypeVar("T")

ROWS = 1000
HOUR = 3600.0
PATIENCE = 120.0  # Seconds; only a test that fails waits that long.


@pytest.fixture(scope="module")
def postgres() -> Iterator[PostgresServer]:
    with postgres_server() as server:
        yield server


class Registrar:
    """The test's own look at the registry, and the time that it is for everybody."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url, self.folder = url, folder
        (folder / "url").write_text(url)
        (folder / "locks").mkdir()
        self.shift(0.0)

    def shift(self, seconds: float) -> None:
        (self.folder / "shift").write_text(str(seconds))

    @property
    def now(self) -> float:
        return time.time() + float((self.folder / "shift").read_text())

    def ask(self, question: Callable[[Registry], Awaitable[T]]) -> T:
        async def run() -> T:
            registry = await open_registry(self.url, Terms(allow_private=True))
            try:
                return await question(registry)
            finally:
                await registry.close()

        return asyncio.run(run())

    def fill(self) -> None:
        async def fill(registry: Registry) -> None:
            await registry.forget()
            founds = [
                FoundPds(f"http://127.0.0.1:{10_000 + n}", PdsSource.PLC) for n in range(ROWS)
            ]
            await registry.register_many(founds, self.now)

        self.ask(fill)

    def rows(self) -> list[PdsRow]:
        return self.ask(lambda registry: registry.listing(limit=ROWS + 1))

    def log(self) -> list[str]:
        path = self.folder / "log"
        return path.read_text().splitlines() if path.exists() else []

    def wait_for(self, lines: int) -> None:
        deadline = time.monotonic() + PATIENCE
        while len(self.log()) < lines:
            assert time.monotonic() < deadline, f"{len(self.log())} of {lines} scans"
            time.sleep(0.005)


def run_both(nursery: Nursery, registrar: Registrar, kills: int, between: int) -> int:
    """Two schedulers; one of them is killed again and again, after so many scans each time.
    Returns how many were alive until then."""
    steady, victim = nursery.start("schedule"), nursery.start("schedule")
    killed = 0
    for _ in range(kills):
        registrar.wait_for(len(registrar.log()) + between)
        killed += nursery.kill(victim)
        victim = nursery.start("schedule")
    assert nursery.wait(steady) == nursery.wait(victim) == 0
    return killed


def test_of_killed_schedulers_nothing_is_scanned_twice_at_once_or_forgotten(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    registrar = Registrar(postgres.url, tmp_path)
    registrar.fill()
    killed = 0
    with nursery_of("registry_roles", tmp_path) as nursery:
        # A lease after each round, what the dead had claimed is due again: then the round is over.
        for hours, kills in ((0.0, 4), (1.5, 1), (26.0, 2)):
            registrar.shift(hours * HOUR)
            killed += run_both(nursery, registrar, kills, between=25)
            registrar.shift(hours * HOUR + 200.0)
            assert nursery.wait(nursery.start("schedule")) == 0
            rows = registrar.rows()
            assert len(rows) == ROWS
            due = [row for row in rows if (row.next_scan_at or 0.0) <= registrar.now]
            assert due == [] and all(row.lease_owner is None for row in rows)
    words = Counter(line.split()[0] for line in registrar.log())
    assert words["twice"] == 0
    assert killed >= 4, "the kills came too late to mean anything"
    scans = Counter(line.split()[1] for line in registrar.log())
    # All in the first round, those that failed in the second, those with records in the third;
    # whoever was being scanned when somebody died, once more.
    for row in registrar.rows():
        url = row.pds_url
        assert row.status is (PdsStatus.ACTIVE if has_record(url) else PdsStatus.NO_CHIVE_RECORDS)
        least = 1 + fails_at_first(url) + (has_record(url) and not fails_at_first(url))
        assert least <= scans[url] <= least + killed + 1


def test_a_claim_that_looks_before_it_takes_would_be_noticed(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    registrar = Registrar(postgres.url, tmp_path)
    registrar.fill()
    with nursery_of("registry_roles", tmp_path) as nursery:
        pids = [nursery.start("careless") for _ in range(2)]
        deadline = time.monotonic() + PATIENCE
        while not any(line.startswith("twice ") for line in registrar.log()):
            assert time.monotonic() < deadline, "nobody was scanned twice at once"
            time.sleep(0.01)
        for pid in pids:
            nursery.kill(pid)
