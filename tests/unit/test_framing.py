"""How many bytes that are no body an answer may have, to the byte."""

from __future__ import annotations

import pytest
from multidict import CIMultiDict, CIMultiDictProxy

from trawlnet.net.client.framing import (
    UNCODED,
    Framing,
    Overhead,
    framing_of,
    is_folded,
    is_idle_tls,
    length_of,
)

LONGEST = 1000


def test_heads_are_bounded_all_informational_ones_together() -> None:
    overhead = Overhead(LONGEST)
    assert not overhead.count_head(600)
    assert not overhead.count_head(400)
    assert overhead.count_head(1) == "a head of more than 1000 bytes"


def test_after_any_body_what_comes_in_a_row_is_bounded_like_a_head() -> None:
    overhead = Overhead(LONGEST)
    overhead.end_head(50)
    assert not overhead.count_framed(1_000_000, 999_000)
    assert not overhead.count_framed(LONGEST, 0)
    assert "in a row" in overhead.count_framed(1, 0)


def test_body_in_between_begins_a_new_row() -> None:
    overhead = Overhead(LONGEST)
    overhead.end_head(0)
    for _ in range(20):
        assert not overhead.count_framed(LONGEST, 0)
        assert not overhead.count_framed(100, 100)
    assert overhead.framing == 20 * LONGEST


def test_framing_is_bounded_by_the_body_that_it_frames() -> None:
    overhead = Overhead(LONGEST)
    overhead.end_head(0)
    for _ in range(100):  # A chunk of one byte, as short as that is written and twice as long.
        assert not overhead.count_framed(6, 1)
        assert not overhead.count_framed(11, 1)
    wrapped = [overhead.count_framed(61, 1) for _ in range(100)]
    assert wrapped[0] == ""
    assert "bytes of framing around" in wrapped[-1]


@pytest.mark.parametrize(
    ("fields", "framing", "length"),
    [
        ({}, UNCODED, None),
        ({"Content-Length": "12"}, UNCODED, 12),
        ({"Content-Length": "0"}, UNCODED, 0),
        ({"Content-Length": "twelve"}, UNCODED, None),
        ({"Content-Length": "1" * 20}, UNCODED, None),
        ({"Transfer-Encoding": "chunked"}, Framing(True), None),
        ({"Transfer-Encoding": "CHUNKED"}, Framing(True), None),
    ],
)
def test_a_body_is_delimited_by_its_head(
    fields: dict[str, str], framing: Framing, length: int | None
) -> None:
    headers = CIMultiDictProxy(CIMultiDict(fields))
    assert framing_of(headers) == framing
    assert length_of(headers) == length


@pytest.mark.parametrize("coding", ["", "gzip", "gzip, chunked", "chunked, chunked"])
def test_a_coding_that_was_not_asked_for_is_refused(coding: str) -> None:
    framing = framing_of(CIMultiDictProxy(CIMultiDict({"Transfer-Encoding": coding})))
    assert framing.refusal and not framing.is_chunked


def test_a_line_may_be_folded_but_not_without_end() -> None:
    assert not is_folded(memoryview(b"X: y" + b"\r\n z" * 64))
    assert is_folded(memoryview(b"X: y" + b"\r\n z" * 65))
    assert is_folded(memoryview(b"X: y" + b"\r\n\tz" * 65))
    assert not is_folded(memoryview(b"X: y\r\n" * 1000))


def test_tls_may_take_in_more_than_it_gives_out_but_not_anything() -> None:
    assert not is_idle_tls(16 << 20, 0)
    assert is_idle_tls((16 << 20) + 1, 0)
    assert not is_idle_tls(1 << 30, 1 << 26)
