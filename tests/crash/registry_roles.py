"""Schedulers on one registry, to be killed: each scan holds a lock of the kernel's, so that two at
once are seen whatever the registry says."""

from __future__ import annotations

import asyncio
import fcntl
import os
import zlib
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path

from tests.support.pds.slices import SimSlice
from trawlnet.crawlers.pds.build import owner
from trawlnet.crawlers.pds.config import PdsConfig, lease, limits, manners
from trawlnet.crawlers.pds.due_source import DueSource
from trawlnet.crawlers.pds.scanning.parts import ScanCounts, ScanResult, ScanVerdict
from trawlnet.crawlers.pds.scanning.work import ScanHandler, ScanSink
from trawlnet.crawlers.pds.schedule import BatchPlan, ClaimRules, RegistryStore
from trawlnet.engine.control import Control
from trawlnet.engine.crawl import Feed, Parts, crawl
from trawlnet.engine.gate import Gate
from trawlnet.engine.outcome import Reason
from trawlnet.net.clock import SystemClock
from trawlnet.tables.registry.entry import Terms
from trawlnet.tables.registry.registry import Registry, open_registry
from trawlnet.tables.registry.rules import ANY, PdsRow, Which
from trawlnet.tables.relational.database import Statement

# Those who live wait for the claims of the dead to run out: not for long here.
CONFIG = PdsConfig(
    once=True,
    batch=20,
    concurrency=8,
    requests_per_minute=60_000,
    scan_timeout=2.0,
    claim_timeout=4.0,
)
SCAN_SECONDS = 0.004
UNTIL_KILLED = 3600.0
WELL_AFTER = 3600.0  # Some servers fail at first.


class ShiftedClock(SystemClock):
    """As late as the folder says."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self._shift = float((folder / "shift").read_text())

    def now(self) -> float:
        return super().now() + self._shift


def fails_at_first(url: str) -> bool:
    return zlib.crc32(url.encode()) % 5 == 0


def has_record(url: str) -> bool:
    return zlib.crc32(url.encode()) % 7 == 0


def note(folder: Path, word: str, url: str) -> None:
    _append(folder / "log", f"{word} {url}\n".encode())


def _append(path: Path, data: bytes) -> int:
    """Returns how long the file was when just this had been added."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        os.write(fd, data)
        return os.lseek(fd, 0, os.SEEK_CUR)
    finally:
        os.close(fd)


async def scanned(folder: Path, url: str, seconds: float) -> ScanResult:
    fd = os.open(folder / "locks" / f"{zlib.crc32(url.encode())}", os.O_RDWR | os.O_CREAT)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            note(folder, "twice", url)
        note(folder, "scan", url)
        await asyncio.sleep(seconds)
    finally:
        os.close(fd)
    if fails_at_first(url) and float((folder / "shift").read_text()) < WELL_AFTER:
        return result(ScanVerdict.FAILED, Reason.TIMEOUT, 0)
    return result(ScanVerdict.COMPLETE, Reason.OK, int(has_record(url)))


def result(verdict: ScanVerdict, reason: Reason, held: int) -> ScanResult:
    records = {"c": held} if held else {}
    whole = ScanResult(verdict, reason, "", None, ScanCounts(), 1, 0, 0, records, held)
    return replace(whole, all_held=held, all_indexed=held)


async def schedule(folder: Path) -> None:
    """Scan whatever is due, as the crawl does, and end."""
    registry = await open_registry((folder / "url").read_text(), Terms(allow_private=True))
    await _run(folder, registry)


async def careless(folder: Path) -> None:
    """The same with a claim that looks first and takes afterwards."""
    registry = await open_registry((folder / "url").read_text(), Terms(allow_private=True))
    registry.claim = _looking_first(registry, folder)  # type: ignore[method-assign]
    await _run(folder, registry, seconds=UNTIL_KILLED)


_DUE = Statement(
    "due",
    "SELECT pds_url FROM pds_registry WHERE (lease_until IS NULL OR lease_until <= :now)"
    " AND (next_scan_at IS NULL OR next_scan_at <= :now) ORDER BY pds_url LIMIT :count",
)
_TAKE = Statement(
    "take",
    "UPDATE pds_registry SET status = 'scanning', lease_owner = :owner, lease_until = :until"
    " WHERE pds_url = :url",
)


def _looking_first(registry: Registry, folder: Path) -> Callable[..., Awaitable[list[PdsRow]]]:
    """Between the look and the taking there is all the time that another needs to look as well,
    and then to find the first one at work on what it saw."""

    async def claim(
        limit: int, now: float, lease: float, owner: str, which: Which = ANY
    ) -> list[PdsRow]:
        values = registry._lease(owner, now, lease)
        count = min(limit, CONFIG.concurrency)  # So that all of them are worked on at once.
        due = await registry.db.rows(_DUE, {"now": values["now"], "count": count})
        rows = [await registry.get(url) for (url,) in due]
        looked = folder / "looked"
        if _append(looked, b".") == 1:
            await _until(lambda: looked.stat().st_size > 1)
        else:
            await _until((folder / "log").exists)
        for (url,) in due:
            await registry.db.run(_TAKE, {**values, "url": url})
        return [row for row in rows if row is not None]

    return claim


async def _until(true: Callable[[], bool]) -> None:
    while not true():
        await asyncio.sleep(0.01)


async def _run(folder: Path, registry: Registry, seconds: float = SCAN_SECONDS) -> None:
    clock = ShiftedClock(folder)

    def opened(url: str, owner: str) -> SimSlice:
        return SimSlice(lambda: scanned(folder, url, seconds))

    store = RegistryStore(registry, clock, ClaimRules(owner(clock), lease(CONFIG)), opened)

    async def nothing() -> None: ...

    plan = BatchPlan(CONFIG.batch, CONFIG.scan_interval, once=True)
    source = DueSource(store, clock, plan, asyncio.Event(), nothing)
    handler, sink, gate = (
        ScanHandler(store.work),
        ScanSink(store.work),
        Gate(clock, manners(CONFIG)),
    )
    companions = [store.steer]
    parts = Parts(Feed(source, None), store, handler, sink, gate, clock, companions=companions)
    await crawl(parts, limits(CONFIG), Control(CONFIG.concurrency))
    await store.close()
    await registry.close()


ROLES = {"schedule": schedule, "careless": careless}
