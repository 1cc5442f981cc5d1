"""Spans of whole numbers, each with a word: laying a new one over old ones, as a pure function."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol


class Span(NamedTuple):
    """[start, end) is so."""

    start: int
    end: int
    word: str


class SpanStore(Protocol):
    """Spans and notes that outlive their process; for one thread."""

    def write(
        self, spans: Sequence[Span], notes: Mapping[str, Any], stands: Container[str] = ()
    ) -> dict[str, int]:
        """Lay the spans in this order and keep the notes, all or nothing, for good. A note of
        None is deleted. Returns by how much each word's length has changed."""

    def notes(self, names: Sequence[str]) -> list[Any]:
        """In that order; None for one that was never kept."""

    def spans(self, after: int = 0, at_once: int = ...) -> Iterator[Span]:
        """Those that end beyond `after`, in order; so many are read in one go."""

    def count(self) -> int: ...

    def close(self) -> None: ...


def overlay(old: Sequence[Span], new: Span, stands: Container[str] = ()) -> list[Span]:
    """The spans after `new` was laid over them; where the word of an old one stands, it stays.

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
    """Spans in order, with touching ones of the same word made one."""
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
    """The same spans, to be laid in this order, in fewer of them: neighbours in the list that
    have the same word may change places."""
    run: list[Span] = []
    for span in spans:
        if run and run[0].word != span.word:
            yield from merged(sorted(run))
            run = []
        run.append(span)
    yield from merged(sorted(run))
