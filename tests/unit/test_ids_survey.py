"""The survey of an ids crawl tells of every range that was skipped, and keeps only the longest."""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random

from trawlnet.crawlers.ids.config import IdsConfig
from trawlnet.crawlers.ids.ledger.span_codec import word_of
from trawlnet.crawlers.ids.model import LedgerMark
from trawlnet.crawlers.ids.report_survey import survey_ids
from trawlnet.stores.lmdb.spans import SpanFile
from trawlnet.stores.spans import Span

MARKS = (LedgerMark.GAP, LedgerMark.HOLE, LedgerMark.EMBARGOED, LedgerMark.MISSED)


def put_up(workspace: Path, ranges: int) -> list[tuple[LedgerMark, int, int]]:
    """A ledger of skipped ranges with ids that were found between them, and one never asked."""
    rng, at = Random(5), 100
    skipped: list[tuple[LedgerMark, int, int]] = []
    spans: list[Span] = []
    for number in range(ranges):
        mark, length = MARKS[number % len(MARKS)], rng.randrange(1, 9)
        spans.append(Span(at, at + 3, word_of(LedgerMark.DONE, "")))
        spans.append(Span(at + 3, at + 3 + length, word_of(mark, "unavailable")))
        skipped.append((mark, at + 3, length))
        at += 3 + length
    spans.append(Span(at + 1, at + 2, word_of(LedgerMark.DONE, "")))
    file = SpanFile(workspace / "state" / "ids" / "ledger")
    file.write(spans, {"first": 100, "watermark": at})
    file.close()
    return skipped


def test_every_range_counts_and_the_longest_are_listed_first(tmp_path: Path) -> None:
    (tmp_path / "state" / "ids").mkdir(parents=True)
    skipped = put_up(tmp_path, 200)
    facts = asyncio.run(survey_ids(IdsConfig(), tmp_path))
    assert facts is not None
    assert facts.ranges == {"gap": 50, "hole": 50, "embargoed": 50, "pending": 1}
    ids = {mark: sum(n for kind, _, n in skipped if kind is mark) for mark in MARKS}
    assert facts.missed == {"unavailable": ids[LedgerMark.MISSED]}
    assert facts.marks["pending"] == 1 and facts.marks["gap"] == ids[LedgerMark.GAP]
    assert facts.gap_lengths.total() == 50
    named = sorted((-n, at) for mark, at, n in skipped if mark is not LedgerMark.MISSED)[:25]
    assert [(span.start - span.end, span.start) for span in facts.largest] == named
