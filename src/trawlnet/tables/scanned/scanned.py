"""The records that scans found, and how far each scan has come: both in one transaction."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

import orjson

from trawlnet.tables.errors import LeaseLost
from trawlnet.tables.relational.database import (
    Relational,
    Statement,
    Steps,
    Transaction,
    Value,
    Values,
    migrate_relational,
    named,
    to_db,
)
from trawlnet.tables.scanned.records import record_statement, union_statement
from trawlnet.tables.scanned.rows import (
    Held,
    LastReading,
    ListedRepo,
    RepoReading,
    ScanKey,
    ScannedRecord,
    ScanScope,
    StoredListing,
    Table,
    WalkProgress,
    end_values,
    progress_of,
    progress_values,
    reading_of,
    reading_values,
    record_values,
)

_FOLDER = "scanned"
_OTHERS = ("scan_progress", "scan_repos", "scan_leads", "scan_mentions")
_EVERY_READING = (1 << 63) - 1  # Above any: withdraws whatever there is.
STEPS: Steps = (
    (
        *(record_statement("create", table) for table in Table),
        *(record_statement("index", table) for table in Table),
        *("create_scan_progress", "create_scan_repos", "index_scan_repos", "create_scan_leads"),
    ),
    (
        *("set_aside_scan_progress", "set_aside_scan_repos", "drop_scan_repos_pending"),
        *("drop_scan_leads", "create_scoped_progress", "create_scoped_repos"),
        *("create_scoped_leads", "index_scoped_repos", "index_scan_repos_by_did"),
        *("move_scan_progress", "move_scan_repos"),
        *("drop_old_scan_progress", "drop_old_scan_repos"),
    ),
    ("create_scan_mentions", "index_scan_mentions"),
    ("rename_todo_pages", "count_todo_rows"),
)


class Scanned:
    """Beside the registry: a write is made only while its scan holds the claim on the PDS."""

    def __init__(self, db: Relational) -> None:
        self._db = db

    async def migrate(self) -> None:
        await migrate_relational(self._db, _FOLDER, STEPS)

    async def forget(self) -> None:
        """Everything."""
        async with self._db.transaction() as transaction:
            for table in Table:
                await transaction.run(record_statement("forget", table))
            for other in _OTHERS:
                await transaction.run(self._sql(f"forget_{other}"))

    async def remove(self, pds_url: str, now: float, *, erase: bool) -> None:
        """All that is known of a PDS that is no longer in the registry. Its records are withdrawn,
        or erased."""
        where: Values = {"pds_url": pds_url}
        everything = ScanKey(pds_url, ScanScope("", lambda collection: True), "")
        async with self._db.transaction() as transaction:
            for (did,) in await transaction.rows(self._sql("held_repos"), where):
                whole = RepoReading(did, "", _EVERY_READING)
                await self._withdraw(transaction, everything, whole, now)
            for table in Table if erase else ():
                await transaction.run(record_statement("erase", table), where)
            for name in ("progress", "repos", "leads"):
                await transaction.run(self._sql(f"remove_{name}"), where)

    async def progress(self, key: ScanKey) -> WalkProgress:
        rows = await self._db.rows(self._sql("progress"), key.values)
        return progress_of(rows[0]) if rows else WalkProgress()

    async def save(
        self, key: ScanKey, progress: WalkProgress, done: Sequence[RepoReading], now: float
    ) -> None:
        """How far the walk has come, and the repos that had nothing for us."""
        async with self._fenced(key) as transaction:
            await self._save(transaction, key, progress, done, now)

    async def settle(self, key: ScanKey, done: Sequence[RepoReading]) -> None:
        """Repos that had nothing for us, or could not be read, outside a walk."""
        async with self._fenced(key) as transaction:
            await self._end_readings(transaction, key, done)

    async def list_page(
        self,
        key: ScanKey,
        repos: Sequence[ListedRepo],
        progress: WalkProgress,
        done: Sequence[RepoReading],
        now: float,
    ) -> StoredListing:
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
        values: Values = key.values | {
            "walk": progress.walk,
            "afresh": int(progress.is_full),
            "listed": orjson.dumps(listed).decode(),
        }
        async with self._fenced(key) as transaction:
            await self._end_readings(transaction, key, done)
            new = await transaction.run(self._sql("list_page"), values) if listed else 0
            ((pending,),) = await transaction.rows(self._sql("count_pending"), key.values)
            if progress.is_listed and not pending:
                progress = replace(progress, is_open=False)
                progress = await self._end_walk(transaction, key, progress, (), now)
            else:
                await self._save(transaction, key, progress, (), now)
        return StoredListing(new, int(pending), progress)

    async def pending(self, key: ScanKey, most: int) -> list[RepoReading]:
        rows = await self._db.rows(self._sql("pending"), key.values | {"most": most})
        return [reading_of(row) for row in rows]

    async def last_reading(self, key: ScanKey, did: str) -> LastReading:
        ((rev, number, is_held),) = await self._db.rows(
            self._sql("repo"), key.values | {"did": did}
        )
        return LastReading(number or 0, rev or "", bool(is_held))

    async def leads(self, key: ScanKey, did: str) -> tuple[str, ...]:
        rows = await self._db.rows(self._sql("leads"), key.values | {"did": did})
        return tuple(row[0] for row in rows)

    async def begin_leads(self, key: ScanKey, progress: WalkProgress, now: float) -> None:
        async with self._fenced(key) as transaction:
            await transaction.run_many(self._sql("drop_leads"), [key.values])
            await self._save(transaction, key, progress, (), now)

    async def add_leads(
        self, key: ScanKey, collection: str, dids: Sequence[str], progress: WalkProgress, now: float
    ) -> None:
        async with self._fenced(key) as transaction:
            await transaction.run_many(
                self._sql("put_lead"),
                [key.values | {"did": did, "collection": collection} for did in dids],
            )
            await self._save(transaction, key, progress, (), now)

    async def was_seen(self, key: ScanKey, uri: str, reading: RepoReading) -> bool:
        """Whether this reading has met a record before."""
        values: Values = {"uri": uri, "pds_url": key.pds_url}
        rows = await self._db.rows(union_statement("seen"), values)
        return any(scan == reading.number for (scan,) in rows)

    async def put_records(
        self, key: ScanKey, records: Sequence[ScannedRecord], reading: RepoReading, now: float
    ) -> None:
        """A page of records, and where the reading goes on."""
        async with self._fenced(key) as transaction:
            await self._put(transaction, key, records, reading, now)

    async def end_reading(
        self, key: ScanKey, records: Sequence[ScannedRecord], reading: RepoReading, now: float
    ) -> None:
        """The last page of a repo: what this reading looked for and did not meet is gone."""
        async with self._fenced(key) as transaction:
            if not await self._put(transaction, key, records, reading, now):
                return
            if not reading.is_flawed:
                await self._withdraw(transaction, key, reading, now)
            await self._end_readings(transaction, key, [reading])

    async def end_walk(
        self, key: ScanKey, progress: WalkProgress, done: Sequence[RepoReading], now: float
    ) -> WalkProgress:
        """The listing was met whole: repos that were not in it are gone, with their records. If
        its end was assumed and repos are missing, the walk goes on behind it."""
        async with self._fenced(key) as transaction:
            return await self._end_walk(transaction, key, progress, done, now)

    async def troubles(self, key: ScanKey, walk: int) -> Mapping[str, int]:
        """Repos of a walk by what was wrong with them, the empty string for nothing."""
        return dict(await self._db.rows(self._sql("troubles"), key.values | {"walk": walk}))

    async def left(self, key: ScanKey) -> int:
        """Repos that are listed and still to be read."""
        ((count,),) = await self._db.rows(self._sql("count_pending"), key.values)
        return int(count)

    async def held(self, pds_url: str) -> Held:
        rows = await self._db.rows(union_statement("held"), {"pds_url": pds_url})
        return Held({row[0]: int(row[1]) for row in rows}, {row[0]: int(row[2]) for row in rows})

    async def mentions(self, after: str, since: float, most: int) -> list[str]:
        """Accounts that records name and that were not looked up since, in their order."""
        values: Values = {"after": after, "since": self._instant(since), "most": most}
        return [row[0] for row in await self._db.rows(self._sql("mentions"), values)]

    async def note_asked(self, dids: Sequence[str], now: float) -> None:
        at = self._instant(now)
        async with self._db.transaction() as transaction:
            asked = [{"did": did, "now": at} for did in sorted(dids)]
            await transaction.run_many(self._sql("ask_mention"), asked)

    @asynccontextmanager
    async def _fenced(self, key: ScanKey) -> AsyncIterator[Transaction]:
        """Raises LeaseLost when the claim is another's by now: a process that slept, or was cut
        off, must not undo what its successor has written."""
        values: Values = {"pds_url": key.pds_url, "lease": key.lease}
        async with self._db.transaction() as transaction:
            if not await transaction.rows(self._sql("fence"), values):
                raise LeaseLost(key.pds_url)
            yield transaction

    async def _end_walk(
        self,
        transaction: Transaction,
        key: ScanKey,
        progress: WalkProgress,
        done: Sequence[RepoReading],
        now: float,
    ) -> WalkProgress:
        values: Values = key.values | {"walk": progress.walk}
        vanished = await transaction.rows(self._sql("vanished"), values)
        if vanished and progress.is_end_assumed:
            progress = replace(progress, is_open=True, is_listed=False, end_cursor="")
            await self._save(transaction, key, progress, done, now)
            return progress
        await self._save(transaction, key, progress, done, now)
        for (did,) in vanished:
            await self._withdraw(transaction, key, RepoReading(did, "", _EVERY_READING), now)
            await transaction.run_many(self._sql("let_go"), [key.values | {"did": did}])
        await transaction.run_many(self._sql("forget_vanished"), [values])
        await transaction.run_many(self._sql("drop_leads"), [key.values])
        return progress

    async def _save(
        self,
        transaction: Transaction,
        key: ScanKey,
        progress: WalkProgress,
        done: Sequence[RepoReading],
        now: float,
    ) -> None:
        values = progress_values(key, progress) | {"updated_at": self._instant(now)}
        await transaction.run_many(self._sql("put_progress"), [values])
        await self._end_readings(transaction, key, done)

    async def _end_readings(
        self, transaction: Transaction, key: ScanKey, done: Sequence[RepoReading]
    ) -> None:
        ends = [end_values(key, reading) for reading in done]
        await transaction.run_many(self._sql("end_reading"), ends)

    async def _put(
        self,
        transaction: Transaction,
        key: ScanKey,
        records: Sequence[ScannedRecord],
        reading: RepoReading,
        now: float,
    ) -> bool:
        """False for a reading that was overtaken, of which nothing is written."""
        if not await transaction.run(self._sql("put_reading"), reading_values(key, reading)):
            return False
        # A reading for another scope may have begun later and not have ended: what it passed
        # before this record was there must not look gone to it.
        where: Values = {"pds_url": key.pds_url, "did": reading.did}
        ((latest,),) = await transaction.rows(self._sql("latest_reading"), where)
        by_table: dict[Table, list[Values]] = defaultdict(list)
        for record in records:
            row = record_values(key.pds_url, record, latest)
            row["indexed_at"] = self._instant(now) if record.is_indexed else None
            by_table[record.table].append(row)
        for table, rows in by_table.items():
            await transaction.run_many(record_statement("put", table), rows)
        # In one order for everybody: two processes that meet the same accounts wait in turn.
        named_dids = sorted({did for record in records for did in record.mentions})
        await transaction.run_many(self._sql("put_mention"), [{"did": did} for did in named_dids])
        return True

    async def _withdraw(
        self, transaction: Transaction, key: ScanKey, reading: RepoReading, now: float
    ) -> None:
        """What earlier readings met in the collections that this one looked at, and it did not."""
        where: Values = {"pds_url": key.pds_url, "did": reading.did, "scan": reading.number}
        withdrawn = 0
        for table, collection in await transaction.rows(union_statement("live"), where):
            if key.scope.covers(collection, by_names=reading.by_names):
                values = {**where, "collection": collection, "now": self._instant(now)}
                withdraw = record_statement("withdraw", Table(table))
                withdrawn += await transaction.run(withdraw, values)
        if withdrawn:
            moved: Values = key.values | {"did": reading.did}
            await transaction.run(self._sql("reread_elsewhere"), moved)

    def _instant(self, now: float) -> Value:
        return to_db(self._db.dialect, now)

    def _sql(self, name: str) -> Statement:
        return named(_FOLDER, name, self._db.dialect)
