"""The short way from an export line to its row gives what the long way does, whatever comes, and a
compiled row gives the same columns as a plain one."""

from __future__ import annotations

import asyncio
import random
from datetime import UTC, datetime
from pathlib import Path

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.atproto.made_export_lines import LINE, ODD, PLAIN, changed
from tests.support.atproto.plc_truth import lines_of
from tests.support.atproto.visitor import open_world
from tests.support.repos.extractors import needs_native
from trawlnet.crawlers.atproto.export import number_of, parsed_line
from trawlnet.crawlers.atproto.operations import read_line, used_origins
from trawlnet.malformed import Malformed
from trawlnet.tables.clickhouse import native, plc_rows_plain
from trawlnet.tables.clickhouse.plc_rows import (
    columns,
    is_row,
    new_row,
    usual_row,
)
from trawlnet.tables.clickhouse.plc_rows_plain import OperationRow

FIELDS = OperationRow.__struct_fields__
ORIGINS = used_origins(allow_private=False)


def is_usual(text):
    return usual_row(text, ORIGINS) is not None


def long_way(text):
    """Without a schema, as every line used to be read."""
    try:
        return orjson.loads(text)
    except ValueError:
        return None


def cells(row):
    return [getattr(row, name) for name in FIELDS]


def told(parsed):
    """Everything that a mirror makes of a line."""
    try:
        row = cells(read_line(parsed, allow_private=False))
    except Malformed:
        row = None
    return number_of(parsed), isinstance(parsed, dict) or is_row(parsed), row


def check(text):
    expected = told(long_way(text))
    assert told(parsed_line(text, ORIGINS)) == expected, text
    plain = plc_rows_plain.usual_row(text, ORIGINS)
    assert plain is None or cells(plain) == expected[-1], text


@pytest.mark.parametrize("text", ODD, ids=range(len(ODD)))
def test_an_odd_line_is_read_as_before(text):
    check(text)


@pytest.mark.parametrize("way", [usual_row, plc_rows_plain.usual_row], ids=["compiled", "plain"])
def test_the_usual_line_takes_the_short_way(way):
    for line in (PLAIN, changed(prev=None), orjson.dumps(dict(reversed(LINE.items())))):
        assert way(line, ORIGINS) is not None
        assert way(line.decode(), ORIGINS) is not None
        assert way(memoryview(line), ORIGINS) is not None


def test_the_usual_line_is_read_as_before():
    check(PLAIN)
    check(PLAIN.decode())


@needs_native
def test_a_text_that_utf8_cannot_hold_is_no_usual_line():
    assert not is_usual(PLAIN.decode().replace("somebody", "\ud800"))


@needs_native
def test_what_is_no_text_is_no_line():
    for odd in (None, 7, [PLAIN]):
        with pytest.raises(TypeError):
            usual_row(odd, ORIGINS)
    for origin in (None, "", ("https://a.test",), ("https://a.test", 7)):
        with pytest.raises(TypeError):
            usual_row(PLAIN, lambda endpoint, origin=origin: origin)
    with pytest.raises(ZeroDivisionError):
        usual_row(PLAIN, lambda endpoint: 1 // 0)


@given(st.datetimes(datetime(1960, 1, 1), datetime(2110, 1, 1)))
def test_an_instant_is_read_as_before(moment):
    spelt = moment.replace(tzinfo=UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    check(orjson.dumps({**LINE, "createdAt": spelt}))


def test_every_line_of_a_simulated_directory_is_read_as_before(tmp_path):
    async def ask():
        async with open_world(tmp_path, habits=()) as visitor:
            return await lines_of(visitor.world)

    lines = asyncio.run(ask())
    for line in lines:
        check(orjson.dumps({name: line[name] for name in LINE}))
        check(orjson.dumps(line))
    assert (
        sum(is_usual(orjson.dumps({n: line[n] for n in LINE})) for line in lines) > len(lines) / 2
    )


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=300)
ROWS = st.tuples(
    *[TEXTS] * 8,
    st.binary(max_size=300) | st.integers(0, 70_000).map(bytes),
    st.booleans(),
    *[st.integers(0, (1 << 63) - 1)] * 2,
)


@given(st.lists(ROWS, max_size=20), st.permutations(FIELDS), st.integers(0, len(FIELDS)))
def test_rows_give_the_same_columns_either_way(rows, names, count):
    made = [new_row(*row) for row in rows]
    assert [tuple(cells(row)) for row in made] == rows
    expected = plc_rows_plain.columns([OperationRow(*row) for row in rows], names[:count])
    assert columns(made, names[:count]) == expected
    for row in made:
        row.nullified = not row.nullified
    flags = [row[FIELDS.index("nullified")] for row in rows]
    assert columns(made, ["nullified"]) == [native.switches("nullified", [not f for f in flags])]


@needs_native
def test_a_row_refuses_what_it_cannot_hold():
    sound = dict(zip(FIELDS, [""] * 8 + [b"", False, 0, 0], strict=True))
    for name, value in (("did", 7), ("cid", None), ("operation_json", ""), ("seq", "")):
        with pytest.raises(TypeError):
            new_row(**{**sound, name: value})
    for name, value in (("seq", -1), ("time_us", -1), ("seq", 1 << 63), ("handle", "\ud800")):
        with pytest.raises((ValueError, OverflowError)):
            new_row(**{**sound, name: value})
    with pytest.raises(TypeError):
        new_row()
    row = new_row(**sound)
    with pytest.raises(AttributeError):
        row.did = "x"
    with pytest.raises(AttributeError):
        del row.nullified


@needs_native
def test_columns_are_made_of_rows_alone():
    row = new_row(*[""] * 8, b"", False, 0, 0)
    for rows in ([row, None], [OperationRow(*cells(row))], (row,)):
        with pytest.raises(TypeError):
            columns(rows, ["did"])
    for fields in (bytes([len(FIELDS)]), bytes(len(FIELDS) + 1)):
        with pytest.raises(ValueError, match="do not have"):
            new_row.columns([row], fields)
    assert new_row.columns([], b"\0") == (b"",)
    assert new_row.columns([row], b"") == ()


LOGS = Path(__file__).parents[2].parent / "shared" / "fixtures" / "plc"


@pytest.mark.skipif(not LOGS.exists(), reason="the logs are not part of this repository")
def test_every_line_of_real_logs_is_read_as_before():
    for file in LOGS.glob("*.json"):
        for seq, entry in enumerate(orjson.loads(file.read_bytes()), 1):
            numbered = {name: entry[name] for name in LINE if name in entry}
            check(orjson.dumps(entry))
            check(orjson.dumps({"type": "sequenced_op", "seq": seq, **numbered}))


@settings(max_examples=400, deadline=None)
@given(seed=st.integers(0, 1 << 32))
def test_a_damaged_line_is_read_as_before(seed):
    chance = random.Random(seed)
    text = bytearray(chance.choice([PLAIN, changed(prev=None)]))
    for _ in range(chance.randint(1, 3)):
        at = chance.randrange(len(text))
        match chance.randrange(4):
            case 0:
                text[at] = chance.randrange(256)
            case 1:
                del text[at : at + chance.randint(1, 12)]
            case 2:
                text[at:at] = chance.choice([b" ", b'"', b"\\", b",", b"{", b'\\"', b"\xc3\xa4"])
            case 3:
                text[at:at] = text[at : at + chance.randint(1, 60)]
        text = text or bytearray(b"x")
    check(bytes(text))


@given(st.lists(st.text(max_size=200)))
def test_a_column_of_texts_is_written_the_same_either_way(values):
    expected = b"".join(native.text(value.encode("utf-8", "replace")) for value in values)
    assert native.texts("x", values).data == expected
    assert native.texts("x", iter(values)).data == expected


@given(st.lists(st.text(st.characters(max_codepoint=127), max_size=150)))
def test_a_column_of_plain_texts_too(values):
    expected = b"".join(native.text(value.encode()) for value in values)
    assert native.texts("x", values).data == expected
