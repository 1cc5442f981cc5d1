"""The position of a crawl of ids, read from the spans of its ledger."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from trawlnet.crawlers.ids.adaptive.survey import step_asked
from trawlnet.crawlers.ids.ledger.span_codec import mark_of, reason_of, word_of
from trawlnet.crawlers.ids.model import LedgerMark
from trawlnet.stores.spans import Span

# Gaps from before the survey existed: only their edges were checked.
_NOT_LOOKED_INTO = frozenset(
    word_of(LedgerMark.GAP, f"skipped by the {who}") for who in ("counter", "gap checker")
)


@dataclass(frozen=True, slots=True)
class LedgerPosition:
    """The data that a pilot needs to continue."""

    first: int
    watermark: int  # Every id below it is settled.
    beyond: int  # No id from here on is settled.
    pending: Sequence[tuple[int, int]]  # Unsettled ranges between the two.
    embargoed: Sequence[tuple[int, int]]
    unsurveyed: Sequence[tuple[int, int, int]] = ()  # Inside gaps; every so many were asked for.


def position_of(spans: Iterable[Span], first: int, watermark: int, beyond: int) -> LedgerPosition:
    pending: list[tuple[int, int]] = []
    embargoed: list[tuple[int, int]] = []
    unsurveyed: list[tuple[int, int, int]] = []
    reached = watermark
    for span in spans:
        mark = mark_of(span.word)
        if mark is LedgerMark.EMBARGOED:
            embargoed.append((span.start, span.end))
        if mark is LedgerMark.UNSURVEYED or span.word in _NOT_LOOKED_INTO:
            unsurveyed.append((span.start, span.end, step_asked(reason_of(span.word))))
        if span.end > reached and mark is not LedgerMark.PENDING:
            if span.start > reached:
                pending.append((reached, span.start))
            reached = span.end
    if beyond > reached:
        pending.append((reached, beyond))
    return LedgerPosition(first, watermark, beyond, pending, embargoed, unsurveyed)
