"""The networks that the frozen crawls were crawling: the same to the byte whenever they start.

Their addresses stand in the frozen state, so each has a port of its own. What is bound instead in
tests is for `conftest.py` to say: only `make.py` really takes these.
"""

from __future__ import annotations

from pathlib import Path

from tests.support.pds.scan import COMMENT, ENDORSEMENT, EPRINT, LIKE, TAG, pdses_on, rkey, write
from tests.support.pds.sim_model import SimPds
from tests.support.pds.sim_world import PdsWorld, serve_pdses
from trawlnet.net.clock import SystemClock
from trawlnet.sim.atproto.world import AtprotoWorld, serve_atproto
from trawlnet.sim.ids.world import IdsWorld as IdsWorld
from trawlnet.sim.ids.world import serve_ids
from trawlnet.sim.web import WebWorld as WebWorld
from trawlnet.sim.web import serve_web

REPOS_PORT, WEB_PORT, PDS_PORT = PORTS = 30_071, 30_072, 30_073
COLLECTIONS = (EPRINT, COMMENT, ENDORSEMENT, TAG, LIKE)


async def repos_world(log: Path, port: int = REPOS_PORT, latency: float = 0.0) -> AtprotoWorld:
    return await serve_atproto(
        *(71, 1.0, "127.0.0.1", port, log.with_name("manifest.json")),
        accounts=36,
        hosts=4,
        habits=(),
        largest_repo=40,
        latency=latency,
        log=log,
    )


async def web_world(log: Path, port: int = WEB_PORT, latency: float = 0.0) -> WebWorld:
    return await serve_web(
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


async def pds_world(log: Path, port: int = PDS_PORT) -> PdsWorld:
    return await serve_pdses(pdses(), port=port, log=log)


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
