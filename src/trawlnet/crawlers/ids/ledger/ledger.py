"""The ledger: the state of every id, as intervals."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from trawlnet.crawlers.ids.ledger.missing import failures_in, missed_changes, missed_for, put_back
from trawlnet.crawlers.ids.ledger.position import LedgerPosition, position_of
from trawlnet.crawlers.ids.ledger.span_codec import DONE, Miss, mark_of, reason_of, span_of, word_of
from trawlnet.crawlers.ids.model import LedgerEntry, LedgerMark
from trawlnet.engine.outcome import Reason, Receipt
from trawlnet.engine.ports import Counts, Failure, Ledger, Positioned
from trawlnet.stores.errors import StoreError
from trawlnet.stores.lmdb.spans import SpanFile
from trawlnet.stores.spans import Span, SpanStore

log = logging.getLogger(__name__)

T = TypeVar("T")

_AHEAD = 16  # Spans read to move the watermark: it rarely passes more than two.
_MISS = "missed:"
_NOTES = ("first", "attempts", "held", "watermark", "lane")
_NOBODY = "nobody"  # The lane of a ledger without requests.


class IdsLedger:
    """Made by `await IdsLedger.open(folder)`, or `over` another store of spans. One process writes;
    others open it to read."""

    def __init__(self, lane: str) -> None:
        # One thread: a sync never blocks the event loop, and nothing below needs a lock.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="ledger")
        self.lane = lane
        self.first: int | None = None
        self.watermark = 0
        self.beyond = 0
        self.lengths: Counter[str] = Counter()  # Ids by mark.
        self.misses: dict[int, Miss] = {}
        self._attempts: Counter[str] = Counter()
        self.held = 0.0  # The lane is held until then.
        # Called with the ids that became missed, and that no longer are, after the commit.
        self.on_change: list[Callable[[Iterable[int], Iterable[int]], None]] = []

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
        self.held = held or 0.0
        self.watermark = watermark or self.first or 0
        self.beyond = self.first or 0
        missed: list[int] = []
        for span in file.spans():
            self.beyond = span.end
            mark = mark_of(span.word)
            self.lengths[mark] += span.end - span.start
            if mark is LedgerMark.MISSED:
                missed += range(span.start, span.end)
        noted = file.notes([f"{_MISS}{number}" for number in missed])
        self.misses = {
            n: Miss(*row) if row else Miss() for n, row in zip(missed, noted, strict=True)
        }
        self._advance()

    async def begin(self, first: int) -> None:
        """Start at this id; lower ids are not part of the crawl."""
        await self._call(lambda: self._file.write((), {"first": first}))
        self.first = self.watermark = self.beyond = first

    async def position(self) -> LedgerPosition:
        return await self._call(self._position)

    async def noted(self, name: str) -> Any:
        """A note that `note_soon` has saved, or None."""
        return (await self._call(lambda: self._file.notes([name])))[0]

    def note_soon(self, name: str, value: Any) -> None:
        """Save a note without waiting; a crash may lose it."""

        def run() -> None:
            try:
                self._file.write((), {name: value})
            except StoreError as error:
                log.warning("note not written", extra={"note": name, "error": error.message})

        self._thread.submit(run)

    def _position(self) -> LedgerPosition:
        assert self.first is not None, "a crawl has begun"
        return position_of(self._file.spans(), self.first, self.watermark, self.beyond)

    # --- Writing ---

    async def record(self, batch: Sequence[tuple[Receipt[Any], Sequence[LedgerEntry]]]) -> None:
        """Record attempts and their ledger entries in one transaction."""
        entries = [(receipt, entry) for receipt, all_of_it in batch for entry in all_of_it]
        attempts = self._attempts + Counter(str(receipt.reason) for receipt, _ in batch)
        changes = missed_changes(self.misses, entries)
        came, went = changes.came, changes.went
        notes: dict[str, Any] = {"attempts": dict(attempts), "lane": self.lane}
        notes |= {f"{_MISS}{number}": miss.packed() for number, miss in came.items()}
        notes |= {f"{_MISS}{number}": None for number in went}
        spans = [span_of(entry) for _, entry in entries]
        await self._call(partial(self._write, spans, notes))
        # Memory is updated only after the commit.
        self._attempts = attempts
        for number in went:
            self.misses.pop(number, None)
        self.misses |= came
        if came or went:
            for on_change in self.on_change:
                on_change(came, went)

    async def hold(self, until: float) -> None:
        self.held = until
        await self._call(lambda: self._file.write((), {"held": until}))

    # --- For the commands ---

    async def cursor(self) -> str | None:
        return None if self.first is None else str(self.watermark)

    async def counts(self) -> Counts:
        lengths = self.lengths
        missed = Counter(missed_for(miss) for miss in self.misses.values())
        settled = {
            Reason.OK: lengths[LedgerMark.DONE],
            Reason.NOT_FOUND: lengths[LedgerMark.HOLE] + lengths[LedgerMark.GAP],
            Reason.HTTP_ERROR: missed[Reason.HTTP_ERROR],
            Reason.PARSE_ERROR: missed[Reason.PARSE_ERROR],
        }
        known = self.beyond - (self.first or 0)
        # Unsurveyed ids are neither open nor settled: most of them never existed.
        open_ = known - sum(settled.values()) - lengths[LedgerMark.UNSURVEYED]
        return Counts(
            open=open_,
            waiting=open_,
            remembered=known,
            attempts={Reason(word): count for word, count in self._attempts.items()},
            settled={reason: count for reason, count in settled.items() if count},
        )

    async def failures(self, reason: Reason | None = None) -> AsyncIterator[Failure]:
        """Missed and withheld ids, and holes; gaps are listed as ranges elsewhere."""
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
            spans = [Span(s.start, s.end, word_of(LedgerMark.PENDING, "retry")) for s in again]
            lowest = min(self.watermark, spans[0].start)
            notes: dict[str, Any] = {"watermark": lowest}
            notes |= {f"{_MISS}{n}": None for s in spans for n in range(s.start, s.end)}
            self._file.write(spans, notes)
            return sum(span.end - span.start for span in spans)

        return await self._call(run)

    async def marked(self, *marks: LedgerMark) -> Sequence[Span]:
        """Every span with one of these marks; ids without a mark are pending."""
        return await self._call(lambda: sorted(self._marked(marks)))

    async def show(self, see: Callable[[Span], None], *marks: LedgerMark) -> None:
        """Call `see` with each of these spans, in the ledger's thread, without a list of them."""

        def run() -> None:
            for span in self._marked(marks):
                see(span)

        await self._call(run)

    def _marked(self, marks: Sequence[LedgerMark]) -> Iterator[Span]:
        if LedgerMark.PENDING in marks and self.first is not None:
            for start, end in self._position().pending:
                yield Span(start, end, str(LedgerMark.PENDING))
        for span in self._file.spans():
            mark = mark_of(span.word)
            if mark in marks and mark is not LedgerMark.PENDING:
                yield span

    async def intervals(self) -> int:
        return await self._call(self._file.count)

    async def close(self) -> None:
        await self._call(self._file.close)
        self._thread.shutdown(wait=False)

    # --- Inside ---

    def _write(self, spans: Sequence[Span], notes: dict[str, Any]) -> None:
        for word, change in self._file.write(spans, notes, stands=(DONE,)).items():
            self.lengths[mark_of(word)] += change
        self.beyond = max([self.beyond, *(span.end for span in spans)])
        again = [span.start for span in spans if mark_of(span.word) is LedgerMark.PENDING]
        self.watermark = min([self.watermark, *again])
        self._advance()

    def _advance(self) -> None:
        """Move the watermark to the end of the settled ids."""
        for span in self._file.spans(self.watermark, _AHEAD):
            if span.start > self.watermark or mark_of(span.word) is LedgerMark.PENDING:
                return
            self.watermark = span.end

    async def _call(self, run: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, run)


if TYPE_CHECKING:
    _LEDGER: type[Ledger] = IdsLedger
    _POSITIONED: type[Positioned] = IdsLedger
