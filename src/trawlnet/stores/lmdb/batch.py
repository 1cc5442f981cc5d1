"""One write transaction of the LMDB store: the changes of pages, receipts and retries."""

from __future__ import annotations

import math
import struct
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from trawlnet.engine.outcome import Reason, Receipt
from trawlnet.engine.ports import Failure
from trawlnet.engine.task import Task
from trawlnet.stores.lmdb.leases import Leases
from trawlnet.stores.lmdb.rows import (
    DIGEST_BYTES,
    LANE_BYTES,
    SEQ_BYTES,
    SETTLED_ENTRY,
    PendingPlace,
    RowState,
    digest,
    failed_key,
    failed_prefix,
    failed_reason,
    pack_row,
    repack_row,
    seq_bytes,
    unpack_row,
)
from trawlnet.stores.lmdb.tables import LaneRecord, LmdbTables, decode_lane, encode, read_counters
from trawlnet.stores.packing import text_bytes

HOLD: Final = struct.Struct(">d")
_AS_NEW: Final = {"due": 0.0, "attempt": 0, "waits": 0, "detail": "", "at": 0.0}


@dataclass(slots=True)
class _LaneChange:
    open: int = 0
    scheduled: int = 0


@dataclass
class Batch:
    """Changes tables immediately, counters and lanes in `finish`, memory only after the commit."""

    txn: Any
    tables: LmdbTables
    leases: Leases
    numbers: dict[str, bytes]  # Cached lane numbers.
    remember_done: bool
    ended: dict[bytes, bytes] = field(default_factory=dict)  # Leases to end: digest to lane.
    met: dict[str, bytes] = field(default_factory=dict)  # Lane numbers read in this batch.

    def __post_init__(self) -> None:
        self._counters = read_counters(self.txn, self.tables)
        self._attempts: Counter[str] = Counter()
        self._settled: Counter[str] = Counter()
        self._changes: dict[bytes, _LaneChange] = {}

    def save_cursor(self, cursor: str) -> None:
        self.txn.put(b"cursor", text_bytes(cursor), db=self.tables.meta)

    def add(self, task: Task) -> bool:
        key_digest = digest(task.key)
        if self.txn.get(key_digest, db=self.tables.rows) is not None:
            return False
        self._add_new(key_digest, task)
        return True

    def settle(self, receipt: Receipt[object]) -> None:
        self._attempts[receipt.reason] += 1
        key_digest = digest(receipt.task.key)
        entry = self.txn.get(key_digest, db=self.tables.rows)
        if entry is None or entry == SETTLED_ENTRY:
            return
        place = PendingPlace.parse(entry)
        if not self._is_open(key_digest, place):
            return
        self._unqueue(place)
        if self.leases.has(place.lane, key_digest):
            self.ended[key_digest] = place.lane
        if receipt.next is not None:
            state = _state(receipt.next, receipt.reason.success)
            lane = self._lane(receipt.next.lane)
            packed = pack_row(receipt.next, receipt)
            self._queue(key_digest, PendingPlace.of(state, lane, place.seq, receipt.next), packed)
        else:
            self._close(key_digest, place.seq, receipt)
        for task in receipt.found:
            self._discover(task)

    def hold(self, lane: str, until: float) -> None:
        self._hold(self._lane(lane), until)

    def reopen_failed(self, reason: Reason | None) -> int:
        reopened = 0
        for key, value in self._walk(self.tables.failed, failed_prefix(reason)):
            self._reopen(key, value)
            reopened += 1
        return reopened

    def reopen_keys(self, failures: Sequence[Failure]) -> list[str]:
        reopened = []
        for failure in failures:
            key = failed_key(failure.reason, digest(failure.key))
            value = self.txn.get(key, db=self.tables.failed)
            if value is not None:
                self._reopen(key, value)
                reopened.append(failure.key)
        return reopened

    def reopen_blocked(self) -> int:
        reopened = 0
        for lane, until in self._walk(self.tables.holds, b""):
            if HOLD.unpack(until)[0] == math.inf:
                # Ready keys first: later ones move into their queue, and must not count twice.
                reopened += self._renew_all(self.tables.ready, lane)
                reopened += self._renew_all(self.tables.later, lane)
                self._hold(lane, 0.0)
        return reopened

    def finish(self) -> None:
        for lane, change in self._changes.items():
            self._change_lane(lane, change)
        counters = self._counters
        counters.attempts = _summed(counters.attempts, self._attempts)
        counters.settled = _summed(counters.settled, self._settled)
        counters.scheduled += sum(change.scheduled for change in self._changes.values())
        self.txn.put(b"counters", encode(counters), db=self.tables.meta)

    def _reopen(self, key: bytes, value: bytes) -> None:
        row = unpack_row(value[SEQ_BYTES:])
        lane = self._lane(row.lane)
        place = PendingPlace.of(RowState.READY, lane, value[:SEQ_BYTES], row)
        self.txn.delete(key, db=self.tables.failed)
        self._settled[failed_reason(key)] -= 1
        self._queue(key[-DIGEST_BYTES:], place, repack_row(row, **_AS_NEW))
        if self._held(lane) == math.inf:
            self._hold(lane, 0.0)

    def _discover(self, task: Task) -> None:
        # The hot path of a crawl that follows links: nearly every found key is settled already.
        key_digest = digest(task.key)
        entry = self.txn.get(key_digest, db=self.tables.rows)
        if entry is None:
            self._add_new(key_digest, task)
        elif entry != SETTLED_ENTRY:
            self._lower_score(key_digest, PendingPlace.parse(entry), task.score)

    def _add_new(self, key_digest: bytes, task: Task) -> None:
        packed = pack_row(task)
        self._counters.seq += 1
        seq = seq_bytes(self._counters.seq)
        self._queue(
            key_digest, PendingPlace.of(_state(task), self._lane(task.lane), seq, task), packed
        )

    def _lower_score(self, key_digest: bytes, place: PendingPlace, score: float) -> None:
        if not score < place.score or not self._is_open(key_digest, place):
            return
        row = msgspec.structs.replace(unpack_row(self._unqueue(place)), score=float(score))
        lowered = PendingPlace.of(place.state, place.lane, place.seq, row)
        self._queue(key_digest, lowered, repack_row(row))

    def _close(self, key_digest: bytes, seq: bytes, receipt: Receipt[object]) -> None:
        reason, rows = receipt.reason, self.tables.rows
        self._settled[reason] += 1
        if not reason.success:
            packed = seq + pack_row(receipt.task, receipt)
            self.txn.put(failed_key(reason, key_digest), packed, db=self.tables.failed)
        if self.remember_done or not reason.success:
            self.txn.put(key_digest, SETTLED_ENTRY, db=rows)
        else:
            self.txn.delete(key_digest, db=rows)

    def _renew_all(self, queue: Any, lane: bytes) -> int:
        """Reset the attempts of every open key in a lane's queue."""
        renewed = 0
        for _, value in self._walk(queue, lane):
            key_digest = value[:DIGEST_BYTES]
            place = PendingPlace.parse(self.txn.get(key_digest, db=self.tables.rows))
            if self._is_open(key_digest, place):
                row = unpack_row(self._unqueue(place))
                again = PendingPlace.of(RowState.READY, lane, place.seq, row)
                self._queue(key_digest, again, repack_row(row, **_AS_NEW))
                renewed += 1
        return renewed

    def _queue(self, key_digest: bytes, place: PendingPlace, packed: bytes) -> None:
        table = self.tables.ready if place.state is RowState.READY else self.tables.later
        self.txn.put(place.position, key_digest + packed, db=table)
        self.txn.put(key_digest, place.entry(), db=self.tables.rows)
        self._count(place, 1)

    def _unqueue(self, place: PendingPlace) -> bytes:
        """Take a key out of its queue; returns its packed row."""
        table = self.tables.ready if place.state is RowState.READY else self.tables.later
        value: bytes = self.txn.pop(place.position, db=table)
        self._count(place, -1)
        return value[DIGEST_BYTES:]

    def _count(self, place: PendingPlace, by: int) -> None:
        change = self._changes.get(place.lane)
        if change is None:
            change = self._changes[place.lane] = _LaneChange()
        if place.state is RowState.SCHEDULED:
            change.scheduled += by
        else:
            change.open += by

    def _is_open(self, key_digest: bytes, place: PendingPlace) -> bool:
        if place.state is not RowState.SCHEDULED:
            return True
        return key_digest not in self.ended and self.leases.has(place.lane, key_digest)

    def _lane(self, name: str) -> bytes:
        number = self.numbers.get(name) or self.met.get(name)
        if number is None:
            number = self.met[name] = self._find_or_number(name)
        return number

    def _find_or_number(self, name: str) -> bytes:
        name_digest = digest(name)
        found: bytes | None = self.txn.get(name_digest, db=self.tables.lane_numbers)
        if found is not None:
            return found
        lanes = int(self.txn.stat(self.tables.lanes)["entries"])
        number = (lanes + 1).to_bytes(LANE_BYTES, "big")
        self.txn.put(name_digest, number, db=self.tables.lane_numbers)
        self.txn.put(number, encode(LaneRecord(name)), db=self.tables.lanes)
        return number

    def _change_lane(self, lane: bytes, change: _LaneChange) -> None:
        record = decode_lane(self.txn.get(lane, db=self.tables.lanes))
        left = record.open + change.open, record.scheduled + change.scheduled
        self.txn.put(lane, encode(LaneRecord(record.name, *left)), db=self.tables.lanes)
        if any(left):
            self.txn.put(lane, b"", db=self.tables.active)
        else:
            self.txn.delete(lane, db=self.tables.active)

    def _held(self, lane: bytes) -> float:
        until = self.txn.get(lane, db=self.tables.holds)
        return 0.0 if until is None else float(HOLD.unpack(until)[0])

    def _hold(self, lane: bytes, until: float) -> None:
        if until > 0.0:
            self.txn.put(lane, HOLD.pack(until), db=self.tables.holds)
        else:
            self.txn.delete(lane, db=self.tables.holds)

    def _walk(self, table: Any, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        """Entries under a prefix; each is looked up again, so that the loop may change them."""
        cursor = self.txn.cursor(db=table)
        start = prefix
        while cursor.set_range(start) and cursor.key().startswith(prefix):
            key, value = cursor.item()
            yield key, value
            start = key + b"\0"


def _state(task: Task, scheduled: bool = False) -> RowState:
    if scheduled:
        return RowState.SCHEDULED
    return RowState.LATER if task.due > 0.0 else RowState.READY


def _summed(totals: dict[str, int], changes: Counter[str]) -> dict[str, int]:
    """Totals by reason, without zeros."""
    words = totals.keys() | changes.keys()
    sums = {str(word): totals.get(word, 0) + changes[word] for word in words}
    return {word: number for word, number in sums.items() if number}
