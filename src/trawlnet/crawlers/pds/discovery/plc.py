"""PDSes in the PLC directory: from its mirror if there is one, else from its export."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import orjson

from trawlnet.crawlers.atproto.export import ExportCursor, ExportForm, ExportPage
from trawlnet.crawlers.atproto.reader import Directory, ExportReader
from trawlnet.crawlers.atproto.reader import MirrorCounts as Reading
from trawlnet.crawlers.errors import Unanswered
from trawlnet.crawlers.pds.discovery.asking import patiently
from trawlnet.crawlers.pds.discovery.finding import DiscoveryCounts, Finder
from trawlnet.engine.outcome import Outcome
from trawlnet.engine.rules import RetryPolicy
from trawlnet.tables.clickhouse.open import opened
from trawlnet.tables.clickhouse.plc import endpoints, load_cursor, refused_endpoints
from trawlnet.tables.clickhouse.plc_rows_plain import OperationRow
from trawlnet.tables.clickhouse.ports import Tables
from trawlnet.tables.clickhouse.server import ClickHouseServer
from trawlnet.tables.registry.rules import FoundPds, PdsSource

_LONGEST_ENDPOINT = 600  # Characters by which endpoints are distinguished.
_PARKED = RetryPolicy(patience=1000)  # The reader decides when to give up.


async def from_plc(
    finder: Finder, url: str, mirror: Path | ClickHouseServer, tally: DiscoveryCounts
) -> None:
    """`mirror` is the place that `repos plc` uses. Raises Unanswered, TablesError."""
    async with _mirrored(mirror, url) as tables:
        if tables is not None:
            await _from_mirror(finder, tables, tally)
            return
    await _from_export(finder, url, tally)


@asynccontextmanager
async def _mirrored(where: Path | ClickHouseServer, url: str) -> AsyncIterator[Tables | None]:
    """None if this directory was not mirrored."""
    if _is_absent(where):
        yield None
        return
    async with opened(where) as tables:
        cursor = await load_cursor(tables)
        yield tables if cursor is not None and cursor.source == url else None


def _is_absent(where: Path | ClickHouseServer) -> bool:
    return isinstance(where, Path) and not where.exists()


async def _from_mirror(finder: Finder, tables: Tables, tally: DiscoveryCounts) -> None:
    found = await endpoints(tables)
    # The whole mirror is read each time, so a known server in it is no news.
    founds = [
        FoundPds(url, PdsSource.PLC, accounts, is_news=False) for url, accounts in found.items()
    ]
    await finder.tell(tally, founds)
    tally.refused.update(await refused_endpoints(tables))


async def _from_export(finder: Finder, url: str, tally: DiscoveryCounts) -> None:
    """Read on from the last run. The PDSes of a page are stored before its cursor."""
    directory = Directory(
        url, finder.http, finder.gate, finder.clock, finder.allow_private, finder.on_wait
    )
    reader, notes, name = ExportReader(directory, Reading()), finder.registry.notes, f"plc {url}"
    place = _place(await notes.get(name))
    while True:
        page = await patiently(partial(reader.page, place), url, finder.clock, _PARKED)
        if isinstance(page, Outcome):
            raise Unanswered(f"{url}: {page.detail}", "run the same command again to continue")
        await finder.tell(tally, _founds(page, tally))
        if page.place.position > place.position:
            await notes.put(name, _note(page.place))
        place = page.place
        if page.is_last:
            return


def _founds(page: ExportPage, tally: DiscoveryCounts) -> list[FoundPds]:
    for row in page.rows:
        if row.pds_refused:
            tally.refuse(_endpoint(row), row.pds_refused)
    origins = dict.fromkeys(row.pds for row in page.rows if row.pds and not row.nullified)
    return [FoundPds(origin, PdsSource.PLC) for origin in origins]


def _endpoint(row: OperationRow) -> str:
    """The endpoint as written, so that each is counted once."""
    operation: dict[str, Any] = orjson.loads(row.operation_json)
    of_pds = operation.get("service")
    if row.operation_type != "create":
        services = operation.get("services")
        of_pds = services.get("atproto_pds") if isinstance(services, dict) else None
    return str(of_pds)[:_LONGEST_ENDPOINT]


def _note(place: ExportCursor) -> str:
    return orjson.dumps({"form": str(place.form), "position": place.position}).decode()


def _place(note: str | None) -> ExportCursor:
    if note is None:
        return ExportCursor()
    saved = orjson.loads(note)
    return ExportCursor(ExportForm(saved["form"]), saved["position"])
