"""The records that scans found, and how far each scan has come: both in one transaction."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

import orjson

from trawlnet.tables.relational import (
    Relational,
    Statement,
    Transaction,
    Value,
    Values,
    migrate_relational,
    named,
    to_db,
)
from trawlnet.tables.scanned_rows import (
    Held,
    Listed,
    ListedRepo,
    Progress,
    Reading,
    Record,
    Table,
    end_values,
    progress_of,
    progress_values,
    reading_of,
    reading_values,
    record_values,
)

_FOLDER = "scanned"
_EVERY_READING = (1 << 63) - 1  # Above any: withdraws whatever there is.
_STEPS = (
    (
        *(f"create_{table}" for table in Table),
        *(f"index_{table}" for table in Table),
        *("create_scan_progress", "create_scan_repos", "index_scan_repos", "create_scan_leads"),
    ),
)


class Scanned:
    def __init__(self, db: Relational) -> None:
        self._db = db

    async def migrate(self) -> None:
        await migrate_relational(self._db, _FOLDER, _STEPS)

    async def forget(self) -> None:
        """Everything."""
        async with self._db.transaction() as transaction:
            for table in (*Table, "scan_progress", "scan_repos", "scan_leads"):
                await transaction.run(self._sql(f"forget_{table}"))

    async def progress(self, pds_url: str) -> Progress:
        rows = await self._db.rows(self._sql("progress"), {"pds_url": pds_url})
        return progress_of(rows[0]) if rows else Progress()

    async def save(
        self, pds_url: str, progress: Progress, done: Sequence[Reading], now: float
    ) -> None:
        """How far the walk has come, and the repos that had nothing for us."""
        async with self._db.transaction() as transaction:
            await self._save(transaction, pds_url, progress, done, now)

    async def settle(self, pds_url: str, done: Sequence[Reading]) -> None:
        """Repos that had nothing for us, or could not be read, outside a walk."""
        async with self._db.transaction() as transaction:
            ends = [end_values(pds_url, reading) for reading in done]
            await transaction.run_many(self._sql("end_reading"), ends)

    async def list_page(
        self,
        pds_url: str,
        repos: Sequence[ListedRepo],
        progress: Progress,
        done: Sequence[Reading],
        now: float,
    ) -> Listed:
        """A page of the listing with the cursor behind it; `repos` has none twice. When that was
        the last page and nothing is to be read, the walk is over, in the same commit."""
        listed = [
            {
                "did": repo.did,
                "rev": repo.rev,
                "active": int(repo.is_active),
                "pending": int(repo.is_readable),
            }
            for repo in repos
        ]
        values: Values = {
            "pds_url": pds_url,
            "walk": progress.walk,
            "afresh": int(progress.is_full),
            "listed": orjson.dumps(listed).decode(),
        }
        async with self._db.transaction() as transaction:
            ends = [end_values(pds_url, reading) for reading in done]
            await transaction.run_many(self._sql("end_reading"), ends)
            new = await transaction.run(self._sql("list_page"), values) if listed else 0
            where: Values = {"pds_url": pds_url}
            ((pending,),) = await transaction.rows(self._sql("count_pending"), where)
            if progress.is_listed and not pending:
                progress = replace(progress, is_open=False)
                await self._end_walk(transaction, pds_url, progress, (), now)
            else:
                await self._save(transaction, pds_url, progress, (), now)
        return Listed(new, int(pending), progress)

    async def pending(self, pds_url: str, most: int) -> list[Reading]:
        rows = await self._db.rows(self._sql("pending"), {"pds_url": pds_url, "most": most})
        return [reading_of(row) for row in rows]

    async def last_reading(self, pds_url: str, did: str) -> tuple[Reading, str] | None:
        """The last reading of a repo and the rev that was read; None for one never met."""
        rows = await self._db.rows(self._sql("repo"), {"pds_url": pds_url, "did": did})
        return (reading_of(rows[0]), rows[0][8]) if rows else None

    async def leads(self, pds_url: str, did: str) -> tuple[str, ...]:
        rows = await self._db.rows(self._sql("leads"), {"pds_url": pds_url, "did": did})
        return tuple(row[0] for row in rows)

    async def begin_leads(self, pds_url: str, progress: Progress, now: float) -> None:
        async with self._db.transaction() as transaction:
            await transaction.run(self._sql("drop_leads"), {"pds_url": pds_url})
            await self._save(transaction, pds_url, progress, (), now)

    async def add_leads(
        self, pds_url: str, collection: str, dids: Sequence[str], progress: Progress, now: float
    ) -> None:
        async with self._db.transaction() as transaction:
            await transaction.run_many(
                self._sql("put_lead"),
                [{"pds_url": pds_url, "did": did, "collection": collection} for did in dids],
            )
            await self._save(transaction, pds_url, progress, (), now)

    async def was_seen(self, pds_url: str, uri: str, reading: Reading) -> bool:
        """Whether this reading has met a record before."""
        rows = await self._db.rows(self._sql("seen"), {"uri": uri, "pds_url": pds_url})
        return any(scan >= reading.number for (scan,) in rows)

    async def put_records(
        self, pds_url: str, records: Sequence[Record], reading: Reading, now: float
    ) -> None:
        """A page of records, and where the reading goes on."""
        async with self._db.transaction() as transaction:
            await self._put(transaction, pds_url, records, reading, now)

    async def end_reading(
        self, pds_url: str, records: Sequence[Record], reading: Reading, now: float
    ) -> None:
        """The last page of a repo: what this reading did not meet is no longer there."""
        async with self._db.transaction() as transaction:
            if not await self._put(transaction, pds_url, records, reading, now):
                return
            await self._withdraw(transaction, pds_url, reading.did, reading.number, now)
            await transaction.run(self._sql("end_reading"), end_values(pds_url, reading))

    async def end_walk(
        self, pds_url: str, progress: Progress, done: Sequence[Reading], now: float
    ) -> None:
        """The listing was met whole: repos that were not in it are gone, with their records."""
        async with self._db.transaction() as transaction:
            await self._end_walk(transaction, pds_url, progress, done, now)

    async def troubles(self, pds_url: str, walk: int) -> Mapping[str, int]:
        """Repos of a walk by what was wrong with them, the empty string for nothing."""
        values: Values = {"pds_url": pds_url, "walk": walk}
        return dict(await self._db.rows(self._sql("troubles"), values))

    async def left(self, pds_url: str) -> int:
        """Repos that are listed and still to be read."""
        ((count,),) = await self._db.rows(self._sql("count_pending"), {"pds_url": pds_url})
        return int(count)

    async def held(self, pds_url: str) -> Held:
        rows = await self._db.rows(self._sql("held"), {"pds_url": pds_url})
        return Held({row[0]: int(row[1]) for row in rows}, sum(int(row[2]) for row in rows))

    async def _end_walk(
        self,
        transaction: Transaction,
        pds_url: str,
        progress: Progress,
        done: Sequence[Reading],
        now: float,
    ) -> None:
        where: Values = {"pds_url": pds_url, "walk": progress.walk}
        await self._save(transaction, pds_url, progress, done, now)
        for (did,) in await transaction.rows(self._sql("vanished"), where):
            await transaction.run(self._sql("let_go"), {"pds_url": pds_url, "did": did})
            await self._withdraw(transaction, pds_url, did, _EVERY_READING, now)
        await transaction.run(self._sql("forget_vanished"), where)
        await transaction.run(self._sql("drop_leads"), {"pds_url": pds_url})

    async def _save(
        self,
        transaction: Transaction,
        pds_url: str,
        progress: Progress,
        done: Sequence[Reading],
        now: float,
    ) -> None:
        values = progress_values(pds_url, progress) | {"updated_at": self._instant(now)}
        await transaction.run(self._sql("put_progress"), values)
        ends = [end_values(pds_url, reading) for reading in done]
        await transaction.run_many(self._sql("end_reading"), ends)

    async def _put(
        self,
        transaction: Transaction,
        pds_url: str,
        records: Sequence[Record],
        reading: Reading,
        now: float,
    ) -> bool:
        """False for a reading that was overtaken, of which nothing is written. The repo comes
        before its records, so that two who read one repo wait for each other there."""
        values = reading_values(pds_url, reading)
        if not await transaction.run(self._sql("put_reading"), values):
            return False
        by_table: dict[Table, list[Values]] = defaultdict(list)
        for record in records:
            row = record_values(pds_url, record, reading)
            row["indexed_at"] = self._instant(now) if record.is_indexed else None
            by_table[record.table].append(row)
        for table, rows in by_table.items():
            await transaction.run_many(self._sql(f"put_{table}"), rows)
        return True

    async def _withdraw(
        self, transaction: Transaction, pds_url: str, did: str, below: int, now: float
    ) -> None:
        values: Values = {
            "pds_url": pds_url,
            "did": did,
            "scan": below,
            "now": self._instant(now),
        }
        for table in Table:
            await transaction.run(self._sql(f"withdraw_{table}"), values)

    def _instant(self, now: float) -> Value:
        return to_db(self._db.dialect, now)

    def _sql(self, name: str) -> Statement:
        return named(_FOLDER, name, self._db.dialect)
