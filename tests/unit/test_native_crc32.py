"""CRC-32 in C: the figures zlib gives, and the constants that the polynomial gives."""

from __future__ import annotations

import re
import zlib
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest

from tests.support.repos.extractors import HAS_NATIVE, needs_native

if HAS_NATIVE:
    from trawlnet.native import _repo

SOURCE = Path(__file__).parents[2] / "src" / "trawlnet" / "native" / "hash" / "crc32.c"
WAYS = ["crc32", "crc32_portable"]


@needs_native
@pytest.mark.parametrize("way", WAYS)
def test_any_run_of_bytes_has_zlibs_crc(way: str) -> None:
    rng = Random(0)
    data = rng.randbytes(5000)
    crc = getattr(_repo, way)
    # Each length up to some strides, at each place in a register's width.
    spans = [(n % 16, n) for n in range(300)]
    spans += [(rng.randrange(1000), rng.randrange(4000)) for _ in range(500)]
    for start, length in spans:
        piece = memoryview(data)[start : start + length]
        before = rng.choice((0, 0xFFFFFFFF, rng.getrandbits(32)))
        assert crc(piece, before) == zlib.crc32(piece, before), (start, length, before)


@needs_native
@pytest.mark.parametrize("way", WAYS)
def test_runs_of_equal_bytes_have_zlibs_crc(way: str) -> None:
    for byte in (b"\0", b"\x80", b"\xff"):
        for length in (0, 1, 15, 16, 63, 64, 65, 127, 128, 4096):
            assert getattr(_repo, way)(byte * length) == zlib.crc32(byte * length)


@needs_native
@pytest.mark.parametrize("way", WAYS)
def test_pieces_one_after_the_other_have_the_crc_of_the_whole(way: str) -> None:
    rng = Random(1)
    data, crc = rng.randbytes(3000), 0
    cuts = [0, *sorted(rng.sample(range(3000), 20)), 3000]
    for start, end in pairwise(cuts):
        crc = getattr(_repo, way)(data[start:end], crc)
    assert crc == zlib.crc32(data)


def test_the_constants_are_powers_of_x_modulo_the_polynomial() -> None:
    for name, bits in (("FOUR_ON", 512), ("ONE_ON", 128)):
        found = re.search(rf"{name}\[2\] = {{(0x\w+), (0x\w+)}}", SOURCE.read_text())
        assert found, name
        in_source = [int(text, 16) for text in found.groups()]
        assert in_source == [_reflected(_power(bits + 63)), _reflected(_power(bits - 1))]


def _power(n: int) -> int:
    """x^n modulo the polynomial of CRC-32, highest coefficient first."""
    value = 1
    for _ in range(n):
        value <<= 1
        if value >> 32:
            value ^= 0x104C11DB7
    return value


def _reflected(value: int) -> int:
    return int(f"{value:064b}"[::-1], 2)
