"""The ledger: what is known of every id, as intervals; a Store whose tasks its askers think up."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from trawlnet.crawlers.ids.askers import Asked, Askers
from trawlnet.crawlers.ids.marks import DONE, Miss, mark_of, reason_of, span_of, word_of
from trawlnet.crawlers.ids.missing import failures_in, missed_changes, missed_for, put_back
from trawlnet.crawlers.ids.position import Position, position_of
from trawlnet.crawlers.ids.words import Entry, Mark
from trawlnet.engine.outcome import Reason, Receipt
from trawlnet.engine.ports import Counts, Failure, LaneWork, Lease, Page
from trawlnet.engine.task import Task
from trawlnet.store.errors import StoreError
from trawlnet.store.lmdb_spans import SpanFile
from trawlnet.store.spans import Span, SpanStore

log = logging.getLogger(__name__)

T = TypeVar("T")

_LOOK_EVERY = 1.0  # Seconds after which the askers are asked even if they named no instant.
_AHEAD = 16  # Spans looked at to move the watermark: it rarely passes more than two.
_MISS = "missed:"
_NOTES = ("first", "attempts", "held", "watermark", "lane")
_NOBODY = "nobody"  # The lane of a ledger that nothing was ever asked for.


class IdsLedger:
    """Made by `await IdsLedger.open(folder)`, or `over` something else that keeps spans. One
    process writes; others open it to look."""

    def __init__(self, lane: str) -> None:
        # One thread: syncing to disk never stops the loop, and nothing below needs a lock.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="ledger")
        self.lane = lane
        self.askers: Askers | None = None
        self.first: int | None = None
        self.watermark = 0
        self.beyond = 0
        self.lengths: Counter[str] = Counter()  # Ids by mark.
        self.misses: dict[int, Miss] = {}
        self._attempts: Counter[str] = Counter()
        self._held = 0.0
        self._leased = 0
        # Told which ids have come to be missed, and which no longer are, once it is on disk.
        self.told: list[Callable[[Iterable[int], Iterable[int]], None]] = []

    @classmethod
    async def open(cls, path: Path, lane: str = "", *, readonly: bool = False) -> IdsLedger:
        return await cls.over(partial(SpanFile, path, readonly=readonly), lane)

    @classmethod
    async def over(cls, make: Callable[[], SpanStore], lane: str = "") -> IdsLedger:
        ledger = cls(lane)
        try:
            await ledger._call(partial(ledger._open, make))
        except BaseException:
            ledger._thread.shutdown(wait=False)
            raise
        return ledger

    def _open(self, make: Callable[[], SpanStore]) -> None:
        self._file = file = make()
        self.first, attempts, held, watermark, lane = file.notes(_NOTES)
        self.lane = self.lane or lane or _NOBODY
        self._attempts.update(attempts or {})
        self._held = held or 0.0
        self.watermark = watermark or self.first or 0
        self.beyond = self.first or 0
        missed: list[int] = []
        for span in file.spans():
            self.beyond = span.end
            mark = mark_of(span.word)
            self.lengths[mark] += span.end - span.start
            if mark is Mark.MISSED:
                missed += range(span.start, span.end)
        noted = file.notes([f"{_MISS}{number}" for number in missed])
        self.misses = {
            n: Miss(*row) if row else Miss() for n, row in zip(missed, noted, strict=True)
        }
        self._advance()

    async def begin(self, first: int) -> None:
        """Everything below the first id is none of this crawl's business."""
        await self._call(lambda: self._file.write((), {"first": first}))
        self.first = self.watermark = self.beyond = first

    async def position(self) -> Position:
        return await self._call(self._position)

    async def noted(self, name: str) -> Any:
        """A note that `note_soon` has kept, or None."""
        return (await self._call(lambda: self._file.notes([name])))[0]

    def note_soon(self, name: str, value: Any) -> None:
        """For what is good to know after a crash, and no loss if it is not."""

        def run() -> None:
            try:
                self._file.write((), {name: value})
            except StoreError as error:
                log.warning("note not kept", extra={"note": name, "error": error.message})

        self._thread.submit(run)

    def _position(self) -> Position:
        assert self.first is not None, "a crawl has begun"
        return position_of(self._file.spans(), self.first, self.watermark, self.beyond)

    # --- What the engine needs of its memory ---

    async def cursor(self) -> str | None:
        return None if self.first is None else str(self.watermark)

    async def feed(self, page: Page) -> int:
        raise AssertionError("no source feeds a ledger: its askers know what is next")

    async def lanes(self, after: str | None, limit: int) -> Sequence[LaneWork]:
        return [] if after is not None else [LaneWork(self.lane, 0.0, self._held)]

    async def lease(self, wants: Mapping[str, int], now: float, ttl: float) -> Lease:
        assert self.askers is not None, "only a crawl asks for work"
        room = wants.get(self.lane, 0)
        tasks = [Task(str(asked.ask.id), self.lane, asked) for asked in self.askers.asks(now, room)]
        self._leased += len(tasks)
        if len(tasks) == room:
            return Lease(tasks, {})
        return Lease(tasks, {self.lane: min(self.askers.wake_at(now), now + _LOOK_EVERY)})

    async def renew(self, keys: Sequence[str], now: float, ttl: float) -> None:
        """Leases are in memory, and this process is alone."""

    async def settle(self, receipts: Sequence[Receipt]) -> None:
        entries = [(receipt, entry) for receipt in receipts for entry in self._entries(receipt)]
        attempts = self._attempts + Counter(str(receipt.reason) for receipt in receipts)
        changes = missed_changes(self.misses, entries)
        came, went = changes.came, changes.went
        notes: dict[str, Any] = {"attempts": dict(attempts), "lane": self.lane}
        notes |= {f"{_MISS}{number}": miss.packed() for number, miss in came.items()}
        notes |= {f"{_MISS}{number}": None for number in went}
        spans = [span_of(entry) for _, entry in entries]
        await self._call(partial(self._write, spans, notes))
        # Committed: only now may memory follow the disk.
        self._attempts = attempts
        self._leased -= len(receipts)
        for number in went:
            self.misses.pop(number, None)
        self.misses |= came
        if came or went:
            for tell in self.told:
                tell(came, went)

    async def hold(self, lane: str, until: float) -> None:
        self._held = until
        await self._call(lambda: self._file.write((), {"held": until}))

    async def counts(self) -> Counts:
        lengths = self.lengths
        missed = Counter(missed_for(miss) for miss in self.misses.values())
        settled = {
            Reason.OK: lengths[Mark.DONE],
            Reason.NOT_FOUND: lengths[Mark.HOLE] + lengths[Mark.GAP],
            Reason.HTTP_ERROR: missed[Reason.HTTP_ERROR],
            Reason.PARSE_ERROR: missed[Reason.PARSE_ERROR],
        }
        known = self.beyond - (self.first or 0)
        waiting = known - sum(settled.values())
        return Counts(
            open=waiting,
            leased=self._leased,
            waiting=max(0, waiting - self._leased),
            remembered=known,
            attempts={Reason(word): count for word, count in self._attempts.items()},
            settled={reason: count for reason, count in settled.items() if count},
        )

    # --- What the commands need besides ---

    async def failures(self, reason: Reason | None = None) -> AsyncIterator[Failure]:
        """Ids that were missed, are withheld, or are holes; gaps are listed as ranges elsewhere."""
        for span in await self._call(lambda: list(self._file.spans())):
            for number, word in failures_in(span, self.misses, reason):
                miss = self.misses.get(number, Miss())
                detail = miss.detail or reason_of(span.word)
                yield Failure(str(number), self.lane, word, detail, miss.attempt, miss.at)

    async def retry(self, reason: Reason | None = None) -> int:
        def run() -> int:
            again = [s for one in self._file.spans() for s in put_back(one, self.misses, reason)]
            if not again:
                return 0
            spans = [Span(s.start, s.end, word_of(Mark.PENDING, "retry")) for s in again]
            lowest = min(self.watermark, spans[0].start)
            notes: dict[str, Any] = {"watermark": lowest}
            notes |= {f"{_MISS}{n}": None for s in spans for n in range(s.start, s.end)}
            self._file.write(spans, notes)
            return sum(span.end - span.start for span in spans)

        return await self._call(run)

    async def marked(self, *marks: Mark) -> Sequence[Span]:
        """Every span with one of these marks; what has no mark yet is pending."""
        return await self._call(lambda: sorted(self._marked(marks)))

    async def show(self, see: Callable[[Span], None], *marks: Mark) -> None:
        """The same one by one, for who keeps few of them; called in the ledger's own thread."""

        def run() -> None:
            for span in self._marked(marks):
                see(span)

        await self._call(run)

    def _marked(self, marks: Sequence[Mark]) -> Iterator[Span]:
        if Mark.PENDING in marks and self.first is not None:
            for start, end in self._position().pending:
                yield Span(start, end, str(Mark.PENDING))
        for span in self._file.spans():
            mark = mark_of(span.word)
            if mark in marks and mark is not Mark.PENDING:
                yield span

    async def intervals(self) -> int:
        return await self._call(self._file.count)

    async def close(self) -> None:
        await self._call(self._file.close)
        self._thread.shutdown(wait=False)

    # --- Inside ---

    def _entries(self, receipt: Receipt) -> Sequence[Entry]:
        asked: Asked = receipt.task.payload
        if receipt.news is not None:
            entries: Sequence[Entry] = receipt.news
            return entries
        assert self.askers is not None
        # The engine's own word: the request was never sent, or our code broke.
        if receipt.reason is Reason.PARKED:
            self.askers.returned(asked)
            return ()
        return self.askers.broke(receipt.at, asked)

    def _write(self, spans: Sequence[Span], notes: dict[str, Any]) -> None:
        for word, change in self._file.write(spans, notes, stands=(DONE,)).items():
            self.lengths[mark_of(word)] += change
        self.beyond = max([self.beyond, *(span.end for span in spans)])
        again = [span.start for span in spans if mark_of(span.word) is Mark.PENDING]
        self.watermark = min([self.watermark, *again])
        self._advance()

    def _advance(self) -> None:
        """Move the watermark over what is settled without a break."""
        for span in self._file.spans(self.watermark, _AHEAD):
            if span.start > self.watermark or mark_of(span.word) is Mark.PENDING:
                return
            self.watermark = span.end

    async def _call(self, run: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, run)
