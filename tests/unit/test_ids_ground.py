"""The survey of a gap: how fine, how fast, what it writes down, and where it goes on."""

from __future__ import annotations

import random
from collections.abc import Callable
from itertools import pairwise

import pytest

from trawlnet.crawlers.ids.adaptive.crossings import Crossings
from trawlnet.crawlers.ids.adaptive.survey import (
    ISLAND,
    Ground,
    asked_every,
    finest_step,
    step_asked,
    survey_rate,
)
from trawlnet.crawlers.ids.adaptive.walk import Walk
from trawlnet.crawlers.ids.ledger.position import position_of
from trawlnet.crawlers.ids.ledger.span_codec import span_of
from trawlnet.crawlers.ids.model import LedgerEntry, LedgerMark, Purpose
from trawlnet.stores.spans import Span, overlay

Exists = Callable[[int], bool | None]


def surveyed(ground: Ground, exists: Exists, most: int = 10**6) -> list[int]:
    """Answer everything that it asks for; what that was."""
    now, asked = 0.0, []
    ground.retune(now, 1000.0)
    while len(asked) < most and (at := ground.next_at(now)) < float("inf"):
        now = max(now + 0.01, at)
        for i in ground.take(now, 100):
            asked.append(i)
            ground.answered(i, exists(i))
    return asked


def laid(entries: list[LedgerEntry]) -> list[Span]:
    spans: list[Span] = []
    for entry in entries:
        spans = overlay(spans, span_of(entry))
    return spans


@pytest.mark.parametrize("size", [1, 2, 63, 900, 5000, 77_777, 1_000_003])
def test_nothing_is_a_gap_before_it_was_asked_for_finely_enough(size: int) -> None:
    ground = Ground()
    ground.add(1001, 1001 + size)
    asked = surveyed(ground, lambda i: False)
    assert len(asked) == len(set(asked))
    assert max(b - a for a, b in pairwise([1000, *sorted(asked), 1001 + size])) <= (
        finest_step(size)
    )
    (gap,) = laid(ground.entries)
    assert (gap.start, gap.end) == (1001, 1001 + size)
    assert gap.word.startswith("gap ")
    assert not ground and ground.lowest is None


def test_an_island_of_the_smallest_size_is_found_wherever_it_lies() -> None:
    draw, size = random.Random(1), 300_000
    for _ in range(20):
        start = draw.randrange(0, size - ISLAND)
        island = range(start, start + ISLAND)
        ground = Ground()
        ground.add(0, size)
        surveyed(ground, island.__contains__)
        found = {i for one in ground.islands for i in range(one.start, one.end)}
        assert found >= set(island)
        assert not any(e.mark is LedgerMark.GAP and e.start < island.stop and island.start < e.end
                       for e in ground.entries)  # fmt: skip


def test_what_cannot_be_asked_for_is_no_gap() -> None:
    """A server that refuses, or sends what cannot be read, has not said that nothing is there."""
    ground = Ground()
    ground.add(0, 5000)
    surveyed(ground, lambda i: None if i == 1024 else False)
    (island,) = ground.islands
    assert island.unread == (1024,) and island.hits == ()
    assert LedgerMark.PENDING in {e.mark for e in ground.entries if e.start <= 1024 < e.end}
    walk = Walk(10_000, 1, [])
    Crossings(walk)._land(island)
    assert 1024 in walk.old(200)


def test_a_survey_goes_on_where_the_ledger_stands() -> None:
    ground = Ground()
    ground.add(0, 100_000)
    before = surveyed(ground, lambda i: False, most=900)
    spans = laid(ground.entries)
    assert {span.word.split()[0] for span in spans} == {"unsurveyed"}
    position = position_of(spans, 0, 100_000, 100_000)
    assert position.pending == []
    again = surveyed(Ground(position.unsurveyed), lambda i: False)
    # No more than the chunk that was under way is asked for twice.
    assert len(set(before) & set(again)) <= 256
    assert max(b - a for a, b in pairwise(sorted({*before, *again}))) <= finest_step(100_000)


def test_gaps_of_older_ledgers_are_surveyed() -> None:
    """Only their edges had been looked at."""
    marks = [
        Span(0, 10, "done"),
        Span(10, 5000, "gap skipped by the counter"),
        Span(5000, 5010, "done"),
        Span(5010, 6000, "gap skipped by the gap checker"),
        Span(6000, 6009, "gap left out on purpose"),
        Span(6009, 7000, "gap 1 of 64 ids was asked for"),
        Span(7000, 8000, "unsurveyed 1 of 16 ids was asked for"),
    ]
    position = position_of(marks, 0, 8000, 8000)
    assert position.unsurveyed == [(10, 5000, 0), (5010, 6000, 0), (7000, 8000, 16)]


def test_the_reason_of_a_mark_tells_the_step() -> None:
    assert [step_asked(asked_every(1 << k)) for k in range(30)] == [1 << k for k in range(30)]
    assert step_asked("") == step_asked("left out on purpose") == 0


def test_a_survey_has_a_small_share_of_the_requests() -> None:
    assert [survey_rate(pace) for pace in (0.4, 2.0, 6.0, 50.0, 400.0)] == [
        0.1, 0.5, 1.0, 5.0, 40.0,
    ]  # fmt: skip
    ground = Ground()
    ground.add(0, 10**9)
    ground.retune(0.0, 5.0)
    taken = [len(ground.take(k / 10.0, 100)) for k in range(600)]
    assert sum(taken) <= 60 * 5 + 5
    assert taken[1:] and max(taken[1:]) <= 1, "no bursts"


def test_an_id_that_a_probe_has_fetched_is_not_asked_for_again() -> None:
    """Its answer would be published twice."""
    walk = Walk(100_000, 1, [])
    crossings = Crossings(walk)
    crossings.ground.add(0, 1000)
    crossings.ground.retune(0.0, 1e6)
    walk.fetched_ahead(512)
    asked: list[int] = []
    for second in range(1, 20):
        for i in crossings.take(float(second), 500):
            asked.append(i)
            if i in crossings.ground:
                assert crossings.ask(i).purpose is Purpose.SURVEY
            crossings.answered(float(second), i, False)
    assert len(asked) > 100 and 512 not in asked
