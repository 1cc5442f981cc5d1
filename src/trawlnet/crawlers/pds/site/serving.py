"""Builds the site from the config."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from typing import Any, TypeVar

from trawlnet.crawlers.atproto.serviceauth import ServiceAuth
from trawlnet.crawlers.pds.build import Kit, owner
from trawlnet.crawlers.pds.config import gap, manners
from trawlnet.crawlers.pds.scanning.claimed import ClaimContext, scan_account
from trawlnet.crawlers.pds.scanning.parts import ScanParts, ScanResult
from trawlnet.crawlers.pds.scanning.scan import scan_did
from trawlnet.crawlers.pds.site.buckets import Buckets
from trawlnet.crawlers.pds.site.context import FigureBoard, SiteContext
from trawlnet.crawlers.pds.site.examine import examine
from trawlnet.crawlers.pds.site.register import Books, Registrar, ScanAccount
from trawlnet.engine.rules import Manners
from trawlnet.observe.metrics.pds import RegistryMeter
from trawlnet.tables.errors import TablesError, TablesUnreachable
from trawlnet.tables.registry.browse import BrowsePage, BrowseQuery
from trawlnet.tables.registry.rules import PdsRow, PdsSource, PdsStatus, Registered
from trawlnet.tables.registry.stats import Stats

_MINUTE, _HOUR = 60.0, 3600.0
_AT_ONCE = 0.8  # Share of a minute's requests to one PDS.


@dataclass(frozen=True, slots=True)
class Door:
    """The site's limits and tokens."""

    service_did: str = ""  # The audience of tokens; without one, tokens are not accepted.
    registrations_per_minute: int = 10  # From one address.
    hosts_per_hour: int = 20  # Hosts of one registrable domain that are checked.
    visits_per_minute: int = 300  # All requests of one address.
    registry_seconds: float = 5.0  # Time limit for answers of the registry.


def open_site(
    kit: Kit, parts: ScanParts, door: Door, scan: ScanAccount | None = None
) -> SiteContext:
    """Scans for callers use the parts, unless `scan` is set."""
    kit.gate.retune(service_manners(manners(kit.config)))
    service = Registrar(
        books=PromptBooks(kit.registry, door.registry_seconds),
        examine=partial(examine, kit.http, kit.gate, kit.clock),
        scan=scan or partial(_scan_account, kit, parts, count()),
        identities=parts.identities,
        domains=Buckets(door.hosts_per_hour, _HOUR),
        clock=kit.clock,
        allow_private=kit.config.allow_private_hosts,
    )
    meter, board = RegistryMeter(kit.metrics.registry), FigureBoard()

    async def scrape() -> bytes:
        try:
            stats = (await board.read(service)).stats
            meter.hosts = {str(status): count for status, count in stats.by_status.items()}
        except TablesError:
            # Metrics matter most when the registry does not answer.
            meter.hosts = {}
        return meter.text()

    return SiteContext(
        service=service,
        auth=ServiceAuth(door.service_did, parts.identities, kit.clock),
        callers=Buckets(door.registrations_per_minute, _MINUTE),
        visitors=Buckets(door.visits_per_minute, _MINUTE),
        meter=meter,
        scrape=scrape,
        board=board,
    )


async def _scan_account(
    kit: Kit, parts: ScanParts, callers: Iterator[int], url: str, did: str, deadline: float
) -> int:
    """Scan one account; returns the number of indexed records. Raises TimeoutError if another
    process holds the PDS until the deadline."""
    # Each caller has its own claim name, so that two at a time cannot share a claim.
    name = f"{owner(kit.clock)}/{next(callers)}"
    lease = max(_MINUTE, 2 * (deadline - kit.clock.now()))
    context = ClaimContext(kit.registry, kit.clock, name, lease, gap(kit.config))

    async def scan(url: str) -> ScanResult:
        return await scan_did(parts, url, did, lease=name, deadline=deadline)

    result = await scan_account(context, url, scan, deadline)
    if isinstance(result, str):
        raise TimeoutError(result)
    return result.indexed


def service_manners(usual: Manners) -> Manners:
    """Most of a minute's requests may go at once, because a caller waits; the rest is spread over
    the minute, so that no minute has too many."""
    per_minute = usual.rate * _MINUTE
    burst = int(per_minute * _AT_ONCE)
    if burst < 1:
        return usual
    return replace(usual, burst=burst, rate=(per_minute - burst) / _MINUTE)


T = TypeVar("T")

_MOST_WAITING = 64  # Unanswered queries above which no more are sent.


class PromptBooks:
    """The registry with a time limit. A query that exceeds it continues in the background: it may
    be in the middle of a transaction."""

    def __init__(self, books: Books, seconds: float) -> None:
        self._books = books
        self._seconds = seconds
        self._waiting: set[asyncio.Task[Any]] = set()

    async def get(self, url: str) -> PdsRow | None:
        return await self._soon(self._books.get(url))

    async def register(self, url: str, source: PdsSource, *, now: float) -> Registered:
        return await self._soon(self._books.register(url, source, now=now))

    async def listing(
        self,
        *,
        status: PdsStatus | None = None,
        source: PdsSource | None = None,
        contains: str | None = None,
        after: str | None = None,
        limit: int = 100,
    ) -> Sequence[PdsRow]:
        return await self._soon(
            self._books.listing(
                status=status, source=source, contains=contains, after=after, limit=limit
            )
        )

    async def browse(self, wish: BrowseQuery) -> BrowsePage:
        return await self._soon(self._books.browse(wish))

    async def largest(self, limit: int = 10) -> Sequence[PdsRow]:
        return await self._soon(self._books.largest(limit))

    async def stats(self, now: float) -> Stats:
        return await self._soon(self._books.stats(now))

    async def _soon(self, question: Coroutine[Any, Any, T]) -> T:
        if len(self._waiting) >= _MOST_WAITING:
            question.close()
            raise TablesUnreachable("the registry is busy", "try again later")
        task = asyncio.create_task(question)
        self._waiting.add(task)
        task.add_done_callback(self._answered)
        done, _ = await asyncio.wait([task], timeout=self._seconds)
        if not done:
            raise TablesUnreachable(
                f"the registry did not answer within {self._seconds:g} s", "try again later"
            )
        return task.result()

    def _answered(self, task: asyncio.Task[Any]) -> None:
        self._waiting.discard(task)
        if not task.cancelled():
            task.exception()  # Retrieved, so that asyncio does not report it.
