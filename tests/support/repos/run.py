"""Run the repos crawler over a simulated network, and look at what it leaves."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from trawlnet.archive.blocks import FoundBlock
from trawlnet.archive.format.rca import HEADER_SIZE
from trawlnet.archive.lookup import look_up
from trawlnet.archive.reader import find_segments, open_segment
from trawlnet.archive.tombstones import read_tombstones
from trawlnet.archive.verify import verify_segment
from trawlnet.crawlers.repos import build
from trawlnet.crawlers.repos.accounts.identity import RepoIdentity
from trawlnet.crawlers.repos.build import ARCHIVE, open_parts
from trawlnet.crawlers.repos.config import ReposConfig, limits
from trawlnet.engine.control import Control, Ending
from trawlnet.engine.crawl import crawl
from trawlnet.engine.outcome import Reason
from trawlnet.engine.ports import Counts, Failure, Ledger
from trawlnet.net.clock import SystemClock
from trawlnet.observe.metrics.crawl import CrawlMetrics
from trawlnet.sim.atproto.world import AtprotoWorld

RATE = 500.0
FAST: dict[str, Any] = {
    "allow_private_hosts": True,
    "default_pds_rps": RATE,
    "small_pds_rps": RATE,
    "large_pds_rps": RATE,
    "plc_rps": 1000,
    "attempts": 4,
    "retry_base": 0.05,
    "request_timeout": 10,
    "max_repo_size": "20MB",
}

Records = Mapping[str, int]  # By collection.

# Servers of these habits cannot be listed.
_SILENT = ("dead", "server_error", "garbage", "truncating", "bomb", "redirect_private")


@dataclass(frozen=True, slots=True)
class Crawled:
    ending: Ending
    counts: Counts
    failures: dict[str, Failure]
    metrics: CrawlMetrics
    tally: Counter[Reason]
    text: str  # The metrics as they were at the end.

    @property
    def reasons(self) -> dict[str, Reason]:
        return {key: failure.reason for key, failure in self.failures.items()}


async def run(world: AtprotoWorld, workspace: Path, **more: Any) -> Crawled:
    return await run_config(ReposConfig(**(FAST | {"plc_url": world.plc} | more)), workspace)


async def run_relay(world: AtprotoWorld, workspace: Path, **more: Any) -> Crawled:
    return await run(world, workspace, relay=(world.relay,), **more)


async def run_config(config: ReposConfig, workspace: Path) -> Crawled:
    clock = SystemClock()
    metrics = CrawlMetrics("repos", clock)
    async with open_parts(config, workspace, clock, metrics) as parts:
        control = Control(config.workers)
        scrape = metrics.watch(parts, control)
        ending = await crawl(parts, limits(config), control)
        store: Ledger = parts.store  # type: ignore[assignment]
        failures = {one.key: one async for one in store.failures()}
        text = (await scrape.text()).decode()
        return Crawled(ending, await store.counts(), failures, metrics, control.figures.tally, text)


@dataclass(frozen=True, slots=True)
class Truth:
    """What a simulated network knows about itself."""

    rows: Mapping[str, Any]  # By DID.
    hosts: Mapping[str, Any]  # By URL.

    @classmethod
    def of(cls, world: AtprotoWorld) -> Truth:
        return cls.read(world.manifest)

    @classmethod
    def read(cls, manifest: Path) -> Truth:
        told = json.loads(manifest.read_bytes())
        return cls(told["dids"], told["hosts"])

    def archivable(self, *, on_relay: bool = False, in_plc: bool = False) -> dict[str, Records]:
        return {
            did: row["records"]
            for did, row in self.rows.items()
            if row["archivable"]
            and (not on_relay or self._is_listed(row))
            and (not in_plc or row["in_plc"])
        }

    def _is_listed(self, row: Mapping[str, Any]) -> bool:
        """Where it lives, or where it came from: that server still lists it."""
        places = [self.hosts[url] for url in (row["pds"], row.get("former_pds")) if url]
        return any(place["on_relay"] and place["habit"] not in _SILENT for place in places)

    def with_status(self, *statuses: str) -> dict[str, str]:
        return {did: row["status"] for did, row in self.rows.items() if row["status"] in statuses}


def archived(workspace: Path) -> dict[str, Records]:
    """The records of every repository in the archive, which is sound and finalised."""
    folder = workspace / ARCHIVE
    found: dict[str, Records] = {}
    for path in find_segments(folder):
        verdict = verify_segment(path)
        assert verdict.sound, verdict.damage
        assert verdict.finalised
        segment = open_segment(path)
        with segment.open() as fd:
            for block in segment.blocks(fd, check=True):
                assert isinstance(block, FoundBlock), block
                found[block.head.did] = {
                    collection.name: collection.records for collection in block.head.collections
                }
    for stone in read_tombstones(folder):
        latest = look_up(folder, stone.did)
        if latest.tombstone is not None:
            found.pop(stone.did, None)
    return found


def blocks_written(workspace: Path) -> Counter[str]:
    """How often each DID is in the archive."""
    counts: Counter[str] = Counter()
    for path in find_segments(workspace / ARCHIVE):
        segment = open_segment(path)
        with segment.open() as fd:
            for block in segment.blocks(fd, check=False):
                assert isinstance(block, FoundBlock), block
                counts[block.head.did] += 1
    return counts


def holds_something(workspace: Path) -> bool:
    """Whether a crawl, perhaps one that runs, has archived a repository."""
    segments = (workspace / ARCHIVE).glob("segment_*.rca")
    return any(path.stat().st_size > HEADER_SIZE for path in segments)


class SimMirror:
    """What a mirror of the world's directory holds, without a database."""

    def __init__(self, truth: Truth, keys: Mapping[str, str]) -> None:
        self.rows = {
            did: RepoIdentity(did, row["pds"], keys[did])
            for did, row in sorted(truth.rows.items())
            if row["in_plc"] and row["status"] not in ("tombstoned", "junk")
        }

    async def unhoused(self, after: str, last: str, most: int) -> Sequence[tuple[str, str]]:
        return [
            (row.did, "none")
            for row in self.rows.values()
            if after < row.did <= last and not row.pds
        ][:most]

    async def pages(self, after: str) -> AsyncIterator[Sequence[RepoIdentity]]:
        rows = [row for did, row in self.rows.items() if did > after and row.pds]
        for start in range(0, len(rows), 30):
            yield rows[start : start + 30]

    async def states(self, dids: Sequence[str]) -> Mapping[str, RepoIdentity]:
        return {did: self.rows[did] for did in dids if did in self.rows}


def put_up_mirror(world: AtprotoWorld, monkeypatch: pytest.MonkeyPatch) -> SimMirror:
    """From now on crawls find this mirror."""
    people = world.population
    keys = {did: people.account(n).keys[0].did_key for n, did in enumerate(people.dids)}
    mirror = SimMirror(Truth.of(world), keys)

    async def open_mirror(*_: Any) -> SimMirror:
        return mirror

    monkeypatch.setattr(build, "_mirror_in", open_mirror)
    return mirror
