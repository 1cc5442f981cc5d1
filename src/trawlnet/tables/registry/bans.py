"""Who is left alone: hosts, and domains with all below them, that are neither entered nor asked."""

from __future__ import annotations

from trawlnet.tables.registry.entry import banned_by
from trawlnet.tables.registry.notes import FOLDER
from trawlnet.tables.registry.rules import Ban
from trawlnet.tables.relational.database import (
    Relational,
    Statement,
    Transaction,
    from_db,
    named,
    to_db,
)


class Bans:
    def __init__(self, db: Relational) -> None:
        self._db = db

    async def add(self, name: str, reason: str, now: float) -> list[str]:
        """Rows of the host, or below the domain, are removed, and no more are entered. Returns the
        URLs of those that were."""
        values = {"name": name, "reason": reason, "now": to_db(self._db.dialect, now)}
        async with self._db.transaction() as transaction:
            await transaction.run(self._sql("ban"), values)
            pattern = {"pattern": f"%{literally(name)}%"}
            rows = await transaction.rows(self._sql("named_like"), pattern)
            urls = sorted(url for (url,) in rows if banned_by(url, (name,)))
            for url in urls:
                await self.remove_row(transaction, url)
        return urls

    async def lift(self, name: str) -> bool:
        """False if it was not banned."""
        return await self._db.run(self._sql("unban"), {"name": name}) > 0

    async def all(self) -> list[Ban]:
        rows = await self._db.rows(self._sql("bans"))
        return [Ban(name, reason, from_db(at) or 0.0) for name, reason, at in rows]

    async def names(self, transaction: Transaction) -> frozenset[str]:
        return frozenset(row[0] for row in await transaction.rows(self._sql("bans")))

    async def remove_row(self, transaction: Transaction, url: str) -> bool:
        for name in ("drop_scope_scans", "drop_looks", "drop_rescan"):
            await transaction.run(self._sql(name), {"url": url})
        return await transaction.run(self._sql("remove"), {"url": url}) > 0

    def _sql(self, name: str) -> Statement:
        return named(FOLDER, name, self._db.dialect)


def literally(text: str) -> str:
    """Text that a LIKE pattern takes at its word."""
    for special in "!%_":
        text = text.replace(special, f"!{special}")
    return text
