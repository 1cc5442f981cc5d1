"""The registry and what scans have found, in figures; only read, so that scans go on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from trawlnet.tables.registry.registry import Registry
from trawlnet.tables.registry.rules import PdsRow
from trawlnet.tables.registry.stats import Stats
from trawlnet.tables.relational.database import Relational, named
from trawlnet.tables.relational.open import is_there, open_relational
from trawlnet.tables.scanned.records import union_statement

_LARGEST = 25
_COLLECTIONS = 500


@dataclass(frozen=True, slots=True)
class RegistryFigures:
    stats: Stats
    largest: Sequence[PdsRow]
    records: Mapping[str, int]  # Live ones by collection.


async def registry_figures(where: Path | str, now: float) -> RegistryFigures | None:
    """None where there is no registry."""
    if not is_there(where):
        return None
    db = await open_relational(where, readonly=True)
    try:
        registry = Registry(db)
        return RegistryFigures(
            await registry.stats(now), await registry.largest(_LARGEST), await held_records(db)
        )
    finally:
        await db.close()


async def account_counts(where: Path | str) -> Sequence[tuple[str, int | None]] | None:
    """Every PDS with its accounts, None if they were never counted; None without a registry."""
    if not is_there(where):
        return None
    db = await open_relational(where, readonly=True)
    try:
        rows = await db.rows(named("registry", "account_counts", db.dialect))
        return [(str(url), accounts) for url, accounts in rows]
    finally:
        await db.close()


async def held_records(db: Relational) -> Mapping[str, int]:
    """Live records by collection; none before the first scan, which makes the tables."""
    if not await _has_tables(db):
        return {}
    rows = await db.rows(union_statement("held_everywhere"), {"most": _COLLECTIONS})
    return {str(collection): int(records) for collection, records, _ in rows}


@dataclass(frozen=True, slots=True)
class SoFar:
    """Live records of a PDS whose first whole scan is under way, which its row does not count."""

    records: int = 0
    indexed: int = 0


async def held_so_far(db: Relational) -> Mapping[str, SoFar]:
    """By the URL of the PDS; those without records are left out."""
    if not await _has_tables(db):
        return {}
    rows = await db.rows(union_statement("held_so_far"))
    return {str(url): SoFar(int(records), int(indexed)) for url, records, indexed in rows}


async def _has_tables(db: Relational) -> bool:
    ((version,),) = await db.rows(named("versions", "current", db.dialect), {"folder": "scanned"})
    return bool(version)
