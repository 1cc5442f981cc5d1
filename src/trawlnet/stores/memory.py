"""A store in memory: for tests and small crawls, and the model for the others."""

from __future__ import annotations

import math
from bisect import bisect_left, insort
from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from trawlnet.engine.outcome import Reason, Receipt
from trawlnet.engine.ports import Counts, Failure, LaneWork, Lease, Page, Store
from trawlnet.engine.task import Task
from trawlnet.stores.packing import clean_detail, pack_payload, text_bytes, unpack_payload

_Place = tuple[float, int, str]  # (score or due, order of arrival, key)


@dataclass(slots=True)
class _Row:
    task: Task  # With its payload packed, so that no caller shares a part of it.
    seq: int  # Order of arrival; a key keeps it for life.
    scheduled: bool = False  # Its last attempt succeeded, and a later visit is planned.
    reason: Reason | None = None  # The final reason, once settled.
    detail: str = ""  # Of the last attempt.
    at: float = 0.0  # When the last attempt ended; 0 before the first.

    @property
    def later(self) -> bool:
        return self.scheduled or self.task.due > 0.0


@dataclass(slots=True)
class _MemoryLane:
    ready: list[_Place] = field(default_factory=list)  # Unleased, by score.
    later: list[_Place] = field(default_factory=list)  # Unleased, by due time.
    leases: dict[str, float] = field(default_factory=dict)  # Key to expiry.
    held: float = 0.0

    @property
    def due(self) -> float:
        """When the first of its tasks may run; infinity for a lane without tasks."""
        if self.ready:
            return 0.0
        return min(
            [*self.leases.values(), *(due for due, _, _ in self.later[:1])], default=math.inf
        )


class MemoryStore:
    """A store that is gone with the process; each method does what that of `Store` promises."""

    def __init__(self, remember_done: bool = True) -> None:
        self._remember_done = remember_done
        self._cursor: str | None = None
        self._seq = 0
        self._rows: dict[str, _Row] = {}  # Open and scheduled keys.
        self._scheduled: set[str] = set()  # Scheduled keys, leased or not.
        self._failed: dict[str, _Row] = {}
        self._done: set[str] = set()
        self._lanes: dict[str, _MemoryLane] = {}
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
            if len(found) < limit and (lane.ready or lane.later or lane.leases):
                found.append(LaneWork(name, lane.due, lane.held, len(lane.ready) + len(lane.later)))
        return found

    async def lease(self, wants: Mapping[str, int], now: float, ttl: float) -> Lease:
        tasks: list[Task] = []
        dues: dict[str, float] = {}
        for name, want in wants.items():
            if want <= 0:
                continue
            lane = self._lanes.get(name, _MemoryLane())
            self._give_back([key for key, expiry in lane.leases.items() if expiry <= now])
            for _ in range(want):
                key = self._take(lane, now)
                if key is None:
                    dues[name] = lane.later[0][0] if lane.later else math.inf
                    break
                lane.leases[key] = now + ttl
                tasks.append(_unpacked(self._rows[key].task))
        return Lease(tasks, dues)

    async def renew(self, keys: Sequence[str], now: float, ttl: float) -> None:
        for key in keys:
            if self._is_leased(key):
                self._lanes[self._rows[key].task.lane].leases[key] = now + ttl

    async def settle(self, receipts: Sequence[Receipt[object]]) -> None:
        checked = [_packed_receipt(receipt) for receipt in receipts]
        for receipt in checked:
            self._attempts[receipt.reason] += 1
            if self._is_open(receipt.task.key):
                self._settle_open(receipt)

    async def hold(self, lane: str, until: float) -> None:
        text_bytes(lane)
        self._lanes.setdefault(lane, _MemoryLane()).held = until

    async def holds(self, now: float) -> Mapping[str, float]:
        return {name: lane.held for name, lane in self._lanes.items() if lane.held > now}

    async def counts(self) -> Counts:
        lanes = self._lanes.values()
        scheduled = sum(not self._is_leased(key) for key in self._scheduled)
        return Counts(
            open=len(self._rows) - scheduled,
            leased=sum(len(lane.leases) for lane in lanes),
            waiting=sum(len(lane.later) for lane in lanes) - scheduled,
            blocked=len(self._on_blocked_lanes(Reason.BLOCKED)),
            scheduled=scheduled,
            remembered=len(self._rows) + len(self._failed) + len(self._done),
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
            self._reopen_failed(row)
        for row in blocked:
            self._renew(row)
        if reason in (None, Reason.BLOCKED):
            for name in self._lanes:
                self._release_lane(name)
        return len(failed) + len(blocked)

    async def retry_keys(self, failures: Sequence[Failure]) -> list[str]:
        reopened = []
        for one in failures:
            row = self._failed.get(one.key)
            if row is not None and row.reason is one.reason:
                self._reopen_failed(row)
                reopened.append(one.key)
        return reopened

    async def close(self) -> None:
        for lane in self._lanes.values():
            self._give_back(list(lane.leases))

    def _reopen_failed(self, row: _Row) -> None:
        del self._failed[row.task.key]
        assert row.reason is not None
        self._settled[row.reason] -= 1
        self._renew(row)

    def _renew(self, row: _Row) -> None:
        self._unqueue(row.task.key)
        self._keep(_Row(replace(row.task, due=0.0, attempt=0, waits=0), row.seq))
        self._release_lane(row.task.lane)

    def _add(self, task: Task) -> bool:
        key = task.key
        if key in self._rows or key in self._failed or key in self._done:
            return False
        self._seq += 1
        self._keep(_Row(task, self._seq))
        return True

    def _settle_open(self, receipt: Receipt[object]) -> None:
        key = receipt.task.key
        row = self._rows[key]
        self._unqueue(key)
        self._lanes[row.task.lane].leases.pop(key, None)
        del self._rows[key]
        self._scheduled.discard(key)
        if receipt.next is None:
            self._close_key(receipt, row.seq)
        else:
            again = receipt.reason.success
            self._keep(_Row(receipt.next, row.seq, again, None, receipt.detail, receipt.at))
        for task in receipt.found:
            if not self._add(task):
                self._lower_score(task)

    def _close_key(self, receipt: Receipt[object], seq: int) -> None:
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
        self._keep(row)

    def _keep(self, row: _Row) -> None:
        """Save a row and queue it; a leased one is queued when its lease ends."""
        key = row.task.key
        self._rows[key] = row
        (self._scheduled.add if row.scheduled else self._scheduled.discard)(key)
        if not self._is_leased(key):
            lane = self._lanes.setdefault(row.task.lane, _MemoryLane())
            insort(lane.later if row.later else lane.ready, _place(row))

    def _unqueue(self, key: str) -> None:
        row = self._rows.get(key)
        if row is None or self._is_leased(key):
            return
        lane = self._lanes[row.task.lane]
        queue = lane.later if row.later else lane.ready
        del queue[bisect_left(queue, _place(row))]

    def _take(self, lane: _MemoryLane, now: float) -> str | None:
        """The next key of a lane that may run: of the two heads, the one with the lower score."""
        due = lane.later[:1] if lane.later and lane.later[0][0] <= now else []
        if due and lane.ready and lane.ready[0][0] < self._rows[due[0][2]].task.score:
            due = []
        queue = lane.later if due else lane.ready
        return queue.pop(0)[2] if queue else None

    def _give_back(self, keys: Sequence[str]) -> None:
        for key in keys:
            row = self._rows[key]
            del self._lanes[row.task.lane].leases[key]
            self._keep(row)

    def _is_leased(self, key: str) -> bool:
        row = self._rows.get(key)
        lane = None if row is None else self._lanes.get(row.task.lane)
        return lane is not None and key in lane.leases

    def _is_open(self, key: str) -> bool:
        return key in self._rows and (key not in self._scheduled or self._is_leased(key))

    def _is_blocked(self, lane: str) -> bool:
        return self._lanes[lane].held == math.inf

    def _on_blocked_lanes(self, reason: Reason | None) -> list[_Row]:
        blocked = {name for name, lane in self._lanes.items() if lane.held == math.inf}
        if reason not in (None, Reason.BLOCKED) or not blocked:
            return []
        rows = (row for row in self._rows.values() if row.task.lane in blocked)
        return [row for row in rows if self._is_open(row.task.key)]

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


def _packed_receipt(receipt: Receipt[object]) -> Receipt[object]:
    return replace(
        receipt,
        task=_packed(receipt.task),
        found=[_packed(task) for task in receipt.found],
        next=None if receipt.next is None else _packed(receipt.next),
        detail=clean_detail(receipt.detail),
    )


if TYPE_CHECKING:
    _STORE: type[Store[object]] = MemoryStore
