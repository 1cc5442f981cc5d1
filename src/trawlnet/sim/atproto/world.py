"""Serve a whole simulated ATProto network on loopback: one port, many addresses."""

from __future__ import annotations

import asyncio
import errno
import socket
import tempfile
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from aiohttp import web

from trawlnet.engine.ports import Clock
from trawlnet.net.clock import SystemClock
from trawlnet.sim.atproto.directory import answer_directory, numbered_lines
from trawlnet.sim.atproto.keyring import make_keyring
from trawlnet.sim.atproto.limits import RateLimits
from trawlnet.sim.atproto.live import subscription
from trawlnet.sim.atproto.live.life import Life
from trawlnet.sim.atproto.live.relay_stream import HONEST, RelayStream, Spoiler
from trawlnet.sim.atproto.manifest import write_manifest
from trawlnet.sim.atproto.pds import answer_pds
from trawlnet.sim.atproto.plan import (
    HABITS,
    WorldPlan,
    address_block,
    default_port,
    make_plan,
    size_of,
)
from trawlnet.sim.atproto.plc_stream import HONEST_STREAM, PlcStream, StreamHabits
from trawlnet.sim.atproto.plc_stream import PATH as STREAM_PATH
from trawlnet.sim.atproto.population import Population, populate
from trawlnet.sim.atproto.relay import answer_relay
from trawlnet.sim.atproto.shelf import RepoShelf
from trawlnet.sim.atproto.tenancy import Pdses
from trawlnet.sim.habits import DEFAULT_TEMPER, Habit, Temper, misbehave
from trawlnet.sim.serve import LOOPBACK, Answer, Call, Served, bind_hosts, serve

_PORT_TRIES = 50
_BACKLOG = 512


@dataclass(frozen=True, slots=True)
class AtprotoWorld:
    plc: str
    relay: str
    pds: Sequence[str]  # Dead ones too: the directory names them.
    manifest: Path
    population: Population
    life: Life
    relay_stream: RelayStream
    plc_stream: PlcStream
    _served: Served
    _living: asyncio.Task[None] | None = None

    @property
    def plan(self) -> WorldPlan:
        return self.population.plan

    @property
    def served(self) -> Served:
        """The server's side: how many requests each address had."""
        return self._served

    def ready_line(self) -> dict[str, object]:
        return {
            "plc": self.plc,
            "relay": self.relay,
            "pds": list(self.pds),
            "firehose": f"{self.relay.replace('http', 'ws', 1)}{subscription.PATH}",
            "manifest": str(self.manifest),
        }

    async def close(self) -> None:
        if self._living is not None:
            self._living.cancel()
            # The final truth, for checkers that have followed the world.
            write_manifest(self.manifest, self.population, self.plc, self.relay, self.life.counts)
        await self._served.close()


async def serve_atproto(
    seed: int,
    scale: float = 1.0,
    host: str = LOOPBACK,
    port: int = 0,
    manifest: Path | None = None,
    *,
    accounts: int | None = None,
    hosts: int | None = None,
    habits: Mapping[Habit, int] | Collection[Habit] = HABITS,
    largest_repo: int = 2000,
    temper: Temper = DEFAULT_TEMPER,
    rate_limits: bool = False,
    latency: float = 0.0,
    log: Path | None = None,
    clock: Clock | None = None,
    keep_exports: bool = False,
    acts: float = 0.0,
    spoiler: Spoiler = HONEST,
    plc_habits: StreamHabits = HONEST_STREAM,
) -> AtprotoWorld:
    """Start a world; the directory is at `host`, everything else on 127.<by seed>.0.0/16.

    Seed, size, habits and port decide every byte. Without a port the seed chooses one, and another
    only if that one is taken. `rate_limits` makes servers refuse what exceeds their own headers.
    So many `acts` happen in a second: accounts write, move, leave. The relay may spoil
    what it tells of them, and the stream of the directory has its habits.
    """
    size = size_of(scale, accounts, hosts)
    relay_address = f"127.{address_block(seed)}.0.1"
    draft = make_plan(seed, size, 0, habits, largest_repo)
    addresses = [host, relay_address, *(one.address for one in draft.hosts if one.is_bound)]
    sockets = _bind(addresses, port, default_port(seed))
    chosen_port = int(sockets[0].getsockname()[1])
    plan = make_plan(seed, size, chosen_port, habits, largest_repo)
    plc, relay = f"http://{host}:{chosen_port}", f"http://{relay_address}:{chosen_port}"
    path = manifest or Path(tempfile.mkdtemp(prefix="trawlnet-sim-")) / "manifest.json"
    try:
        # A large world takes seconds to work out; the loop may have other worlds to serve.
        population = await asyncio.to_thread(_prepare, plan, path, plc, relay)
        shelf = RepoShelf(population, keep_exports=keep_exports)
        clock = clock or SystemClock()
        life = Life(population, shelf, clock.now, seed)
        stream = RelayStream(seed, spoiler)
        for one in plan.hosts:
            if one.on_relay:
                stream.listen(life.logs[one.index])
        pdses = Pdses(population, shelf, RateLimits(rate_limits), life.logs)
        plc_stream = PlcStream(partial(numbered_lines, population), plc_habits)
        answer = _answers(pdses, stream, plc_stream, relay_address, temper)
        served = await serve(answer, sockets, clock=clock, latency=latency, log=log)
    except BaseException:
        _close(sockets)
        raise
    urls = [one.url for one in plan.hosts]
    living = asyncio.create_task(_live(life, acts, clock)) if acts > 0.0 else None
    return AtprotoWorld(
        plc, relay, urls, path, population, life, stream, plc_stream, served, living
    )


async def _live(life: Life, acts: float, clock: Clock) -> None:
    begun, done = clock.now(), 0
    while True:
        await clock.sleep(min(1.0, 1.0 / acts))
        due = int((clock.now() - begun) * acts)
        while done < due:
            life.act()
            done += 1
            await asyncio.sleep(0)


def _bind(addresses: Sequence[str], port: int, preferred: int) -> list[socket.socket]:
    if port:
        return _listening(bind_hosts(addresses, port))
    for candidate in range(preferred, preferred + _PORT_TRIES):
        try:
            return _listening(bind_hosts(addresses, candidate))
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
    raise OSError(f"no free port from {preferred} to {preferred + _PORT_TRIES - 1} on loopback")


def _listening(sockets: list[socket.socket]) -> list[socket.socket]:
    # Two worlds may bind one port; only listening makes it one's own. Early clients just wait.
    try:
        for one in sockets:
            one.listen(_BACKLOG)
    except OSError:
        _close(sockets)
        raise
    return sockets


def _close(sockets: Sequence[socket.socket]) -> None:
    for one in sockets:
        one.close()


def _prepare(plan: WorldPlan, path: Path, plc: str, relay: str) -> Population:
    population = populate(plan, make_keyring(plan.seed))
    write_manifest(path, population, plc, relay)
    return population


def _answers(
    pdses: Pdses, stream: RelayStream, plc_stream: PlcStream, relay: str, temper: Temper
) -> Answer:
    """One function for all addresses of the world."""
    population, shelf = pdses.population, pdses.shelf
    by_address = {host.address: host for host in population.plan.hosts}

    async def answer(call: Call) -> web.StreamResponse:
        host = by_address.get(call.host)
        if host is not None:
            # Servers lie and loop in their own way; what is left is what any server may do.
            own = host.habit in (Habit.LYING, Habit.ENDLESS_CURSOR)
            return await misbehave(
                Habit.GOOD if own else host.habit,
                call.request,
                lambda: answer_pds(pdses, host, call.request, call.now),
                turn=call.turn,
                now=call.now,
                temper=temper,
            )
        if call.host == relay:
            return await answer_relay(population, shelf, stream.log, call.request)
        if call.request.path == STREAM_PATH:
            return await plc_stream.answer(call.request, len(population.log))
        return answer_directory(population, call.request)

    return answer
