"""Inflating: each coding round-trips in any chunking, in bounded pieces, and tells of cuts."""

from __future__ import annotations

import gzip
import random
import zlib

import brotli
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from trawlnet.net.client.inflate import Inflater, inflater_for
from trawlnet.net.trouble import Garbled, Truncated
from trawlnet.sim.spoiling import gzip_bomb, zstd_bomb

LARGEST_PIECE = 1 << 20  # Brotli may overshoot its limit by its own buffer.


def raw_deflate(data: bytes) -> bytes:
    deflater = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return deflater.compress(data) + deflater.flush()


DEFLATERS = [
    ("gzip", gzip.compress),
    ("deflate", zlib.compress),
    ("deflate", raw_deflate),
    ("br", brotli.compress),
    ("zstd", zstandard.compress),
]


def make(name: str) -> Inflater:
    inflater = inflater_for([name])
    assert inflater is not None
    return inflater


def inflate(name: str, data: bytes, step: int) -> bytes:
    inflater = make(name)
    pieces = [p for at in range(0, len(data), step) for p in inflater.feed(data[at : at + step])]
    inflater.finish()
    assert all(len(piece) <= LARGEST_PIECE for piece in pieces)
    return b"".join(pieces)


@pytest.mark.parametrize(("name", "deflate"), DEFLATERS)
@settings(max_examples=30, deadline=None)
@given(data=st.binary(max_size=3000), repeat=st.integers(1, 40), step=st.integers(1, 700))
def test_each_coding_comes_back_whole_in_any_chunking(
    name: str, deflate, data: bytes, repeat: int, step: int
) -> None:
    assert inflate(name, deflate(data * repeat), step) == data * repeat


@pytest.mark.parametrize(("name", "deflate"), DEFLATERS)
@pytest.mark.parametrize("size", [262_143, 262_144, 262_145, 5_000_000])
def test_nothing_is_left_inside_at_the_edge_of_a_piece(name: str, deflate, size: int) -> None:
    data = random.Random(size).randbytes(1000) * (size // 1000) + bytes(size % 1000)
    assert inflate(name, deflate(data), 65536) == data


@pytest.mark.parametrize(("name", "deflate"), DEFLATERS)
def test_a_cut_is_noticed_at_every_point(name: str, deflate) -> None:
    whole = deflate(b"some text that is worth having " * 3)
    for end in range(1, len(whole)):
        inflater = make(name)
        list(inflater.feed(whole[:end]))
        with pytest.raises(Truncated):
            inflater.finish()


@pytest.mark.parametrize("name", ["gzip", "deflate", "br", "zstd"])
def test_garbage_is_garbled(name: str) -> None:
    with pytest.raises(Garbled):
        inflate(name, b"\xff\xfe<html>not compressed at all</html>" * 50, 1000)


@pytest.mark.parametrize("name", ["gzip", "deflate", "br", "zstd"])
@given(data=st.binary(max_size=300))
def test_no_input_raises_anything_else(name: str, data: bytes) -> None:
    try:
        inflate(name, data, 50)
    except (Garbled, Truncated):
        pass


@pytest.mark.parametrize("name", ["gzip", "deflate", "br", "zstd"])
def test_no_body_at_all_is_whole(name: str) -> None:
    assert inflate(name, b"", 1) == b""


@pytest.mark.parametrize(("name", "deflate"), [DEFLATERS[0], DEFLATERS[4]])
@pytest.mark.parametrize("step", [1, 7, 10_000])
def test_streams_one_after_the_other_are_one_body(name: str, deflate, step: int) -> None:
    assert inflate(name, deflate(b"one") + deflate(b"") + deflate(b"two"), step) == b"onetwo"


@pytest.mark.parametrize("step", [1, 10_000])
@pytest.mark.parametrize("padding", [b"\0", b"\0" * 600, b"\x1fz", b"junk"])
def test_padding_after_gzip_is_ignored(padding: bytes, step: int) -> None:
    assert inflate("gzip", gzip.compress(b"text") + padding, step) == b"text"


@pytest.mark.parametrize(("name", "deflate"), [DEFLATERS[0], DEFLATERS[4]])
def test_thousands_of_empty_streams_are_garbled(name: str, deflate) -> None:
    with pytest.raises(Garbled, match="streams"):
        inflate(name, deflate(b"") * 5000, 65536)


@pytest.mark.parametrize(
    ("name", "pieces"), [("gzip", gzip_bomb(1 << 26)), ("zstd", zstd_bomb(1 << 33))]
)
def test_a_bomb_goes_off_one_piece_at_a_time(name: str, pieces: tuple[bytes, ...]) -> None:
    inflater = make(name)
    made = (piece for part in pieces for piece in inflater.feed(part))
    for _ in range(20):
        assert len(next(made)) <= LARGEST_PIECE


def test_a_zstd_window_beyond_what_http_allows_is_garbled() -> None:
    parameters = zstandard.ZstdCompressionParameters(window_log=27)
    data = zstandard.ZstdCompressor(compression_params=parameters).compressobj()
    body = data.compress(random.Random(1).randbytes(100)) + data.flush()
    with pytest.raises(Garbled):
        inflate("zstd", body, 65536)


@pytest.mark.parametrize("name", ["", "identity", " Identity "])
def test_a_plain_body_needs_no_inflating(name: str) -> None:
    assert inflater_for([name]) is None


@pytest.mark.parametrize("name", ["gzip, gzip", "gzip,br", "compress", "x" * 500, "identity, gzip"])
def test_codings_that_were_not_asked_for_are_garbled(name: str) -> None:
    with pytest.raises(Garbled):
        inflater_for([name])
