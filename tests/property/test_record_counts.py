"""Counting records in C and in plain Python comes to the same, whatever strangers wrote."""

from __future__ import annotations

import json
import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from random import Random
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.repos.extractors import HAS_NATIVE, needs_native
from tests.support.repos.made_records import (
    DEEPEST,
    LIKE,
    ODD_JSON,
    POST,
    as_entries,
    mutated,
    nested,
)
from trawlnet.archive.format.record_counts import RecordCounts, new_counts
from trawlnet.archive.format.record_counts_plain import PlainRecordCounts

# More rounds for a long run: TRAWLNET_TWIN_ROUNDS=1000000 pytest <this file>
ROUNDS = int(os.environ.get("TRAWLNET_TWIN_ROUNDS", "4000"))

COUNTERS = [pytest.param(PlainRecordCounts, id="plain")]
if HAS_NATIVE:
    COUNTERS.append(pytest.param(new_counts, id="native"))


def figures(counts: RecordCounts) -> tuple[Any, ...]:
    """In their order too: it shows in a report."""
    return list(counts.months().items()), counts.undated(), list(counts.languages().items())


def agree(entries: bytes, count: int) -> tuple[Any, ...]:
    """What both say after having counted other records before, so that a lapse would show."""
    told = []
    for counts in (new_counts(), PlainRecordCounts()):
        assert counts.add(as_entries([LIKE, POST]), 2)
        told.append((counts.add(entries, count), *figures(counts)))
    assert told[0] == told[1]
    return told[0]


def agree_alone(body: bytes) -> tuple[Any, ...]:
    """As the last record, where less than a wide load is left, and before others."""
    verdict = agree(as_entries([body]), 1)
    agree(as_entries([body, LIKE]), 2)
    return verdict


# What is right.


@pytest.mark.parametrize("make", COUNTERS)
def test_months_and_languages_are_of_the_record_itself(make: Any) -> None:
    counts = make()
    assert counts.add(as_entries([POST, LIKE, POST]), 3)
    assert counts.months() == {"2023-11": 1, "2024-03": 2} and counts.undated() == 0
    assert counts.languages() == {"en": 2, "pt": 2}


@pytest.mark.parametrize("make", COUNTERS)
@pytest.mark.parametrize(
    ("body", "month"),
    [
        (b'{"createdAt":"2024-02"}', "2024-02"),
        (b'{"created\\u0041t":"2024\\u002d02-01"}', "2024-02"),
        (b'{"createdAt":"2024-01-01","createdAt":"2024-02-01"}', "2024-02"),
        (b'{"x":{"createdAt":"2024-02-01"}}', ""),
        (b'{"createdAt":"2024-02-01","x":"\xff"}', ""),
        (b'{"createdAt":"2024-02-01"', ""),
        (b'{"createdAt":"20\xd9\xa2\xd9\xa4-02-01"}', ""),
        (b'{"createdAt":"2024-02\\n"}', ""),
        (nested(DEEPEST), "2024-01"),
        (nested(DEEPEST + 1), ""),
    ],
)
def test_a_month_counts_if_the_record_is_sound(make: Any, body: bytes, month: str) -> None:
    counts = make()
    assert counts.add(as_entries([body]), 1)
    assert counts.months() == ({month: 1} if month else {})
    assert counts.undated() == (0 if month else 1)


@pytest.mark.parametrize("make", COUNTERS)
def test_entries_that_end_early_add_nothing(make: Any) -> None:
    counts, entries = make(), as_entries([POST, LIKE])
    for size in range(len(entries)):
        assert not counts.add(entries[:size], 2)
    assert not counts.add(entries, 3) and not counts.add(entries, 0xFFFFFFFF)
    assert figures(counts) == ([], 0, [])
    assert counts.add(b"", 0) and counts.add(entries, 1)
    assert figures(counts) == ([("2024-03", 1)], 0, [("en", 1), ("pt", 1)])


@needs_native
def test_counts_that_two_threads_add_to_stay_right() -> None:
    """One who comes while the other is at it is turned away, and has added nothing."""
    counts, entries = new_counts(), as_entries([LIKE] * 2000)

    def add() -> int:
        done = 0
        for _ in range(100):
            with suppress(ValueError):
                done += counts.add(entries, 2000)
        return done

    with ThreadPoolExecutor(2) as pool:
        adds = [pool.submit(add) for _ in range(2)]
    done = sum(one.result() for one in adds)
    assert done and counts.months() == {"2023-11": 2000 * done}


# That both are the same.


@needs_native
def test_odd_records_and_all_their_beginnings() -> None:
    for body in ODD_JSON:
        agree_alone(body)
        beginnings = [body[:size] for size in range(min(len(body), 200))]
        agree(as_entries(beginnings), len(beginnings))
    agree(as_entries(ODD_JSON), len(ODD_JSON))


@needs_native
def test_strings_that_end_at_any_distance_from_the_end_of_the_data() -> None:
    for length in range(36):
        for char in (b"a", b"\xc3\xa9", b"\\n", b"\x01", b"\xff"):
            body = b'{"createdAt":"2024-05-01","x":"' + b"y" * length + char + b'"}'
            for behind in (0, 1, 13, 14, 15, 16, 17):
                agree(as_entries([body]) + b"x" * behind, 1)


@needs_native
def test_a_length_that_points_anywhere() -> None:
    rng, sound = Random(3), as_entries([POST, LIKE, b"{}"])
    for _ in range(ROUNDS // 12):
        data = bytearray(sound)
        for _ in range(rng.randrange(1, 4)):
            data[rng.randrange(len(data))] = rng.choice((0, 1, 2, 255, rng.randrange(256)))
        agree(bytes(data), rng.randrange(5))


@needs_native
@pytest.mark.parametrize("seed", range(2))
def test_mutated_records(seed: int) -> None:
    rng, outcomes = Random(seed), set()
    for _ in range(ROUNDS // 2):
        verdict = agree_alone(mutated(rng.choice(ODD_JSON), rng))
        outcomes.add((verdict[2], len(verdict[3])))
    # Dated and not, with languages and without: the mutations must reach all of the code.
    assert {undated for undated, _ in outcomes} == {0, 1}
    assert max(languages for _, languages in outcomes) > 2


@needs_native
def test_a_record_of_megabytes() -> None:
    text = b"a long text \xe6\x97\xa5 \\n " * 200_000
    body = b'{"text":"' + text + b'","n":[' + b"1," * 300_000 + b'1],"createdAt":"2024-01-01"}'
    assert agree_alone(body)[2] == 0
    assert agree_alone(body[:-1])[2] == 1


names = st.sampled_from(["createdAt", "langs", "text", "é", "$type"]) | st.text(max_size=6)
words = st.sampled_from(["en", "pt-BR", "2024-03-01", "2024-03", "1999-12"]) | st.text(max_size=12)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(1 << 63), (1 << 64) - 1) | st.floats() | words,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(names, inner, max_size=4),
    max_leaves=10,
)
records = st.dictionaries(names, values | st.lists(words, max_size=20), max_size=6)


def spelt(record: Any, way: int) -> bytes:
    """One meaning in several spellings, some of which are no JSON: lone surrogates, NaN."""
    match way:
        case 0:
            return json.dumps(record, indent=1).encode()
        case 1:
            return json.dumps(record, ensure_ascii=False).encode("utf-8", "surrogatepass")
    letters = "".join(f"\\u{ord(letter):04X}" for letter in "createdAt")
    return json.dumps(record).replace('"createdAt"', f'"{letters}"').encode()


@needs_native
@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(records | values, st.integers(0, 2)), max_size=4))
def test_generated_records(made: list[tuple[Any, int]]) -> None:
    bodies = [spelt(record, way) for record, way in made]
    agree(as_entries(bodies), len(bodies))


@needs_native
@settings(max_examples=300, deadline=None)
@given(st.text() | st.floats(allow_nan=False, allow_infinity=False) | st.integers())
def test_any_value_is_read_as_another_parser_reads_it(value: Any) -> None:
    body = b'{"x":%b,"createdAt":"2024-01-01"}' % json.dumps(value).encode()
    try:
        orjson.loads(body)
        undated = 0
    except orjson.JSONDecodeError:
        undated = 1
    assert agree_alone(body)[2] == undated


@needs_native
@settings(max_examples=400, deadline=None)
@given(st.binary(max_size=60))
def test_any_bytes(data: bytes) -> None:
    agree(data, 1)
    agree_alone(data)
    agree_alone(b'{"createdAt":"2024-01-01","x":' + data + b"}")
    agree_alone(b'{"createdAt":"2024-01-01","x":"' + data + b'"}')
