"""One round of discovery over all configured sources."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from trawlnet.crawlers.atproto.didfile import check_dids, dids_in
from trawlnet.crawlers.errors import NotReady, Unanswered
from trawlnet.crawlers.pds.config import PdsConfig
from trawlnet.crawlers.pds.discovery.finding import DiscoveryCounts, Finder
from trawlnet.crawlers.pds.discovery.mentions import from_dids, from_records
from trawlnet.crawlers.pds.discovery.plc import from_plc
from trawlnet.crawlers.pds.discovery.relay import from_relay, relay_url
from trawlnet.crawlers.tables_place import tables_place
from trawlnet.tables.clickhouse.server import ClickHouseServer
from trawlnet.tables.registry.rules import PdsSource
from trawlnet.webpage.origin import canonical_origin


@dataclass(frozen=True, slots=True)
class DiscoverySources:
    """The configured sources of PDSes."""

    directory: str  # Origin of the PLC directory; always needed to look up DIDs.
    enumerates_plc: bool
    mirror: Path | ClickHouseServer
    relays: Sequence[str] = ()  # Origins.
    dids: Path | None = None
    mentions: bool = False  # Of indexed records.

    @property
    def any(self) -> bool:
        return bool(self.enumerates_plc or self.relays or self.dids or self.mentions)

    @property
    def name(self) -> str:
        """The note of the last round, which differs for other sources."""
        sources = f"{self.enumerates_plc and self.directory} {sorted(self.relays)} {self.dids}"
        if self.mentions:
            sources += " mentions"
        return f"discovered {zlib.crc32(sources.encode()):08x}"


def wanted(config: PdsConfig, workspace: Path) -> DiscoverySources:
    """Raises NotReady for a wrong config."""
    private = config.allow_private_hosts
    directory = canonical_origin(config.directory, allow_private=private)
    if not directory.url:
        raise NotReady(
            f"{config.directory!r} is not the URL of a PLC directory: {directory.refused}",
            "write it like --plc-url https://plc.directory",
        )
    dids = Path(config.dids) if config.dids else None
    if dids is not None:
        check_dids(dids)
    relays = [relay_url(relay, allow_private=private) for relay in config.relay]
    mirror = tables_place(config, workspace)  # The place of the mirror made by `repos plc`.
    return DiscoverySources(
        directory.url, config.enumerates_plc, mirror, relays, dids, config.mentions
    )


async def discover(
    finder: Finder, sources: DiscoverySources
) -> Mapping[PdsSource, DiscoveryCounts]:
    """The counts of each source. A source that fails does not stop the others."""
    tallies: dict[PdsSource, DiscoveryCounts] = {}
    if sources.relays:
        tally = tallies[PdsSource.RELAY] = DiscoveryCounts()
        for relay in sources.relays:
            await from_relay(finder, relay, tally)
    if sources.dids is not None:
        tally = tallies[PdsSource.DID] = DiscoveryCounts()
        await from_dids(finder, dids_in(sources.dids), sources.directory, tally)
        tally.read += 1
    if sources.mentions:
        tally = tallies.setdefault(PdsSource.DID, DiscoveryCounts())
        await from_records(finder, sources.directory, tally)
        tally.read += 1
    if sources.enumerates_plc:
        tally = tallies[PdsSource.PLC] = DiscoveryCounts()
        try:
            await from_plc(finder, sources.directory, sources.mirror, tally)
            tally.read += 1
        except (Unanswered, NotReady) as error:
            tally.left(error.message)
    return tallies
