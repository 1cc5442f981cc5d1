"""Scans that died are told from those that live; only what the dead had claimed is given back."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from trawlnet.crawlers.pds.build import open_kit, open_parts
from trawlnet.crawlers.pds.config import PdsConfig
from trawlnet.crawlers.pds.scanning.presence import present, release_dead
from trawlnet.observe.metrics.crawl import CrawlMetrics
from trawlnet.sim.virtual import SimClock, run_sim
from trawlnet.tables.registry.entry import Terms
from trawlnet.tables.registry.registry import Registry, open_registry
from trawlnet.tables.registry.rules import PdsSource

NOW, LEASE = 1_800_000_000.0, 120.0
A, B = "https://a.pds-world.net", "https://b.pds-world.net"
DEAD, ALIVE = (f"{socket.gethostname()}:{pid}:1.000000" for pid in (11, 12))


def on(folder: Path, body: Callable[[Registry], Awaitable[None]]) -> None:
    async def run() -> None:
        registry = await open_registry(folder / "registry.db", Terms())
        try:
            for url in (A, B):
                await registry.register(url, PdsSource.USER, now=NOW)
            await body(registry)
        finally:
            await registry.close()

    asyncio.run(run())


async def claims(registry: Registry) -> dict[str, int]:
    return await registry.claims(NOW)


def die(state: Path, owner: str) -> None:
    """Leave what a killed scan leaves: its file, and nobody who holds the lock."""
    with pytest.raises(OSError), present(state, owner):
        raise OSError("the disk is full")
    assert (state / "scans" / owner).exists()


def test_what_the_dead_had_claimed_is_given_back_and_the_living_keep_theirs(tmp_path: Path) -> None:
    async def body(registry: Registry) -> None:
        await registry.claim_one(A, NOW, LEASE, DEAD)
        await registry.claim_one(B, NOW, LEASE, ALIVE)
        die(tmp_path, DEAD)
        with present(tmp_path, ALIVE):
            assert await release_dead(registry, tmp_path, NOW) == 1
            assert await claims(registry) == {ALIVE: 1}
            row = await registry.get(A)
            assert row is not None and row.last_try_at == NOW, "the next one keeps its distance"
        assert os.listdir(tmp_path / "scans") == []

    on(tmp_path, body)


def test_a_copy_of_a_workspace_robs_nobody_in_the_original(tmp_path: Path) -> None:
    original, copy = tmp_path / "net", tmp_path / "copy"

    async def body(registry: Registry) -> None:
        await registry.claim_one(A, NOW, LEASE, ALIVE)
        with present(original, ALIVE):
            shutil.copytree(original, copy)
            assert await release_dead(registry, copy, NOW) == 0
            assert await claims(registry) == {ALIVE: 1}

    on(tmp_path, body)


def test_names_of_other_machines_are_left_alone(tmp_path: Path) -> None:
    async def body(registry: Registry) -> None:
        await registry.claim_one(A, NOW, LEASE, "elsewhere:11:1.000000")
        die(tmp_path, "elsewhere:11:1.000000")
        assert await release_dead(registry, tmp_path, NOW) == 0
        assert await claims(registry) == {"elsewhere:11:1.000000": 1}

    on(tmp_path, body)


def test_a_crawl_gives_back_what_a_dead_scan_had_claimed(tmp_path: Path) -> None:
    state, config = tmp_path / "state/pds", PdsConfig(contact="https://example.org/crawler")
    die(state, DEAD)

    async def run() -> None:
        clock = SimClock()
        metrics = CrawlMetrics("pds", clock)
        async with open_kit(config, tmp_path, clock, metrics) as kit:
            await kit.registry.register(A, PdsSource.USER, now=clock.now())
            await kit.registry.claim_one(A, clock.now(), LEASE, DEAD)
            async with open_parts(config, tmp_path, clock, metrics):
                assert await kit.registry.claims(clock.now()) == {}

    run_sim(run())
