"""The networks that the frozen crawls were crawling: the same to the byte whenever they start.

Their addresses stand in the frozen state, so each has a port of its own, outside the ranges from
which other tests and the system take theirs. Two runs on one machine wait for each other.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

from tests.support.pds.scan import COMMENT, ENDORSEMENT, EPRINT, LIKE, TAG, pdses_on, rkey, write
from tests.support.pds.sim_model import SimPds
from tests.support.pds.sim_world import PdsWorld, serve_pdses
from trawlnet.net.clock import SystemClock
from trawlnet.sim.atproto.world import AtprotoWorld, serve_atproto
from trawlnet.sim.ids.world import IdsWorld as IdsWorld
from trawlnet.sim.ids.world import serve_ids
from trawlnet.sim.web import WebWorld as WebWorld
from trawlnet.sim.web import serve_web

W = TypeVar("W")

PATIENCE = 120.0  # Seconds until whoever has the port is done.
COLLECTIONS = (EPRINT, COMMENT, ENDORSEMENT, TAG, LIKE)


async def repos_world(log: Path, port: int = 30_071, latency: float = 0.0) -> AtprotoWorld:
    return await _patiently(
        lambda: serve_atproto(
            *(71, 1.0, "127.0.0.1", port, log.with_name("manifest.json")),
            accounts=36,
            hosts=4,
            habits=(),
            largest_repo=40,
            latency=latency,
            log=log,
        )
    )


async def web_world(log: Path, port: int = 30_072, latency: float = 0.0) -> WebWorld:
    return await _patiently(
        lambda: serve_web(
            5,
            manifest=log.with_name("manifest.jsonl"),
            clock=SystemClock(),
            hosts=4,
            pages=14,
            port=port,
            crawl_delay=0.02,
            digests=False,
            latency=latency,
            log=log,
        )
    )


async def pds_world(log: Path, port: int = 30_073) -> PdsWorld:
    return await _patiently(lambda: serve_pdses(pdses(), port=port, log=log))


async def ids_world(log: Path) -> IdsWorld:
    """Its address stands nowhere in the state, and ids of its first minutes are always there."""
    return await serve_ids(3, manifest=log.with_name("manifest.json"), clock=SystemClock(), log=log)


def pdses() -> list[SimPds]:
    """Every table for records has some, the one for invalid records too."""
    made = pdses_on(3, first=1900)
    for number, pds in enumerate(made):
        for one in range(5):
            repo = pds.repo(f"frozen/{number}/{one}")
            for collection in COLLECTIONS:
                write(repo, collection, 2 + one % 2)
            repo.put(EPRINT, rkey(99), {"title": 3})
    return made


async def _patiently(serve: Callable[[], Awaitable[W]]) -> W:
    loop = asyncio.get_running_loop()
    deadline = loop.time() + PATIENCE
    while True:
        try:
            return await serve()
        except OSError as error:
            if error.errno != errno.EADDRINUSE or loop.time() > deadline:
                raise
        await asyncio.sleep(0.2)
