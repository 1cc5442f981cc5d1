"""The networks that the frozen crawls were crawling: the same to the byte whenever they start.

Their addresses stand in the frozen state, so each has a port of its own. What is bound instead in
tests is for `conftest.py` to say: only `make.py` really takes these.
"""

from __future__ import annotations

from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from tests.support.atproto.odd_directory import OddDirectory
from tests.support.atproto.plc_truth import lines_of
from tests.support.pds.scan import COMMENT, ENDORSEMENT, EPRINT, LIKE, TAG, pdses_on, rkey, write
from tests.support.pds.sim_model import SimPds
from tests.support.pds.sim_world import PdsWorld, serve_pdses
from tests.support.repos.followed import LiveWorld, live_world
from trawlnet.net.clock import SystemClock
from trawlnet.sim.atproto.live.relay_stream import Mischief
from trawlnet.sim.atproto.world import AtprotoWorld, serve_atproto
from trawlnet.sim.ids.world import IdsWorld as IdsWorld
from trawlnet.sim.ids.world import serve_ids
from trawlnet.sim.web import WebWorld as WebWorld
from trawlnet.sim.web import serve_web

REPOS_PORT, WEB_PORT, PDS_PORT, LIVE_PORT, PLC_PORT = PORTS = tuple(range(30_071, 30_076))
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


class StepClock(SystemClock):
    """Its time passes with what happens, so that the same happens at the same time again."""

    steps = 0

    def now(self) -> float:
        return 1_750_000_000.0 + self.steps


class FollowedWorld(NamedTuple):
    living: LiveWorld
    clock: StepClock

    def happen(self, begin: int, end: int, *, drops: bool = True) -> set[str]:
        """The acts of these numbers. The relay leaves out the commits of some accounts: who
        follows has to look at these."""
        unheard = set()
        for number in range(begin, end):
            self.clock.steps += 1
            if drops and number % 7 == 6:
                writers = self.living.writers()
                writer = writers[number % len(writers)]
                self.living.write([writer], Mischief.DROP)
                unheard.add(self.living.world.population.dids[writer.index])
            else:
                self.living.acts(1)
        return unheard

    def unsettled_after(self, seq: int) -> set[str]:
        """Accounts of which the relay told more than commits since."""
        told = self.living.world.relay_stream.log.after(seq, 10_000)
        return {event.did for event in told if event.kind != "#commit"}


@contextmanager
def followed_world(folder: Path, port: int = LIVE_PORT) -> Iterator[FollowedWorld]:
    """Nothing has happened in it yet. Its requests are in `folder/log`."""
    clock, log = StepClock(), folder / "log"
    size = {"accounts": 16, "hosts": 2, "largest_repo": 12}
    with live_world(73, folder, port=port, **size, clock=clock, log=log) as living:
        yield FollowedWorld(living, clock)


async def plc_directory(folder: Path) -> OddDirectory:
    """Its log is that of a world which is not there any more."""
    world = await serve_atproto(
        *(75, 1.0, "127.0.0.1", PLC_PORT, folder / "manifest.json"),
        accounts=60,
        hosts=3,
        habits=(),
        largest_repo=2,
    )
    try:
        return OddDirectory(await lines_of(world), most=5)
    finally:
        await world.close()


async def web_world(
    log: Path, port: int = WEB_PORT, latency: float = 0.0, *, hosts: int = 4, pages: int = 14
) -> WebWorld:
    return await serve_web(
        5,
        manifest=log.with_name("manifest.jsonl"),
        clock=SystemClock(),
        hosts=hosts,
        pages=pages,
        port=port,
        crawl_delay=0.02,
        digests=False,
        latency=latency,
        log=log,
    )


def small_web_world(log: Path, latency: float = 0.0) -> Coroutine[Any, Any, WebWorld]:
    return web_world(log, latency=latency, hosts=2, pages=8)


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
