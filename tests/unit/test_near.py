"""Nearly equal fingerprints, in memory and on disk."""

from __future__ import annotations

import random
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from trawlnet.captures.line import CaptureLine
from trawlnet.captures.near_duplicates import MOST_BITS, Near
from trawlnet.captures.page_index import Checkpoint, PageIndex

WORD = st.integers(0, 2**64 - 1)


@given(WORD, st.sets(st.integers(0, 63), max_size=6))
def test_any_three_bits_may_differ_and_no_more(simhash: int, flipped: set[int]) -> None:
    near = Near()
    near.add(simhash, b"first")
    other = simhash
    for bit in flipped:
        other ^= 1 << bit
    assert near.has(other, MOST_BITS, b"second") == (len(flipped) <= MOST_BITS)
    assert not near.has(other, MOST_BITS, b"first")


def test_the_index_finds_what_comparing_with_all_would_find(tmp_path: Path) -> None:
    dice = random.Random(1)
    known = [dice.getrandbits(64) for _ in range(3_000)]
    index = PageIndex(tmp_path)
    lines = [line(n, simhash) for n, simhash in enumerate(known)]
    index.apply(lines[:2_000])
    index.commit(Checkpoint())
    index.apply(lines[2_000:])
    for simhash in dice.sample(known, 300):
        asked = simhash
        for _ in range(dice.randint(0, 5)):
            asked ^= 1 << dice.randrange(64)
        expected = any((asked ^ other).bit_count() <= 3 for other in known)
        assert index.near(asked, 3, besides="http://elsewhere.test/") == expected
    index.close()


def line(n: int, simhash: int) -> CaptureLine:
    return CaptureLine(1, "run", str(n), 1.0, f"http://site.test/{n}", 200, simhash=simhash)
