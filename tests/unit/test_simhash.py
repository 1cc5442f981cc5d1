"""Fingerprints: close for texts that are nearly the same, far for others, the same for ever."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trawlnet.captures.near_duplicates import MOST_BITS
from trawlnet.webpage.simhash import simhash

PROSE = "the quick brown fox jumps over a lazy dog while children read old books about rivers"
WORDS = PROSE.split()
CHINESE = [chr(0x4E00 + 37 * n) for n in range(300)]


def distance(one: int, other: int) -> int:
    return (one ^ other).bit_count()


def text(seed: int, vocabulary: list[str], count: int = 2000) -> list[str]:
    rng = random.Random(seed)
    return [rng.choice(vocabulary) + str(rng.randrange(3)) for _ in range(count)]


@pytest.mark.parametrize("vocabulary", [WORDS, CHINESE], ids=["latin", "han"])
def test_a_small_change_moves_few_bits_and_another_text_moves_many(vocabulary: list[str]) -> None:
    words = text(1, vocabulary)
    here = simhash(" ".join(words))
    changed = [*words[:900], "a", "visitor", "counter", "4711", *words[900:]]
    assert distance(here, simhash(" ".join(changed))) <= 2 * MOST_BITS
    assert distance(here, simhash(" ".join(changed))) < 10
    assert min(distance(here, simhash(" ".join(text(n, vocabulary)))) for n in range(2, 12)) > 12


def test_case_and_space_do_not_matter() -> None:
    assert simhash("Some  Words\nhere") == simhash("some words here") != 0


def test_a_fingerprint_is_the_same_in_every_process() -> None:
    assert simhash("the quick brown fox jumps over the lazy dog") == FOX
    assert simhash("") == simhash(" \n") == 0


FOX = 0xB0A5ABE7E20446B4


def test_distance_counts_bits() -> None:
    assert distance(0, 0) == 0 and distance(0, (1 << 64) - 1) == 64 and distance(5, 6) == 2


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=300))
def test_any_text_has_one(words: str) -> None:
    assert 0 <= simhash(words) < 1 << 64
