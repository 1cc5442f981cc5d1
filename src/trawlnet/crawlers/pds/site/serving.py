"""From what was configured to a site that can be served."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import count

from trawlnet.crawlers.atproto.serviceauth import ServiceAuth
from trawlnet.crawlers.pds.build import Kit, owner
from trawlnet.crawlers.pds.config import gap, manners
from trawlnet.crawlers.pds.scanning.claimed import Bench, scan_account
from trawlnet.crawlers.pds.scanning.parts import ScanParts, ScanResult
from trawlnet.crawlers.pds.scanning.scan import scan_did
from trawlnet.crawlers.pds.site.buckets import Buckets
from trawlnet.crawlers.pds.site.context import FigureBoard, SiteContext
from trawlnet.crawlers.pds.site.examine import examine
from trawlnet.crawlers.pds.site.ports import ScanAccount
from trawlnet.crawlers.pds.site.prompt import PromptBooks
from trawlnet.crawlers.pds.site.register import Desk
from trawlnet.engine.rules import Manners
from trawlnet.observe.metrics.pds import RegistryMeter
from trawlnet.tables.errors import TablesError

_MINUTE, _HOUR = 60.0, 3600.0
_AT_ONCE = 0.8  # Of a minute's requests to one PDS.


@dataclass(frozen=True, slots=True)
class Door:
    """How the site treats those who come."""

    service_did: str = ""  # Whom tokens must be meant for; without one there are no tokens.
    registrations_per_minute: int = 10  # From one address.
    hosts_per_hour: int = 20  # Of one registrable domain, asked because somebody named them.
    visits_per_minute: int = 300  # All requests of one address.
    registry_seconds: float = 5.0  # That the registry has for an answer.


def open_site(
    kit: Kit, parts: ScanParts, door: Door, scan: ScanAccount | None = None
) -> SiteContext:
    """Scans on behalf of callers use the parts, unless there is another way to scan."""
    kit.gate.retune(desk_manners(manners(kit.config)))
    desk = Desk(
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
            stats = (await board.read(desk)).stats
            meter.hosts = {str(status): count for status, count in stats.by_status.items()}
        except TablesError:
            # How the service does is worth knowing most when the registry is away.
            meter.hosts = {}
        return meter.text()

    return SiteContext(
        desk=desk,
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
    """Records of one account that were indexed. Raises TimeoutError where another process has the
    PDS until the deadline."""
    # Each caller has a name of its own: two at a time must not have one claim.
    name = f"{owner(kit.clock)}/{next(callers)}"
    lease = max(_MINUTE, 2 * (deadline - kit.clock.now()))
    bench = Bench(kit.registry, kit.clock, name, lease, gap(kit.config))

    async def scan(url: str) -> ScanResult:
        return await scan_did(parts, url, did, lease=name, deadline=deadline)

    result = await scan_account(bench, url, scan, deadline)
    if isinstance(result, str):
        raise TimeoutError(result)
    return result.indexed


def desk_manners(usual: Manners) -> Manners:
    """Most of a minute's requests may go at once, since somebody waits for the answer; the rest
    is spread over the minute, so that no minute has more than it should."""
    per_minute = usual.rate * _MINUTE
    burst = int(per_minute * _AT_ONCE)
    if burst < 1:
        return usual
    return replace(usual, burst=burst, rate=(per_minute - burst) / _MINUTE)
