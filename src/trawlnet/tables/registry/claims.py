"""Claims on rows of the registry: whose turn it is, who has it, and how the scan went.

A claim is a lease: its holder may finish the scan, and a process that has lost it can change
nothing. Each method is one transaction, so several processes may share a registry.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from trawlnet.engine.outcome import Reason
from trawlnet.tables.registry.bans import Bans
from trawlnet.tables.registry.entry import Terms, banned_by
from trawlnet.tables.registry.notes import FOLDER
from trawlnet.tables.registry.rows import columns_of, row_of
from trawlnet.tables.registry.rules import (
    ANY,
    HOUR,
    PdsRow,
    ScanEnded,
    Which,
    after_completed,
    after_failed,
    after_partial,
    after_put_off,
    resting_status,
)
from trawlnet.tables.relational.database import (
    Relational,
    Statement,
    Transaction,
    Value,
    from_db,
    named,
    to_db,
)
from trawlnet.webpage.origin import canonical_origin


class RegistryClaims:
    """The part of the registry that a scan works with."""

    def __init__(self, db: Relational, terms: Terms) -> None:
        self.db = self._db = db  # Others keep tables beside ours.
        self.terms = terms
        self.bans = Bans(db)

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
