"""Spans over whole numbers, against a plain table of every number."""

from __future__ import annotations

import itertools
import subprocess
import sys
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from trawlnet.stores.lmdb.spans import SpanFile
from trawlnet.stores.spans import Span, gathered, overlay

WORDS = ("done", "pending", "gap")
spans = st.builds(
    lambda start, length, word: Span(start, start + length, word),
    st.integers(0, 60),
    st.integers(1, 20),
    st.sampled_from(WORDS),
)


def plain(laid: list[Span]) -> dict[int, str]:
    """Number by number; what is done stays so."""
    table: dict[int, str] = {}
    for span in laid:
        for number in range(span.start, span.end):
            if table.get(number) != "done":
                table[number] = span.word
    return table


def spelled(stored: list[Span]) -> dict[int, str]:
    return {number: span.word for span in stored for number in range(span.start, span.end)}


@given(st.lists(spans, max_size=30))
def test_laying_spans_is_the_same_as_writing_every_number(laid: list[Span]) -> None:
    stored: list[Span] = []
    for new in laid:
        touching = [s for s in stored if s.start <= new.end and s.end >= new.start]
        rest = [s for s in stored if s not in touching]
        stored = sorted(rest + overlay(touching, new, {"done"}))
        for one, two in itertools.pairwise(stored):
            assert one.end <= two.start
            assert one.end < two.start or one.word != two.word, "neighbours are one span"
    assert spelled(stored) == plain(laid)


@given(st.lists(spans, max_size=30))
def test_gathering_changes_nothing_but_the_number_of_spans(laid: list[Span]) -> None:
    assert plain(list(gathered(laid))) == plain(laid)


READER = """
import sys
from pathlib import Path
from trawlnet.stores.lmdb.spans import SpanFile
file = SpanFile(Path(sys.argv[1]), readonly=True)
print(*file.notes(["first"]), *(tuple(span) for span in file.spans()), flush=True)
input()
print(*file.notes(["first"]), *(tuple(span) for span in file.spans()))
"""


def test_another_process_may_read_while_one_writes(tmp_path: Path) -> None:
    writer = SpanFile(tmp_path)
    writer.write([Span(1, 5, "done")], {"first": 1})
    command = [sys.executable, "-c", READER, str(tmp_path)]
    with subprocess.Popen(command, stdin=-1, stdout=-1, text=True) as reader:
        assert reader.stdout is not None
        assert reader.stdout.readline() == "1 (1, 5, 'done')\n"
        writer.write([Span(5, 9, "done")], {"first": None})
        assert reader.communicate("\n")[0] == "None (1, 9, 'done')\n"
