"""A store that forgets everything with its process: for tests, and the model for the others."""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from trawlnet.engine.outcome import Reason, Receipt
from trawlnet.engine.ports import Counts, Failure, LaneWork, Lease, Page
from trawlnet.engine.task import Task
from trawlnet.store.packing import clean_detail, pack_payload, text_bytes, unpack_payload

_Place = tuple[float, int, str]  # (score or due, order of arrival, key)


@dataclass(slots=True)
class _Row:
    task: Task  # With its payload packed, so that nobody outside holds a part of it.
    seq: int  # Order of arrival; a key keeps it for life.
    scheduled: bool = False  # Its last word was a success, and it is to be visited again.
    reason: Reason | None = None  # The last word, once settled.
    detail: str = ""  # Of the last try.
    at: float = 0.0  # Of the last try; 0 before the first.

    @property
    def later(self) -> bool:
        return self.scheduled or self.task.due > 0.0


@dataclass(slots=True)
class _Lane:
    ready: list[_Place] = field(default_factory=list)  # Unleased, by score.
    later: list[_Place] = field(default_factory=list)  # Unleased, by due time.
    held: float = 0.0


class MemoryStore:
    def __init__(self, remember_done: bool = True) -> None:
        self._remember_done = remember_done
        self._cursor: str | None = None
        self._seq = 0
        self._rows: dict[str, _Row] = {}  # Open and scheduled keys.
        self._failed: dict[str, _Row] = {}
        self._done: set[str] = set()
        self._lanes: dict[str, _Lane] = {}
        self._leases: dict[str, float] = {}  # Key to expiry.
        self._attempts: Counter[Reason] = Counter()
        self._settled: Counter[Reason] = Counter()

    async def cursor(self) -> str | None:
        return self._cursor

    async def feed(self, page: Page) -> int:
        text_bytes(page.cursor)
        tasks = [_packed(task) for task in page.tasks]
        self._cursor = page.cursor
        return sum(self._add(task) for task in tasks)

    async def lanes(self, after: str | None, limit: int) -> Sequence[LaneWork]:
        names = list(self._lanes)
        first = names.index(after) + 1 if after in self._lanes else 0
        found: list[LaneWork] = []
        for name in names[first:]:
            lane = self._lanes[name]
            if len(found) < limit and (lane.ready or lane.later):
                due = 0.0 if lane.ready else lane.later[0][0]
                found.append(LaneWork(name, due, lane.held))
        return found

    async def lease(self, wants: Mapping[str, int], now: float, ttl: float) -> Lease:
        self._give_back([key for key, expiry in self._leases.items() if expiry <= now])
        tasks: list[Task] = []
        dues: dict[str, float] = {}
        for name, want in wants.items():
            lane = self._lanes.get(name, _Lane())
            for _ in range(want):
                key = self._take(lane, now)
                if key is None:
                    dues[name] = lane.later[0][0] if lane.later else math.inf
                    break
                self._leases[key] = now + ttl
                tasks.append(_unpacked(self._rows[key].task))
        return Lease(tasks, dues)

    async def renew(self, keys: Sequence[str], now: float, ttl: float) -> None:
        for key in keys:
            if key in self._leases:
                self._leases[key] = now + ttl

    async def settle(self, receipts: Sequence[Receipt]) -> None:
        checked = [_packed_receipt(receipt) for receipt in receipts]
        for receipt in checked:
            self._attempts[receipt.reason] += 1
            if self._is_open(receipt.task.key):
                self._settle_open(receipt)

    async def hold(self, lane: str, until: float) -> None:
        text_bytes(lane)
        self._lanes.setdefault(lane, _Lane()).held = until

    async def counts(self) -> Counts:
        open_rows = {key: row for key, row in self._rows.items() if self._is_open(key)}
        return Counts(
            open=len(open_rows),
            leased=len(self._leases),
            waiting=sum(row.later for key, row in open_rows.items() if key not in self._leases),
            blocked=sum(self._is_blocked(row.task.lane) for row in open_rows.values()),
            scheduled=len(self._rows) - len(open_rows),
            known=len(self._rows) + len(self._failed) + len(self._done),
            attempts={reason: n for reason, n in self._attempts.items() if n},
            settled={reason: n for reason, n in self._settled.items() if n},
        )

    async def failures(self, reason: Reason | None = None) -> AsyncIterator[Failure]:
        for key, row in list(self._failed.items()):
            if row.reason is not None and reason in (None, row.reason):
                task = row.task
                yield Failure(key, task.lane, row.reason, row.detail, task.attempt, row.at)
        for row in self._on_blocked_lanes(reason):
            task = row.task
            yield Failure(task.key, task.lane, Reason.BLOCKED, row.detail, task.attempt, row.at)

    async def retry(self, reason: Reason | None = None) -> int:
        blocked = self._on_blocked_lanes(reason)
        failed = [row for row in self._failed.values() if reason in (None, row.reason)]
        for row in failed:
            del self._failed[row.task.key]
            assert row.reason is not None
            self._settled[row.reason] -= 1
        for row in [*failed, *blocked]:
            key = row.task.key
            self._unqueue(key)
            self._rows[key] = _Row(replace(row.task, due=0.0, attempt=0, waits=0), row.seq)
            if key not in self._leases:
                self._queue(key)
            self._release_lane(row.task.lane)
        if reason in (None, Reason.BLOCKED):
            for name in self._lanes:
                self._release_lane(name)
        return len(failed) + len(blocked)

    async def close(self) -> None:
        self._give_back(list(self._leases))

    def _add(self, task: Task) -> bool:
        key = task.key
        if key in self._rows or key in self._failed or key in self._done:
            return False
        self._seq += 1
        self._rows[key] = _Row(task, self._seq)
        self._queue(key)
        return True

    def _settle_open(self, receipt: Receipt) -> None:
        key = receipt.task.key
        seq = self._rows[key].seq
        self._unqueue(key)
        del self._rows[key]
        self._leases.pop(key, None)
        if receipt.next is not None:
            scheduled = receipt.reason.success
            self._rows[key] = _Row(receipt.next, seq, scheduled, None, receipt.detail, receipt.at)
            self._queue(key)
        else:
            self._close_key(receipt, seq)
        for task in receipt.found:
            if not self._add(task):
                self._lower_score(task)

    def _close_key(self, receipt: Receipt, seq: int) -> None:
        key, reason = receipt.task.key, receipt.reason
        self._settled[reason] += 1
        if not reason.success:
            self._failed[key] = _Row(receipt.task, seq, False, reason, receipt.detail, receipt.at)
        elif self._remember_done:
            self._done.add(key)

    def _lower_score(self, task: Task) -> None:
        key = task.key
        row = self._rows.get(key)
        if row is None or not self._is_open(key) or task.score >= row.task.score:
            return
        self._unqueue(key)
        row.task = replace(row.task, score=task.score)
        if key not in self._leases:
            self._queue(key)

    def _queue(self, key: str) -> None:
        row = self._rows[key]
        lane = self._lanes.setdefault(row.task.lane, _Lane())
        insort(lane.later if row.later else lane.ready, _place(row))

    def _unqueue(self, key: str) -> None:
        row = self._rows.get(key)
        if row is None or key in self._leases:
            return
        lane = self._lanes[row.task.lane]
        queue = lane.later if row.later else lane.ready
        del queue[bisect_left(queue, _place(row))]

    def _take(self, lane: _Lane, now: float) -> str | None:
        """The next key of a lane that may run: of the two heads, the one with the lower score."""
        due = lane.later[:1] if lane.later and lane.later[0][0] <= now else []
        if due and lane.ready and lane.ready[0][0] < self._rows[due[0][2]].task.score:
            due = []
        queue = lane.later if due else lane.ready
        return queue.pop(0)[2] if queue else None

    def _give_back(self, keys: Sequence[str]) -> None:
        for key in keys:
            del self._leases[key]
            self._queue(key)

    def _is_open(self, key: str) -> bool:
        row = self._rows.get(key)
        return row is not None and (not row.scheduled or key in self._leases)

    def _is_blocked(self, lane: str) -> bool:
        return self._lanes[lane].held == math.inf

    def _on_blocked_lanes(self, reason: Reason | None) -> list[_Row]:
        if reason not in (None, Reason.BLOCKED):
            return []
        open_rows = (row for key, row in self._rows.items() if self._is_open(key))
        return [row for row in open_rows if self._is_blocked(row.task.lane)]

    def _release_lane(self, name: str) -> None:
        if self._is_blocked(name):
            self._lanes[name].held = 0.0


def _place(row: _Row) -> _Place:
    task = row.task
    return (task.due if row.later else task.score, row.seq, task.key)


def _packed(task: Task) -> Task:
    text_bytes(task.key)
    text_bytes(task.lane)
    return replace(task, payload=pack_payload(task))


def _unpacked(task: Task) -> Task:
    return replace(task, payload=unpack_payload(task.payload))


def _packed_receipt(receipt: Receipt) -> Receipt:
    return replace(
        receipt,
        task=_packed(receipt.task),
        found=[_packed(task) for task in receipt.found],
        next=None if receipt.next is None else _packed(receipt.next),
        detail=clean_detail(receipt.detail),
    )
