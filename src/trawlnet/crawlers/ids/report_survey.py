"""Gathers the data of a report from the ledger, its decisions, and the history."""

from __future__ import annotations

import heapq
import json
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trawlnet.crawlers.ids.config import IdsConfig
from trawlnet.crawlers.ids.ledger.ledger import IdsLedger
from trawlnet.crawlers.ids.ledger.notes import DECISIONS
from trawlnet.crawlers.ids.ledger.open_ledger import looked_at
from trawlnet.crawlers.ids.ledger.span_codec import mark_of, reason_of
from trawlnet.crawlers.ids.model import SKIPPED_MARKS, LedgerMark
from trawlnet.crawlers.ids.storing.locations import instances_place
from trawlnet.engine.ports import Counts
from trawlnet.observe.history import Sample, read_history
from trawlnet.observe.live import HISTORY
from trawlnet.stores.spans import Span
from trawlnet.tables.instances.report import InstanceFigures, instance_figures

_LARGEST = 25
_DECISIONS = 2000
_SAMPLES = 20_000


@dataclass(frozen=True, slots=True)
class IdsFacts:
    """The data of a report."""

    first: int
    watermark: int
    beyond: int
    counts: Counts
    marks: Mapping[str, int]  # The number of ids by mark.
    ranges: Mapping[str, int]  # The number of skipped ranges by mark.
    largest: Sequence[Span]
    missed: Mapping[str, int]  # The number of missed ids by reason.
    decisions: Sequence[Mapping[str, Any]] = ()
    history: Sequence[Sample] = ()
    instances: InstanceFigures | None = None
    gap_lengths: Counter[int] = field(default_factory=Counter)  # By the power of 2.


async def survey_ids(config: IdsConfig, workspace: Path) -> IdsFacts | None:
    """None for a crawl that never began. Read-only, so a crawl may be running."""
    state = workspace / "state" / "ids"
    async with looked_at(config, state) as ledger:
        if ledger is None or ledger.first is None:
            return None
        skipped = _SkippedRanges()
        await ledger.show(skipped.add, *SKIPPED_MARKS, LedgerMark.MISSED)
        return IdsFacts(
            first=ledger.first,
            watermark=ledger.watermark,
            beyond=ledger.beyond,
            counts=await ledger.counts(),
            marks=_marks(ledger, skipped.pending),
            ranges=skipped.ranges,
            largest=skipped.largest,
            missed=skipped.missed,
            decisions=read_decisions(state / DECISIONS),
            history=read_history(state / HISTORY, 0.0, _SAMPLES),
            instances=await instance_figures(instances_place(config, workspace)),
            gap_lengths=skipped.gap_lengths,
        )


def read_decisions(path: Path) -> list[Mapping[str, Any]]:
    """The last decisions, oldest first; incomplete lines are skipped."""
    try:
        with path.open("rb") as file:
            lines = deque(file, _DECISIONS)
    except FileNotFoundError:
        return []
    found: list[Mapping[str, Any]] = []
    for line in lines:
        try:
            decision = json.loads(line)
        except ValueError:
            continue
        if isinstance(decision, dict) and isinstance(decision.get("at"), int | float):
            found.append(decision)
    return found


class _SkippedRanges:
    """Counts the ranges of skipped ids, one at a time: a crawl of years has millions."""

    def __init__(self) -> None:
        self.ranges: Counter[str] = Counter()
        self.missed: Counter[str] = Counter()
        self.gap_lengths: Counter[int] = Counter()
        self.pending = 0  # Ids.
        self._longest: list[tuple[int, int, Span]] = []  # A heap; of equal ones the first stays.

    def add(self, span: Span) -> None:
        mark, length = mark_of(span.word), span.end - span.start
        if mark is LedgerMark.MISSED:
            self.missed[reason_of(span.word) or str(LedgerMark.MISSED)] += length
            return
        self.ranges[str(mark)] += 1
        if mark is LedgerMark.PENDING:
            self.pending += length
        elif mark is LedgerMark.GAP:
            self.gap_lengths[length.bit_length() - 1] += 1
        ranked = (length, -span.start, span)
        if len(self._longest) < _LARGEST:
            heapq.heappush(self._longest, ranked)
        else:
            heapq.heappushpop(self._longest, ranked)

    @property
    def largest(self) -> Sequence[Span]:
        return [span for _, _, span in sorted(self._longest, reverse=True)]


def _marks(ledger: IdsLedger, pending: int) -> Mapping[str, int]:
    """Pending ids have no spans of their own: they are the rest between the others."""
    marks = {
        str(mark): ledger.lengths[mark] for mark in LedgerMark if mark is not LedgerMark.PENDING
    }
    return {name: n for name, n in {**marks, str(LedgerMark.PENDING): pending}.items() if n}
