"""`trawlnet pds list`: the rows of the registry."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, TypeVar

from trawlnet.cli.common.errors import UsageTrouble
from trawlnet.cli.common.flags import Folder, Json, Most, flag
from trawlnet.cli.common.output import emit, iso
from trawlnet.cli.common.sections import load_section
from trawlnet.cli.common.settings import suggestion
from trawlnet.cli.common.verb import READS, Verb
from trawlnet.cli.common.workspace import Workspace, find
from trawlnet.crawlers.pds.config import PdsConfig
from trawlnet.crawlers.pds.registry_place import (
    opened_registry,
    registry_place,
    state_folder,
)
from trawlnet.crawlers.pds.scanning.presence import release_dead
from trawlnet.net.clock import SystemClock
from trawlnet.observe.lanes import shown as harmless
from trawlnet.tables.registry.registry import Registry
from trawlnet.tables.registry.report import held_so_far
from trawlnet.tables.registry.rules import PdsRow, PdsSource, PdsStatus

E = TypeVar("E", bound=StrEnum)

_PAGE = 500  # Rows read at once.
_URL_CHARS = 60

OfStatus = Annotated[str | None, flag("--status S", "Only this status, like active.")]
OfSource = Annotated[str | None, flag("--source S", "Only this source, like did_mention.")]
Part = Annotated[str | None, flag("--contains TEXT", "Only URLs that contain this text.")]


def list_rows(
    *,
    workspace: Folder,
    status: OfStatus = None,
    source: OfSource = None,
    contains: Part = None,
    limit: Most = None,
    json: Json = False,
    flags: Mapping[str, Any],
) -> int:
    """List known PDSes, ordered by URL."""
    config = load_section(Workspace(workspace, "pds"), PdsConfig, flags).config
    if "://" not in config.registry:
        find(workspace, "pds", flags)
    chosen = {
        "status": _word(PdsStatus, status, "statuses"),
        "source": _word(PdsSource, source, "sources"),
        "contains": contains,
    }
    asyncio.run(_show(config, workspace, chosen, limit, json))
    return 0


def _word(words: type[E], text: str | None, what: str) -> E | None:
    if text is None:
        return None
    if text not in set(words):
        raise UsageTrouble(
            f"{text!r} is not one of the {what}", suggestion(text, list(words), what)
        )
    return words(text)


async def _show(
    config: PdsConfig, path: Path, chosen: Mapping[str, Any], limit: int | None, as_json: bool
) -> None:
    place = registry_place(config, path)
    if isinstance(place, Path) and not place.exists():
        return
    async with opened_registry(config, path) as registry:
        now = SystemClock().now()
        await release_dead(registry, state_folder(path), now)
        await registry.tidy(now)
        shown, so_far = 0, await held_so_far(registry.db)
        async for row in _rows(registry, chosen):
            if shown == limit:
                return
            shown += 1
            if (held := so_far.get(row.pds_url)) is not None:
                row = replace(
                    row, chive_record_count=held.records, indexed_record_count=held.indexed
                )
            emit(row_of(row)) if as_json else print(_line(row))


async def _rows(registry: Registry, chosen: Mapping[str, Any]) -> AsyncIterator[PdsRow]:
    after = ""
    while rows := await registry.listing(**chosen, after=after, limit=_PAGE):
        for row in rows:
            yield row
        after = rows[-1].pds_url


def row_of(row: PdsRow) -> dict[str, Any]:
    """The columns of the registry, as programs read them."""
    return {
        "pds_url": row.pds_url,
        "discovered_at": iso(row.discovered_at),
        "discovery_source": row.discovery_source,
        "status": row.status,
        "last_scan_at": iso(row.last_scan_at or 0.0),
        "next_scan_at": iso(row.next_scan_at or 0.0),
        "has_chive_records": row.has_chive_records,
        "chive_record_count": row.chive_record_count,
        "consecutive_failures": row.consecutive_failures,
        "scan_priority": row.scan_priority,
        "last_error": row.last_error,
        "updated_at": iso(row.updated_at),
        "is_relay_connected": row.is_relay_connected,
        "account_count": row.account_count,
        "indexed_record_count": row.indexed_record_count,
        "last_try_at": iso(row.last_try_at or 0.0),
        "last_reason": row.last_reason,
    }


def _line(row: PdsRow) -> str:
    words = f"{row.status:16}  {row.chive_record_count:>8,} records  {row.discovery_source:17}"
    error = f"  {harmless(row.last_error, 120)}" if row.last_error else ""
    return f"{words}  {harmless(row.pds_url, _URL_CHARS)}{error}"


LIST = Verb(
    list_rows, "pds list -w ./net --status active --json", READS, "pds", PdsConfig, ("registry",)
)
