"""From what was configured to a site that can be served."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial

from trawlnet.crawlers.atproto.identities import Identities
from trawlnet.crawlers.atproto.identity import Identity, resolve
from trawlnet.crawlers.atproto.serviceauth import ServiceAuth
from trawlnet.crawlers.metered import Getter, MeteredHttp
from trawlnet.crawlers.pds.web.buckets import Buckets
from trawlnet.crawlers.pds.web.examine import examine
from trawlnet.crawlers.pds.web.ports import Books, ScanAccount
from trawlnet.crawlers.pds.web.register import Desk
from trawlnet.crawlers.pds.web.site import FigureBoard, Site
from trawlnet.engine.gate import Gate
from trawlnet.engine.outcome import Outcome
from trawlnet.engine.ports import Clock
from trawlnet.engine.rules import Manners
from trawlnet.net.guard import Guard
from trawlnet.net.http import Http
from trawlnet.net.lane import lane_of
from trawlnet.observe.metrics import Metrics
from trawlnet.observe.registry import RegistryMeter
from trawlnet.tables.errors import TablesError

_HOUR = 3600.0
_PLC_RATE = 5.0  # Requests per second.


@dataclass(frozen=True, slots=True)
class Terms:
    """How the site treats those who come, and those whom it asks on their behalf."""

    agent: str  # The User-Agent.
    service_did: str = ""  # Whom tokens must be meant for; without one there are no tokens.
    plc_url: str = "https://plc.directory"
    allow_private: bool = False
    requests_per_minute: float = 10.0  # To one PDS.
    registrations_per_minute: int = 10  # From one address.
    hosts_per_hour: int = 20  # Of one registrable domain.
    visits_per_minute: int = 300  # All requests of one address.


@dataclass(frozen=True, slots=True)
class Outlet:
    """The way out, for the desk and for whoever scans on its behalf: one gate for both."""

    http: Getter
    gate: Gate
    identities: Identities


@asynccontextmanager
async def open_outlet(terms: Terms, clock: Clock, metrics: Metrics) -> AsyncIterator[Outlet]:
    per_minute = terms.requests_per_minute
    # A minute's requests may go at once: somebody waits for the answer.
    manners = Manners(rate=per_minute / 60.0, burst=max(2, int(per_minute)), concurrency=2)
    gate = Gate(clock, manners)
    gate.treat(lane_of(terms.plc_url), replace(manners, rate=_PLC_RATE))
    guard = Guard(allow_private=terms.allow_private)
    async with Http(gate, clock, terms.agent, guard=guard) as http:
        metered = MeteredHttp(http, metrics.http)
        yield Outlet(metered, gate, Identities(partial(_resolve, metered, terms), clock))


async def _resolve(http: Getter, terms: Terms, did: str) -> Identity | Outcome:
    return await resolve(http, did, terms.plc_url, allow_private=terms.allow_private)


def open_site(
    terms: Terms, outlet: Outlet, books: Books, scan: ScanAccount, clock: Clock, metrics: Metrics
) -> Site:
    desk = Desk(
        books=books,
        examine=partial(examine, outlet.http),
        scan=scan,
        identities=outlet.identities,
        domains=Buckets(terms.hosts_per_hour, _HOUR),
        clock=clock,
        allow_private=terms.allow_private,
    )
    meter, board = RegistryMeter(metrics.registry), FigureBoard()

    async def scrape() -> bytes:
        try:
            stats = (await board.read(desk)).stats
            meter.hosts = {str(status): count for status, count in stats.by_status.items()}
        except TablesError:
            # How the service does is worth knowing most when the registry is away.
            meter.hosts = {}
        return meter.text()

    return Site(
        desk=desk,
        auth=ServiceAuth(terms.service_did, outlet.identities, clock),
        callers=Buckets(terms.registrations_per_minute, 60.0),
        visitors=Buckets(terms.visits_per_minute, 60.0),
        meter=meter,
        scrape=scrape,
        board=board,
    )
