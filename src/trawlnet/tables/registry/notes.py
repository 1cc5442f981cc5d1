"""What discovery remembers from one run to the next, beside the registry's rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from trawlnet.tables.relational.database import Relational, Statement, from_db, named, to_db

FOLDER = "registry"


@dataclass(frozen=True, slots=True)
class DidLookup:
    """Where a DID lives, as its document said."""

    did: str
    pds: str  # Canonical origin; empty when there is none that can be used.
    reason: str  # Why there is none.
    asked_at: float  # Unix seconds.


class RegistryNotes:
    def __init__(self, db: Relational) -> None:
        self._db = db

    async def get(self, name: str) -> str | None:
        rows = await self._db.rows(self._sql("note"), {"name": name})
        return str(rows[0][0]) if rows else None

    async def put(self, name: str, note: str) -> None:
        await self._db.run(self._sql("save_note"), {"name": name, "note": note})

    async def swap(self, name: str, old: str | None, note: str) -> bool:
        """Put it in the place of the old one, or of none; False if somebody else was faster."""
        if old is None:
            values = {"name": name, "note": note}
            return await self._db.run(self._sql("first_note"), values) > 0
        values = {"name": name, "note": note, "old": old}
        return await self._db.run(self._sql("swap_note"), values) > 0

    async def lookups(self, dids: Sequence[str]) -> dict[str, DidLookup]:
        """Of those that were looked up before."""
        found: dict[str, DidLookup] = {}
        async with self._db.transaction() as transaction:
            for did in dids:
                for pds, reason, at in await transaction.rows(self._sql("lookup"), {"did": did}):
                    found[did] = DidLookup(did, pds, reason, from_db(at) or 0.0)
        return found

    async def save_lookups(self, lookups: Sequence[DidLookup]) -> None:
        # In one order for everybody: two processes that save the same DIDs wait in turn.
        rows = [
            {
                "did": one.did,
                "url": one.pds,
                "reason": one.reason,
                "asked_at": to_db(self._db.dialect, one.asked_at),
            }
            for one in sorted(lookups, key=lambda one: one.did)
        ]
        async with self._db.transaction() as transaction:
            await transaction.run_many(self._sql("save_lookup"), rows)

    def _sql(self, name: str) -> Statement:
        return named(FOLDER, name, self._db.dialect)
