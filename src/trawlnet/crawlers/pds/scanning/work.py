"""The work of scans: slices under way, whose steps are leased and settled one at a time."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Any, Protocol

from trawlnet.crawlers.pds.scanning.ending import SliceEnd, TablesAway, cut_short, excused
from trawlnet.crawlers.pds.scanning.items import ScanItem
from trawlnet.crawlers.pds.scanning.parts import ScanResult
from trawlnet.crawlers.pds.scanning.slice import LOST_CLAIM
from trawlnet.engine.outcome import Again, Outcome, Reason, Receipt
from trawlnet.engine.ports import Clock, Counts, LaneWork, Lease, Work
from trawlnet.engine.task import Task


class Slice(Protocol):
    """A scan from the claim of a PDS until that is given back."""

    async def begin(self) -> Mapping[str, str] | ScanResult:
        """The first step, as plain data; or what it came to without any."""

    async def do(self, task: Task) -> Outcome[SliceEnd]: ...

    async def write(self, items: Sequence[ScanItem]) -> None: ...

    async def advance(self, receipt: Receipt[SliceEnd]) -> Mapping[str, str] | ScanResult: ...

    async def rest(self) -> None:
        """It is given back in the middle."""

    def hurry(self) -> None:
        """It should end soon: accounts of the same PDS are to be looked at."""


class Errand(Protocol):
    """What a PDS is claimed for, if not for a scan."""

    def open(self, url: str, owner: str) -> Slice: ...

    def ended(self, url: str) -> None: ...


@dataclass(slots=True)
class HeldRow:
    """A PDS that is claimed: the task is its next step."""

    task: Task
    owner: str
    slice: Slice | None = None  # None: not begun.
    is_leased: bool = False
    errand: Errand | None = None
    is_lent: bool = False  # It was claimed for a scan, which comes after the errand.


class RowClaims(Protocol):
    """The claims on rows, where they are kept."""

    def places(self) -> float:
        """How many scans may be under way."""

    def on_place(self, lane: str) -> None:
        """A lane that had no place has one now."""

    async def open_row(self, row: HeldRow) -> Slice | None:
        """None for a row that is no longer ours."""

    async def renew_row(self, row: HeldRow, ttl: float) -> None: ...

    async def end_row(self, row: HeldRow, result: ScanResult, is_counted: bool) -> None:
        """A slice has ended; `is_counted` says whether the engine has counted the result."""


class ScanWork:
    """Rows that are claimed. One of them has one task at a time, which is its next step; no more
    than so many have been begun."""

    def __init__(self, claims: RowClaims, clock: Clock) -> None:
        self._claims = claims
        self._clock = clock
        self.rows: dict[str, HeldRow] = {}
        self._by_lane: dict[str, list[HeldRow]] = {}
        self._fresh: dict[str, HeldRow] = {}  # Those that are not begun, in their order.
        self._errands = 0
        self.begun = 0  # Slices of scans, of all rows that ever were.
        # Lanes that are held, and until when. Rows have due times of their own, which last: this
        # is forgotten with the process.
        self.parked: dict[str, float] = {}

    @property
    def under_way(self) -> int:
        """Scans."""
        return len(self.rows) - len(self._fresh) - self._errands

    def add(self, rows: Iterable[HeldRow]) -> None:
        for row in rows:
            self.rows[row.task.key] = row
            self._by_lane.setdefault(row.task.lane, []).append(row)
            if row.errand is None:
                self._fresh[row.task.key] = row
            else:
                self._errands += 1

    def lend(self, url: str, errand: Errand) -> Task | None:
        """A row whose scan is not begun, for an errand before it; None if there is none."""
        row = self._fresh.pop(url, None)
        if row is None:
            return None
        row.errand, row.is_lent = errand, True
        self._errands += 1
        return row.task

    def _waiting(self) -> list[str]:
        """Lanes of rows that may be begun now, as far as there are places."""
        places, now = self._claims.places() - self.under_way, self._clock.now()
        due = (row.task.lane for row in self._fresh.values() if row.task.due <= now)
        return list(due if places == math.inf else islice(due, max(0, int(places))))

    async def lanes(self, after: str | None, limit: int) -> Sequence[LaneWork]:
        dues: dict[str, float] = {}
        for row in self.rows.values():
            lane = row.task.lane
            if not row.is_leased and (after is None or lane > after):
                dues[lane] = min(row.task.due, dues.get(lane, math.inf))
        chosen, parked = sorted(dues)[:limit], self.parked
        return [LaneWork(lane, dues[lane], parked.get(lane, 0.0)) for lane in chosen]

    async def lease(self, wants: Mapping[str, int], now: float, ttl: float) -> Lease:
        tasks: list[Task] = []
        dues: dict[str, float] = {}
        for lane, count in wants.items():
            given: list[Task] = []
            due = math.inf
            # What was begun goes on first.
            for row in sorted(self._by_lane.get(lane, ()), key=lambda row: row.slice is None):
                if len(given) == count:
                    break
                if row.task.due > now:
                    due = min(due, row.task.due)
                elif not row.is_leased and (row.slice is not None or await self._begin(row)):
                    row.is_leased = True
                    given.append(row.task)
            if len(given) < count:
                dues[lane] = due
            tasks += given
        return Lease(tasks, dues)

    async def settle(self, receipts: Sequence[Receipt[SliceEnd]]) -> None:
        for receipt in receipts:
            row = self.rows.get(receipt.task.key)
            if row is None or not row.is_leased or row.slice is None:
                continue
            if receipt.reason is Reason.UNKNOWN:
                # A bug of ours: the next slice may come past it.
                receipt = replace(receipt, news=excused(receipt.reason, receipt.detail))
            step = await row.slice.advance(receipt)
            if isinstance(step, ScanResult):
                await self._end(row, step, receipt)
                continue
            row.task = (receipt.next or row.task.revisited(0.0)).carrying(step)
            row.is_leased = False

    async def renew(self, keys: Sequence[str], now: float, ttl: float) -> None:
        """Renew all claims, not only those with a step in flight: a step has no lease of its own,
        and lasts as long as the claim on its row."""
        for row in list(self.rows.values()):
            await self._claims.renew_row(row, ttl)

    async def hold(self, lane: str, until: float) -> None:
        now = self._clock.now()
        self.parked = {held: end for held, end in self.parked.items() if end > now}
        self.parked[lane] = until

    async def holds(self, now: float) -> Mapping[str, float]:
        return {lane: until for lane, until in self.parked.items() if until > now}

    async def counts(self) -> Counts:
        """Of scans: errands come and go, and no batch waits for them."""
        count = len(self.rows) - self._errands
        blocked = sum(map(self._is_blocked, self.rows.values()))
        return Counts(open=count, leased=self.under_way, blocked=blocked, remembered=count)

    def _is_blocked(self, row: HeldRow) -> bool:
        return row.errand is None and self.parked.get(row.task.lane, 0.0) == math.inf

    async def _begin(self, row: HeldRow) -> bool:
        if row.errand is None:
            if self.under_way >= self._claims.places():
                return False
            del self._fresh[row.task.key]
            self.begun += 1
        row.slice = await self._claims.open_row(row)
        step = await row.slice.begin() if row.slice is not None else LOST_CLAIM
        if isinstance(step, ScanResult):
            await self._end(row, step, None)
            return False
        row.task = row.task.carrying(step)
        return True

    async def _end(
        self, row: HeldRow, result: ScanResult, receipt: Receipt[SliceEnd] | None
    ) -> None:
        """A receipt that is the last word about its task is counted by the engine."""
        await self._claims.end_row(row, result, receipt is not None and receipt.next is None)
        self._errands -= row.errand is not None
        if row.is_lent:
            row.task = row.task.revisited(0.0).carrying({})
            row.slice, row.errand, row.is_leased, row.is_lent = None, None, False, False
            self._fresh[row.task.key] = row
        else:
            self._remove(row)
        for other in self._waiting():
            self._claims.on_place(other)

    def _remove(self, row: HeldRow) -> None:
        lane = row.task.lane
        del self.rows[row.task.key]
        self._by_lane[lane] = [other for other in self._by_lane[lane] if other is not row]
        if not self._by_lane[lane]:
            del self._by_lane[lane]


@dataclass(frozen=True, slots=True)
class ScanHandler:
    """One step of one slice."""

    work: ScanWork

    async def __call__(self, task: Task) -> Outcome[SliceEnd]:
        row = self.work.rows[task.key]
        assert row.slice is not None
        try:
            return await row.slice.do(task)
        except TablesAway as away:
            end = cut_short(away)
            return Outcome(end.reason, detail=end.detail, again=Again.NEVER, news=end)


@dataclass(frozen=True, slots=True)
class ScanSink:
    """Items are written under the claim of their row, each row by itself."""

    work: ScanWork

    async def write(self, batch: Sequence[tuple[Task, Sequence[Any]]]) -> None:
        for task, items in batch:
            row = self.work.rows.get(task.key)
            if row is not None and row.slice is not None:
                await row.slice.write(items)


if TYPE_CHECKING:
    _WORK: type[Work[SliceEnd]] = ScanWork
