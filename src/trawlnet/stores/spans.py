"""Spans of whole numbers, each with a word; laying a new span over old ones is a pure function."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol


class Span(NamedTuple):
    """The numbers in [start, end) have this word."""

    start: int
    end: int
    word: str


class SpanStore(Protocol):
    """Durable spans and notes; for one thread."""

    def write(
        self, spans: Sequence[Span], notes: Mapping[str, Any], stands: Container[str] = ()
    ) -> dict[str, int]:
        """Lay the spans in this order and save the notes, in one durable transaction. A note of
        None is deleted. Returns by how much each word's total length has changed."""

    def notes(self, names: Sequence[str]) -> list[Any]:
        """The values of these notes, in order; None for one that was never saved."""

    def spans(self, after: int = 0, at_once: int = ...) -> Iterator[Span]:
        """The spans that end beyond `after`, in order; reads `at_once` rows at a time."""

    def count(self) -> int: ...

    def close(self) -> None: ...


def overlay(old: Sequence[Span], new: Span, stands: Container[str] = ()) -> list[Span]:
    """The spans after laying `new` over `old`; an old span whose word is in `stands` stays.

    `old` is in order and holds everything that overlaps or touches the new one: neighbours with
    the same word become one span.
    """
    pieces: list[Span] = []
    reached = new.start
    for span in old:
        if span.start < new.start:
            pieces.append(Span(span.start, min(span.end, new.start), span.word))
        if span.word in stands:
            kept = Span(max(span.start, new.start), min(span.end, new.end), span.word)
            if kept.start < kept.end:
                pieces += [Span(reached, kept.start, new.word), kept]
                reached = kept.end
    pieces.append(Span(reached, new.end, new.word))
    pieces += [Span(max(s.start, new.end), s.end, s.word) for s in old if s.end > new.end]
    return list(merged(piece for piece in pieces if piece.start < piece.end))


def merged(spans: Iterable[Span]) -> Iterator[Span]:
    """Spans in order, with adjacent ones of the same word merged."""
    last: Span | None = None
    for span in spans:
        if last is not None and last.word == span.word and span.start <= last.end:
            last = Span(last.start, max(last.end, span.end), last.word)
            continue
        if last is not None:
            yield last
        last = span
    if last is not None:
        yield last


def gathered(spans: Sequence[Span]) -> Iterator[Span]:
    """The same spans to lay, in the same order, merged into fewer where neighbours in the list
    have the same word."""
    run: list[Span] = []
    for span in spans:
        if run and run[0].word != span.word:
            yield from merged(sorted(run))
            run = []
        run.append(span)
    yield from merged(sorted(run))
