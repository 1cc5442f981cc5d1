"""Scan simulated PDSes, and look at what the scans leave."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tests.support.pds.sim_model import SimPds, SimRepo, about_eprint, eprint
from tests.support.pds.sim_world import PdsWorld, serve_pdses
from trawlnet.atproto.tid import tid
from trawlnet.crawlers.atproto.identities import Identities
from trawlnet.crawlers.atproto.identity import resolve
from trawlnet.crawlers.pds.records.lexicon_files import load_lexicons
from trawlnet.crawlers.pds.records.routing import PRESET, Routes
from trawlnet.crawlers.pds.scanning.parts import ScanLimits, ScanParts, ScanResult
from trawlnet.crawlers.pds.scanning.scan import scan_did, scan_pds
from trawlnet.engine.gate import Gate
from trawlnet.engine.ports import Clock
from trawlnet.engine.rules import Manners
from trawlnet.net.agent import user_agent
from trawlnet.net.clock import SystemClock
from trawlnet.net.guard import Guard
from trawlnet.net.http import Http
from trawlnet.sim.habits import DEFAULT_TEMPER, Temper
from trawlnet.sim.serve import loopback_hosts
from trawlnet.tables.registry.entry import Terms
from trawlnet.tables.registry.registry import Registry, migrate_registry
from trawlnet.tables.registry.rules import PdsSource
from trawlnet.tables.relational.database import Relational, Statement
from trawlnet.tables.relational.open import open_relational
from trawlnet.tables.scanned.rows import ScanKey
from trawlnet.tables.scanned.scanned import Scanned

EPRINT = "pub.chive.eprint.submission"
COMMENT = "pub.chive.review.comment"
ENDORSEMENT = "pub.chive.review.endorsement"
TAG = "pub.chive.eprint.userTag"
LIKE = "app.bsky.feed.like"
FAST = Manners(rate=10_000.0, burst=100, concurrency=4)
LIMITS = ScanLimits(request_seconds=5.0)
LONG = 30.0  # Seconds that no scan of these tests needs.
LEASE = "bench"  # Who has claimed every PDS of a bench.
FOREVER = 4e9  # Seconds.


@dataclass(frozen=True)
class Bench:
    """Everything that a scan needs, with a database of its own."""

    world: PdsWorld
    parts: ScanParts
    db: Relational
    gate: Gate

    async def scan(self, pds: SimPds, *, seconds: float = LONG, **limits: Any) -> ScanResult:
        parts = replace(self.parts, limits=replace(self.parts.limits, **limits))
        deadline = parts.clock.now() + seconds
        await claim(self.db, self.world.url(pds))
        return await scan_pds(parts, self.world.url(pds), lease=LEASE, deadline=deadline)

    async def scan_did(self, pds: SimPds, did: str) -> ScanResult:
        await claim(self.db, self.world.url(pds))
        return await scan_did(self.parts, self.world.url(pds), did, lease=LEASE)

    def key(self, pds: SimPds) -> ScanKey:
        return ScanKey(self.world.url(pds), self.parts.routes.scope, LEASE)

    def looking_for(self, *globs: str, **more: Any) -> Bench:
        routes = replace(self.parts.routes, globs=globs or PRESET, **more)
        return replace(self, parts=replace(self.parts, routes=routes))

    async def run(self, sql: str) -> None:
        await self.db.run(Statement("run", sql))

    async def uris(self, table: str, *, live: bool = True) -> list[str]:
        rows = await self.db.rows(Statement("all", f"SELECT uri, deleted_at FROM {table}"))
        return sorted(uri for uri, deleted in rows if not live or deleted is None)

    async def column(self, table: str, column: str) -> list[Any]:
        return [
            row[0] for row in await self.db.rows(Statement("c", f"SELECT {column} FROM {table}"))
        ]


@asynccontextmanager
async def bench(
    pdses: Sequence[SimPds],
    where: Path | str,
    *,
    manners: Manners = FAST,
    temper: Temper = DEFAULT_TEMPER,
    lexicons: Path | None = None,
    limits: ScanLimits = LIMITS,
) -> AsyncIterator[Bench]:
    world = await serve_pdses(pdses, temper=temper)
    try:
        async with bench_for(world, where, manners, lexicons, limits) as made:
            yield made
    finally:
        await world.close()


@asynccontextmanager
async def bench_for(
    world: Any,
    where: Path | str,
    manners: Manners = FAST,
    lexicons: Path | None = None,
    limits: ScanLimits = LIMITS,
) -> AsyncIterator[Bench]:
    """For any world that has a directory at `plc`."""
    clock: Clock = SystemClock()
    gate = Gate(clock, manners)
    db = await open_relational(where)
    try:
        tables = Scanned(db)
        await tables.migrate()
        await migrate_registry(db)
        async with Http(
            gate, clock, user_agent("mailto:tests@example.org"), guard=Guard(allow_private=True)
        ) as http:
            identities = Identities(
                lambda did: resolve(http, did, world.plc, allow_private=True), clock
            )
            routes = Routes(lexicons=load_lexicons(lexicons))
            parts = ScanParts(
                http=http,
                gate=gate,
                identities=identities,
                tables=tables,
                routes=routes,
                clock=clock,
                limits=limits,
                allow_private=True,
            )
            yield Bench(world, parts, db, gate)
    finally:
        await db.close()


async def claim(db: Relational, url: str) -> None:
    """Scans write only what their process has claimed."""
    registry = Registry(db, Terms(allow_private=True))
    await registry.register(url, PdsSource.USER, now=0.0)
    await registry.claim_one(url, 0.0, FOREVER, LEASE)


def pdses_on(count: int, first: int) -> list[SimPds]:
    """Each test file has addresses of its own, so that tests at the same time do not meet."""
    return [SimPds(address) for address in loopback_hosts(count, first)]


def rkey(number: int) -> str:
    return tid(1_700_000_000_000_000 + number)


def write(repo: SimRepo, collection: str, count: int, first: int = 0) -> None:
    for number in range(first, first + count):
        repo.put(collection, rkey(number), _VALUES[collection](repo.did, number))


_VALUES: dict[str, Callable[[str, int], dict[str, Any]]] = {
    EPRINT: eprint,
    COMMENT: lambda did, _: about_eprint(did, body=[{"type": "text", "content": "Well."}]),
    ENDORSEMENT: lambda did, _: about_eprint(did, contributions=["empirical"]),
    TAG: lambda did, number: about_eprint(did, tag=f"tag{number}"),
    LIKE: lambda did, _: {"subject": {"uri": f"at://{did}"}, "createdAt": "2026-01-02T03:04:05Z"},
}
