"""Serve PDSes on loopback, each at an address of its own, with a directory that knows who lives
where."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from aiohttp import web

from tests.support.pds.sim_answers import answer_pds
from tests.support.pds.sim_model import PdsLie, SimPds
from trawlnet.net.clock import SystemClock
from trawlnet.sim.atproto.xrpc import json_response
from trawlnet.sim.habits import DEFAULT_TEMPER, Habit, Temper, misbehave
from trawlnet.sim.serve import LOOPBACK, Call, Served, bind_hosts, serve


@dataclass(slots=True)
class PdsWorld:
    pdses: Sequence[SimPds]
    port: int
    served: Served
    homes: dict[str, SimPds] = field(default_factory=dict)  # By DID; who is not in it is nobody.
    lookups: int = 0
    is_directory_up: bool = True

    @property
    def plc(self) -> str:
        return f"http://{LOOPBACK}:{self.port}"

    def url(self, pds: SimPds) -> str:
        return f"http://{pds.address}:{self.port}"

    def requests(self, pds: SimPds) -> int:
        return self.served.turns[pds.address, self.port]

    def settle_in(self) -> None:
        """Everybody lives where their repo is, except where it was stolen."""
        for pds in self.pdses:
            if pds.lie not in (PdsLie.STOLEN_REPOS, PdsLie.RELAY, PdsLie.LISTING_ONLY):
                self.homes |= dict.fromkeys(pds.repos, pds)

    async def close(self) -> None:
        await self.served.close()


async def serve_pdses(
    pdses: Sequence[SimPds],
    *,
    temper: Temper = DEFAULT_TEMPER,
    port: int = 0,
    log: Path | None = None,
) -> PdsWorld:
    by_address = {pds.address: pds for pds in pdses}
    world: PdsWorld

    async def answer(call: Call) -> web.StreamResponse:
        pds = by_address.get(call.host)
        if pds is None:
            return _answer_directory(world, call.request)
        return await misbehave(
            pds.habit,
            call.request,
            lambda: answer_pds(pds, call.request),
            turn=call.turn,
            now=call.now,
            temper=temper,
        )

    bound = [pds.address for pds in pdses if pds.habit is not Habit.DEAD]
    sockets = bind_hosts([LOOPBACK, *bound], port)
    served = await serve(answer, sockets, clock=SystemClock(), log=log)
    world = PdsWorld(pdses, served.port, served)
    world.settle_in()
    return world


def _answer_directory(world: PdsWorld, request: web.BaseRequest) -> web.Response:
    world.lookups += 1
    if not world.is_directory_up:
        return web.Response(status=503)
    did = request.path.removeprefix("/")
    home = world.homes.get(did)
    if home is None:
        return json_response({"message": f"DID not registered: {did}"}, 404)
    service = {
        "id": "#atproto_pds",
        "type": "AtprotoPersonalDataServer",
        "serviceEndpoint": world.url(home),
    }
    return json_response({"id": did, "service": [service]})
