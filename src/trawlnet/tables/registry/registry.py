"""The registry of every PDS: who is known, whose turn it is, and how its scans went.

A claim is a lease: whoever holds it may finish the scan, and whoever has lost it can change
nothing. Each method is one transaction, so several processes may share a registry.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

from trawlnet.engine.outcome import Reason
from trawlnet.tables.registry.bans import Bans, literally
from trawlnet.tables.registry.browse import Browsed, BrowseQuery, browse
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
    ANY,
    HOUR,
    MEDIUM,
    EntryVerdict,
    FoundPds,
    PdsRow,
    PdsSource,
    PdsStatus,
    Registered,
    ScanEnded,
    Which,
    after_completed,
    after_failed,
    after_partial,
    after_put_off,
    is_revived,
    resting_status,
    revived,
    scan_order,
)
from trawlnet.tables.registry.stats import HourlyScans, Stats, stats_of
from trawlnet.tables.relational.database import (
    Relational,
    Statement,
    Transaction,
    Value,
    Values,
    from_db,
    migrate_relational,
    named,
    to_db,
)
from trawlnet.tables.relational.open import open_relational
from trawlnet.webpage.domain import registrable_domain
from trawlnet.webpage.origin import canonical_origin

__all__ = [
    "EntryVerdict",
    "FoundPds",
    "HourlyScans",
    "PdsRow",
    "PdsSource",
    "PdsStatus",
    "Registered",
    "Registry",
    "ScanEnded",
    "Stats",
    "Terms",
    "Which",
    "migrate_registry",
    "open_registry",
]

_STEPS = (
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
)
_TABLES = (
    *("pds_registry", "pds_scan_hours", "pds_notes", "pds_lookups", "pds_scope_scans"),
    "pds_bans",
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
    await migrate_relational(db, FOLDER, _STEPS)


class Registry:
    def __init__(self, db: Relational, terms: Terms = _DEFAULT) -> None:
        self.db = self._db = db  # Others keep tables beside ours.
        self.terms = terms
        self.notes = RegistryNotes(db)
        self.bans = Bans(db)

    async def register(
        self, url: str, source: PdsSource, *, accounts: int | None = None, now: float
    ) -> Registered:
        """Of one that somebody told us of: new, known, revived or refused."""
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

    async def claim(
        self, limit: int, now: float, lease: float, owner: str, which: Which = ANY
    ) -> list[PdsRow]:
        """The most urgent rows that are due, as theirs for `lease` seconds. An owner must claim
        under a name that nobody uses twice, or an old claim could finish a new one's scan."""
        values = self._lease(owner, now, lease) | self._which(which) | {"count": limit}
        if not which.begun:
            values["skip_begun"] = which.begun is False
        sql = self._sql("claim_begun" if which.begun else "claim")
        async with self._db.transaction() as transaction:
            urls = [url for (url,) in await transaction.rows(sql, values)]
            # Who was registered while the ban was written has a row all the same.
            names = await self.bans.names(transaction)
            for url in filter(lambda url: banned_by(url, names), urls):
                await self.bans.remove_row(transaction, url)
            rows = [await self._row(transaction, url) for url in urls]
        return sorted((row for row in rows if row is not None), key=lambda row: row.order)

    async def next_begun(self, now: float, which: Which) -> float | None:
        """When the first scan that was cut short, or that a server has put off, may go on."""
        values = self._which(which) | {"now": self._at(now)}
        ((due,),) = await self._db.rows(self._sql("next_begun"), values)
        return from_db(due)

    async def next_once(self, now: float, which: Which, soon: float) -> float | None:
        """When to look again for what is left, `soon` if others are at it or have just been; None
        when nothing is. What a server has put off may wait for ever, and does not count."""
        values = self._which(which) | {"now": self._at(now), "soon": self._at(soon)}
        ((due,),) = await self._db.rows(self._sql("next_once"), values)
        return from_db(due)

    async def claims(self, now: float) -> dict[str, int]:
        """How many rows each owner holds."""
        rows = await self._db.rows(self._sql("claims"), {"now": self._at(now)})
        return {str(owner): int(count) for owner, count in rows}

    async def claim_one(self, url: str, now: float, lease: float, owner: str) -> PdsRow | None:
        """One PDS, due or not; None when it is not known, or somebody has it or waits for it."""
        values = self._lease(owner, now, lease) | {"url": self._canonical(url)}
        async with self._db.transaction() as transaction:
            urls = await transaction.rows(self._sql("claim_one"), values)
            return await self._row(transaction, urls[0][0]) if urls else None

    async def want(self, url: str, now: float, seconds: float, owner: str) -> None:
        """Be the next to claim a PDS that somebody has; to be said again while one waits."""
        values = self._lease(owner, now, seconds) | {"url": self._canonical(url)}
        await self._db.run(self._sql("want"), values)

    async def renew(self, url: str, owner: str, now: float, lease: float) -> bool:
        """Whether the lease was still held, and so lasts longer now."""
        values = self._lease(owner, now, lease) | {"url": url}
        return await self._db.run(self._sql("renew"), values) > 0

    async def release(self, url: str, owner: str, now: float, *, begun: bool = False) -> bool:
        """Give a row back as if it had never been claimed; where it may have been asked something
        meanwhile, that is written down, for the next one to keep its distance."""
        async with self._db.transaction() as transaction:
            row = await self._row(transaction, url)
            if row is None:
                return False
            values: dict[str, Value] = {"url": url, "owner": owner, "now": self._at(now)}
            values["status"] = str(resting_status(row))
            values["last_try_at"] = self._at(now if begun else row.last_try_at)
            return await transaction.run(self._sql("release"), values) > 0

    async def release_all(self, name: str, now: float) -> int:
        """Give back what a dead process has claimed, under any name that begins so."""
        rows = await self._db.rows(self._sql("claimed_by"), {"name": name})
        return sum([await self.release(url, owner, now, begun=True) for url, owner in rows])

    async def remove(self, url: str) -> str | None:
        """Forget one PDS, by any spelling of its URL; a scan under way writes nothing more. Returns
        its one spelling; None if it was not known."""
        canonical = self._canonical(url)
        async with self._db.transaction() as transaction:
            known = await self.bans.remove_row(transaction, canonical)
        return canonical if known else None

    async def tidy(self, now: float) -> int:
        """Rows whose claim has run out are as they were before. Returns how many."""
        return await self._db.run(self._sql("tidy"), {"now": self._at(now)})

    async def completed(self, url: str, owner: str, ended: ScanEnded, *, now: float) -> bool:
        """A complete, clean walk. False: the lease was lost."""
        change = partial(after_completed, ended=ended, now=now)
        return await self._finish(url, owner, "completed", change, now, ended.scope)

    async def partial(
        self, url: str, owner: str, *, now: float, again_in: float, error: str = ""
    ) -> bool:
        """A cap or a deadline ended the scan: it goes on from its saved cursor."""
        change = partial(after_partial, again_in=again_in, now=now, error=error)
        return await self._finish(url, owner, "partial", change, now)

    async def put_off(
        self, url: str, owner: str, reason: Reason, *, now: float, again_in: float
    ) -> bool:
        """The PDS asked us to wait, or the trouble is ours: no failure is counted."""
        change = partial(after_put_off, reason=reason, again_in=again_in, now=now)
        return await self._finish(url, owner, "put_off", change, now)

    async def failed(
        self,
        url: str,
        owner: str,
        error: str,
        reason: Reason,
        now: float,
        again_in: float | None = None,
    ) -> bool:
        """Backs off 1, 2, 4, 8, 16 hours, and at least `again_in` seconds; unreachable at the
        fifth failure in a row."""
        change = partial(after_failed, error=error, reason=reason, now=now, again_in=again_in)
        return await self._finish(url, owner, "failed", change, now)

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

    async def browse(self, wish: BrowseQuery) -> Browsed:
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

    async def _finish(
        self,
        url: str,
        owner: str,
        result: str,
        change: Callable[[PdsRow], PdsRow],
        now: float,
        scope: str = "",
    ) -> bool:
        async with self._db.transaction() as transaction:
            row = await self._row(transaction, url)
            if row is None or row.lease_owner != owner:
                return False
            after = change(row)
            values = columns_of(self._db.dialect, after) | {"owner": owner}
            if not await transaction.run(self._sql("finish"), values):
                return False
            if scope:
                due = {"next_scan_at": self._at(after.next_scan_at)}
                mine = {"url": url, "scope": scope}
                await transaction.run(self._sql("save_scope_scan"), mine | due)
            hour = {"scan_hour": self._at(now // HOUR * HOUR)}
            counted = {"result": result, "reason": str(after.last_reason)}
            await transaction.run(self._sql("count_scan"), hour | counted)
        return True

    async def _row(self, transaction: Transaction, url: str) -> PdsRow | None:
        rows = await transaction.rows(self._sql("get"), {"url": url})
        return row_of(rows[0]) if rows else None

    async def _listed(self, name: str, values: Values, limit: int) -> list[PdsRow]:
        rows = await self._db.rows(self._sql(name), {**values, "count": limit})
        return [row_of(row) for row in rows]

    def _which(self, which: Which) -> dict[str, Value]:
        return {"skip_connected": which.skip_connected, "scope": which.scope}

    def _lease(self, owner: str, now: float, lease: float) -> dict[str, Value]:
        return {"owner": owner, "now": self._at(now), "until": self._at(now + lease)}

    def _canonical(self, url: str) -> str:
        return canonical_origin(url, allow_private=self.terms.allow_private).url

    def _at(self, instant: float | None) -> Value:
        return to_db(self._db.dialect, instant)

    def _sql(self, name: str) -> Statement:
        return named(FOLDER, name, self._db.dialect)
