"""Text of records, whatever stands in it and wherever a wide load ends; in C and in Python."""

from __future__ import annotations

import json
from itertools import product
from random import Random

import pytest

from tests.support.repos.extractors import BACKENDS, Extract, records_of
from tests.support.repos.made_repos import field, make_car, text
from trawlnet.archive.format.content import DropReason, ExtractOptions

# Each is the first or last of its kind: of leads by length, and of what may follow which lead.
EDGES = bytes.fromhex(
    "00 1f 20 7f 80 8f 90 9f a0 bf c0 c1 c2 df e0 e1 ec ed ee ef f0 f1 f3 f4 f5 ff"
)
WIDTH = 32


@pytest.fixture(params=BACKENDS)
def extract(request: pytest.FixtureRequest) -> Extract:
    found: Extract = request.param
    return found


def check(extract: Extract, texts: list[bytes]) -> None:
    """Well-formed texts come back as they were, others are dropped; each is judged by itself."""
    car = make_car({f"a.b.c/{n}": field(text(raw)) for n, raw in enumerate(texts)})
    content = extract(car, ExtractOptions())
    found = {path: json.loads(record)["v"] for path, record in records_of(content).items()}
    wanted = {f"a.b.c/{n}": decoded(raw) for n, raw in enumerate(texts)}
    bad = [path for path, value in wanted.items() if value is None]
    assert found == {path: value for path, value in wanted.items() if value is not None}
    assert content.dropped == ({DropReason.BAD_UTF8: len(bad)} if bad else {})


def decoded(raw: bytes) -> str | None:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return None


def test_every_edge_before_every_other(extract: Extract) -> None:
    pairs = [bytes(pair) for pair in product(EDGES, EDGES)]
    # Across the seam of two wide loads, and with as many continuations as the lead may want.
    start = b"\xc3\xa9" + b"e" * (WIDTH - 3)
    check(extract, [start + pair + b"\x80" * (n % 3) for n, pair in enumerate(pairs)])


def test_sequences_cut_at_any_place_of_a_wide_load(extract: Extract) -> None:
    marks = [mark.encode() for mark in ("é", "海", "🌊", "\U0010ffff", "\ud7ff", "\n", '"')]
    texts = []
    # Wide loads of odd text begin where it is odd first.
    for start, place, mark in product((b"", b"\xc3\xa9"), range(WIDTH + 1), marks):
        raw, cut = (start + b"x" * place + begun + b"\xc3\xbc" for begun in (mark, mark[:-1]))
        texts += [raw, raw[:-1], raw + b"y" * WIDTH, cut, cut + b"y" * WIDTH]
    check(extract, texts)


@pytest.mark.parametrize("seed", range(2))
def test_mixed_texts_with_and_without_damage(extract: Extract, seed: int) -> None:
    rng = Random(seed)
    alphabet = ["a", "b ", "é", "и", "海", "ไ", "한", "🌊", "\U0010ffff", "\t", '"', "\\", "\x7f"]
    texts = []
    for _ in range(700):
        raw = bytearray("".join(rng.choices(alphabet, k=rng.randrange(1, 60))).encode())
        if rng.random() < 0.5:
            raw[rng.randrange(len(raw))] = rng.choice(EDGES)
        texts.append(bytes(raw))
    check(extract, texts)
