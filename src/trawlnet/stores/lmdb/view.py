"""One read transaction of the LMDB store."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from trawlnet.engine.outcome import Reason
from trawlnet.engine.ports import Counts, Failure, LaneWork, Lease
from trawlnet.engine.task import Task
from trawlnet.stores.lmdb.batch import HOLD
from trawlnet.stores.lmdb.leases import Leases
from trawlnet.stores.lmdb.rows import (
    DIGEST_BYTES,
    SEQ_BYTES,
    SETTLED_ENTRY,
    PendingPlace,
    RowState,
    TaskRow,
    digest,
    failed_reason,
    order_of,
    unpack_row,
)
from trawlnet.stores.lmdb.tables import LaneRecord, LmdbTables, decode_lane, read_counters

_CHUNK: Final = 500  # Failures read in one transaction, for which other calls wait.


@dataclass(frozen=True, slots=True)
class FailureChunk:
    failures: Sequence[Failure]
    last: bytes | None  # Where to continue; None at the end.


@dataclass(frozen=True, slots=True)
class View:
    txn: Any
    tables: LmdbTables
    leases: Leases  # Written by `lease` and `renew`, which change nothing on disk.

    def cursor(self) -> str | None:
        saved = self.txn.get(b"cursor", db=self.tables.meta)
        return None if saved is None else saved.decode()

    def lanes(self, after: str | None, limit: int) -> Sequence[LaneWork]:
        start = b"" if after is None else (self._number(after) or b"")
        found: list[LaneWork] = []
        for number, _ in self._range(self.tables.active, b"", start):
            if len(found) >= limit:
                break
            record = self._lane(number)
            due, held = self._due(number), self._held(number)
            found.append(LaneWork(record.name, due, held, record.open))
        return found

    def lease(self, wants: Mapping[str, int], now: float, expiry: float) -> Lease:
        tasks: list[Task] = []
        dues: dict[str, float] = {}
        for name, want in wants.items():
            if want <= 0:
                continue
            lane, before = self._number(name), len(tasks)
            due = math.inf if lane is None else self._take(lane, want, now, expiry, tasks)
            if len(tasks) - before < want:
                dues[name] = due
        return Lease(tasks, dues)

    def renew(self, keys: Sequence[str], expiry: float) -> None:
        for key in keys:
            key_digest = digest(key)
            place = self._place(key_digest)
            if place is not None and self.leases.has(place.lane, key_digest):
                self.leases.put(place.lane, key_digest, expiry)

    def counts(self) -> Counts:
        counters = read_counters(self.txn, self.tables)
        leased = [state for _, state in self._leased()]
        scheduled = counters.scheduled - leased.count(RowState.SCHEDULED)
        put_off = self._entries(self.tables.later)
        return Counts(
            open=self._entries(self.tables.ready) + put_off - scheduled,
            leased=len(leased),
            waiting=put_off - counters.scheduled - leased.count(RowState.LATER),
            blocked=self._blocked(),
            scheduled=scheduled,
            remembered=self._entries(self.tables.rows),
            attempts={Reason(word): number for word, number in counters.attempts.items()},
            settled={Reason(word): number for word, number in counters.settled.items()},
        )

    def failed(self, prefix: bytes, after: bytes) -> FailureChunk:
        found: list[Failure] = []
        for key, value in self._range(self.tables.failed, prefix, after):
            found.append(unpack_row(value[SEQ_BYTES:]).failure(failed_reason(key)))
            if len(found) == _CHUNK:
                return FailureChunk(found, key)
        return FailureChunk(found, None)

    def open_on(self, queue: Any, lane: bytes, after: bytes) -> FailureChunk:
        """The open keys of a blocked lane, as failures."""
        found: list[Failure] = []
        for seen, (position, value) in enumerate(self._range(queue, lane, after), start=1):
            key_digest = value[:DIGEST_BYTES]
            place = self._place(key_digest)
            scheduled = place is not None and place.state is RowState.SCHEDULED
            if not scheduled or self.leases.has(lane, key_digest):
                found.append(unpack_row(value[DIGEST_BYTES:]).failure(Reason.BLOCKED))
            if seen == _CHUNK:
                return FailureChunk(found, position)
        return FailureChunk(found, None)

    def holds(self, now: float) -> dict[str, float]:
        ends = [(lane, HOLD.unpack(until)[0]) for lane, until in self._holds()]
        return {self._lane(lane).name: until for lane, until in ends if until > now}

    def blocked_lanes(self) -> list[bytes]:
        return [lane for lane, until in self._holds() if HOLD.unpack(until)[0] == math.inf]

    def _holds(self) -> Iterator[tuple[bytes, bytes]]:
        return self._range(self.tables.holds, b"", b"")

    def _take(self, lane: bytes, want: int, now: float, expiry: float, tasks: list[Task]) -> float:
        """Lease from one lane into `tasks`; returns when its next delayed task is due."""
        self.leases.expire(lane, now)
        most = len(tasks) + want
        fresh_ones = self._unleased(self.tables.ready, lane)
        put_off_ones = self._unleased(self.tables.later, lane)
        fresh, put_off = next(fresh_ones, None), next(put_off_ones, None)
        while len(tasks) < most:
            row = None if put_off is None else _due_row(put_off, now)
            if fresh is not None and (row is None or order_of(fresh[0]) < row.score):
                key_digest, row = fresh[1][:DIGEST_BYTES], unpack_row(fresh[1][DIGEST_BYTES:])
                fresh = next(fresh_ones, None)
            elif put_off is not None and row is not None:
                key_digest = put_off[1][:DIGEST_BYTES]
                put_off = next(put_off_ones, None)
            else:
                break
            self.leases.put(lane, key_digest, expiry)
            tasks.append(row.task())
        return math.inf if put_off is None else order_of(put_off[0])

    def _due(self, lane: bytes) -> float:
        if next(self._unleased(self.tables.ready, lane), None) is not None:
            return 0.0
        put_off = next(self._unleased(self.tables.later, lane), None)
        due = math.inf if put_off is None else order_of(put_off[0])
        return min(due, self.leases.first_expiry(lane))

    def _unleased(self, queue: Any, lane: bytes) -> Iterator[tuple[bytes, bytes]]:
        leased = self.leases.of(lane)
        for position, value in self._range(queue, lane, b""):
            if value[:DIGEST_BYTES] not in leased:
                yield position, value

    def _leased(self) -> Iterator[tuple[bytes, RowState]]:
        for lane, key_digest in self.leases:
            place = self._place(key_digest)
            if place is not None:
                yield lane, place.state

    def _blocked(self) -> int:
        blocked = set(self.blocked_lanes())
        if not blocked:
            return 0
        records = map(self._lane, blocked)
        visited = [lane for lane, state in self._leased() if state is RowState.SCHEDULED]
        return sum(record.open for record in records) + sum(lane in blocked for lane in visited)

    def _place(self, key_digest: bytes) -> PendingPlace | None:
        entry = self.txn.get(key_digest, db=self.tables.rows)
        return None if entry is None or entry == SETTLED_ENTRY else PendingPlace.parse(entry)

    def _lane(self, number: bytes) -> LaneRecord:
        return decode_lane(self.txn.get(number, db=self.tables.lanes))

    def _number(self, name: str) -> bytes | None:
        number: bytes | None = self.txn.get(digest(name), db=self.tables.lane_numbers)
        return number

    def _held(self, lane: bytes) -> float:
        until = self.txn.get(lane, db=self.tables.holds)
        return 0.0 if until is None else float(HOLD.unpack(until)[0])

    def _entries(self, table: Any) -> int:
        return int(self.txn.stat(table)["entries"])

    def _range(self, table: Any, prefix: bytes, after: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Entries under a prefix, beyond the key `after` if that is not empty."""
        cursor = self.txn.cursor(db=table)
        if cursor.set_range(after + b"\0" if after else prefix):
            for key, value in cursor.iternext():
                if not key.startswith(prefix):
                    return
                yield key, value


def _due_row(put_off: tuple[bytes, bytes], now: float) -> TaskRow | None:
    position, value = put_off
    return unpack_row(value[DIGEST_BYTES:]) if order_of(position) <= now else None
