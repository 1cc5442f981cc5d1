"""The registry of every PDS: who is known, how each may enter, and how they are listed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

from trawlnet.engine.outcome import Reason
from trawlnet.tables.registry.bans import literally
from trawlnet.tables.registry.browse import BrowsePage, BrowseQuery, browse
from trawlnet.tables.registry.claims import RegistryClaims
from trawlnet.tables.registry.entry import (
    BANNED,
    OVER_BUDGET,
    Terms,
    admitted,
    banned_by,
    countable,
)
from trawlnet.tables.registry.notes import FOLDER, RegistryNotes
from trawlnet.tables.registry.rows import columns_of, row_of
from trawlnet.tables.registry.rules import (
    HOUR,
    MEDIUM,
    EntryVerdict,
    FoundPds,
    PdsRow,
    PdsSource,
    PdsStatus,
    Registered,
    is_revived,
    revived,
    scan_order,
)
from trawlnet.tables.registry.stats import Stats, stats_of
from trawlnet.tables.relational.database import (
    Relational,
    Transaction,
    Value,
    Values,
    migrate_relational,
)
from trawlnet.tables.relational.open import open_relational
from trawlnet.webpage.domain import registrable_domain

STEPS = (
    (
        "create_pds_registry",
        "index_scan_order",
        "index_domains",
        "create_pds_entries",
        "create_pds_scan_hours",
        "create_pds_notes",
        "create_pds_lookups",
    ),
    ("create_pds_scope_scans", "create_pds_bans", "add_wanted_by", "add_wanted_until"),
    ("create_pds_streams", "create_pds_looks", "create_pds_rescans"),
)
_TABLES = (
    *("pds_registry", "pds_scan_hours", "pds_notes", "pds_lookups", "pds_scope_scans"),
    *("pds_bans", "pds_streams", "pds_looks", "pds_rescans"),
)
_AT_ONCE = 500  # Registrations in one transaction, which others wait for.
_HISTORY = 48 * HOUR  # Of scans that `stats` tells.


_DEFAULT = Terms()


async def open_registry(where: Path | str, terms: Terms = _DEFAULT) -> Registry:
    """A path opens SQLite, `postgresql://…` that server. Raises TablesError."""
    db = await open_relational(where)
    try:
        await migrate_registry(db)
    except BaseException:
        await db.close()
        raise
    return Registry(db, terms)


async def migrate_registry(db: Relational) -> None:
    await migrate_relational(db, FOLDER, STEPS)


class Registry(RegistryClaims):
    def __init__(self, db: Relational, terms: Terms = _DEFAULT) -> None:
        super().__init__(db, terms)
        self.notes = RegistryNotes(db)

    async def register(
        self, url: str, source: PdsSource, *, accounts: int | None = None, now: float
    ) -> Registered:
        """Enter a PDS: it is new, known, revived or refused."""
        (registered,) = await self.register_many([FoundPds(url, source, accounts)], now)
        return registered

    async def register_many(self, founds: Sequence[FoundPds], now: float) -> list[Registered]:
        """One verdict for each, in their order; of repeats the first counts."""
        verdicts = [admitted(found, self.terms) for found in founds]
        # In the order of URLs: two processes that wait for each other's rows must do so in turn.
        order = sorted(range(len(founds)), key=lambda number: verdicts[number].url)
        todo = [number for number in order if verdicts[number].verdict is not EntryVerdict.REFUSED]
        for start in range(0, len(todo), _AT_ONCE):
            async with self._db.transaction() as transaction:
                names = await self.bans.names(transaction)
                for number in todo[start : start + _AT_ONCE]:
                    url = verdicts[number].url
                    if banned_by(url, names):
                        verdicts[number] = Registered(EntryVerdict.REFUSED, url, BANNED)
                        continue
                    verdicts[number] = await self._enter(transaction, url, founds[number], now)
        return verdicts

    async def remove(self, url: str) -> str | None:
        """Forget one PDS, by any spelling of its URL; a scan under way writes nothing more. Returns
        its one spelling; None if it was not known."""
        canonical = self._canonical(url)
        async with self._db.transaction() as transaction:
            known = await self.bans.remove_row(transaction, canonical)
        return canonical if known else None

    async def get(self, url: str) -> PdsRow | None:
        """By any spelling of its URL."""
        rows = await self._db.rows(self._sql("get"), {"url": self._canonical(url)})
        return row_of(rows[0]) if rows else None

    async def unknown(self, url: str) -> str:
        """The one spelling of a PDS that would be entered, or revived, if it were registered by a
        user; empty if nothing would come of it."""
        spelt = admitted(FoundPds(url, PdsSource.USER), self.terms)
        if spelt.verdict is EntryVerdict.REFUSED:
            return ""
        async with self._db.transaction() as transaction:
            row = await self._row(transaction, spelt.url)
            banned = banned_by(spelt.url, await self.bans.names(transaction))
        is_awake = row is not None and row.status not in (
            PdsStatus.UNREACHABLE,
            PdsStatus.NO_CHIVE_RECORDS,
        )
        return "" if banned or is_awake else spelt.url

    async def listing(
        self,
        *,
        status: PdsStatus | None = None,
        source: PdsSource | None = None,
        contains: str | None = None,
        after: str | None = None,
        limit: int = 100,
    ) -> list[PdsRow]:
        """In the order of URLs, beyond the URL `after`."""
        values = {"status": status or "", "source": source or "", "after": after or ""}
        values["pattern"] = f"%{literally(contains.lower())}%" if contains else ""
        return await self._listed("listing", values, limit)

    async def browse(self, wish: BrowseQuery) -> BrowsePage:
        """One page of the rows that fit, and how many there are."""
        return await browse(self._db, wish)

    async def largest(self, limit: int = 10) -> list[PdsRow]:
        """By records, then by accounts."""
        return await self._listed("largest", {}, limit)

    async def failures(
        self, reason: Reason | None = None, after: str = "", limit: int = 100
    ) -> list[PdsRow]:
        """Rows whose last tries failed, in the order of URLs."""
        return await self._listed("failures", {"reason": reason or "", "after": after}, limit)

    async def retry(self, reason: Reason | None, now: float) -> int:
        """Make failed rows due now, as if they had never failed. Returns how many."""
        values: dict[str, Value] = {"reason": reason or "", "priority": MEDIUM}
        values |= {"now": self._at(now), "scan_order": self._at(scan_order(now, MEDIUM))}
        return await self._db.run(self._sql("retry"), values)

    async def stats(self, now: float) -> Stats:
        hours = {"since": self._at(now - _HISTORY)}
        async with self._db.transaction() as transaction:
            return stats_of(
                await transaction.rows(self._sql("stats_rows"), {"now": self._at(now)}),
                await transaction.rows(self._sql("stats_failures")),
                await transaction.rows(self._sql("stats_attempts")),
                await transaction.rows(self._sql("stats_hours"), hours),
            )

    async def forget(self) -> None:
        """Everything."""
        async with self._db.transaction() as transaction:
            for table in _TABLES:
                await transaction.run(self._sql(f"forget_{table}"))

    async def close(self) -> None:
        await self._db.close()

    async def _enter(
        self, transaction: Transaction, url: str, found: FoundPds, now: float
    ) -> Registered:
        row = await self._row(transaction, url)
        if row is None:
            return await self._insert(transaction, url, found, now)
        if found.accounts is not None or found.connected is not None:
            said = {"accounts": countable(found.accounts), "connected": found.connected}
            values = said | {"url": url, "now": self._at(now)}
            await transaction.run(self._sql("note_relay"), values)
        if not is_revived(row, found, now):
            return Registered(EntryVerdict.KNOWN, url)
        values = columns_of(self._db.dialect, revived(row, found, now)) | {"now": self._at(now)}
        changed = await transaction.run(self._sql("revive"), values)
        if changed:
            await transaction.run(self._sql("drop_scope_scans"), {"url": url})
        return Registered(EntryVerdict.REVIVED if changed else EntryVerdict.KNOWN, url)

    async def _insert(
        self, transaction: Transaction, url: str, found: FoundPds, now: float
    ) -> Registered:
        domain = registrable_domain(urlsplit(url).hostname or "")
        # Two processes may each let one more in than the budget says; that does no harm.
        if domain and not self.terms.allow_private:
            ((unproven,),) = await transaction.rows(self._sql("unproven"), {"domain": domain})
            if unproven >= self.terms.domain_budget:
                return Registered(EntryVerdict.REFUSED, url, OVER_BUDGET)
        values: dict[str, Value] = {"url": url, "source": str(found.source), "domain": domain}
        values |= {"accounts": countable(found.accounts), "connected": bool(found.connected)}
        values |= {"priority": MEDIUM, "scan_order": self._at(scan_order(now, MEDIUM))}
        values["now"] = self._at(now)
        added = await transaction.run(self._sql("insert"), values)
        return Registered(EntryVerdict.NEW if added else EntryVerdict.KNOWN, url)

    async def _listed(self, name: str, values: Values, limit: int) -> list[PdsRow]:
        rows = await self._db.rows(self._sql(name), {**values, "count": limit})
        return [row_of(row) for row in rows]
