"""How much there is to do in each bucket of lanes, as far as it is known before a crawl begins."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

from trawlnet.crawlers.repos.config import ReposConfig, SourceKind
from trawlnet.crawlers.repos.work import lane_at
from trawlnet.crawlers.tables_place import tables_place
from trawlnet.engine.partition import bucket_of
from trawlnet.tables.clickhouse.open import opened
from trawlnet.tables.clickhouse.plc import endpoints
from trawlnet.tables.clickhouse.ports import Tables


async def expected(config: ReposConfig, workspace: Path) -> Counter[int]:
    """By the mirror, if that is the source; whom a relay knows is not known before it is asked."""
    if config.chosen_source is not SourceKind.PLC:
        return Counter()
    async with opened(tables_place(config, workspace)) as tables:
        return await expected_by(tables)


async def expected_by(tables: Tables) -> Counter[int]:
    found: Counter[int] = Counter()
    for pds, accounts in (await endpoints(tables)).items():
        found[bucket_of(lane_at(pds))] += accounts
    return found
