"""The short way from an export line to its row gives what the long way does, whatever comes."""

from __future__ import annotations

import asyncio
import json
import random
from pathlib import Path

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.atproto.plc_truth import lines_of
from tests.support.atproto.visitor import open_world
from trawlnet.crawlers.atproto.export import number_of, parsed_line
from trawlnet.crawlers.atproto.operations import read_line
from trawlnet.crawlers.atproto.usual_lines import UsualLine, usual_line
from trawlnet.malformed import Malformed
from trawlnet.tables.clickhouse import native

OPERATION = {
    "sig": "9NuYV7AqwHVTc0YuWzNV3CJafsSZWH7qCxHRUIP2xWlB-YexXC1OaYAnUayiCXLVzRQ8WBXIqF-SvZdNalwcjA",
    "prev": "bafyreigcxay6ucqlwowfpu35alyxqtv3c4vsj7gmdtmnidsnqs6nblyarq",
    "type": "plc_operation",
    "services": {
        "atproto_pds": {
            "type": "AtprotoPersonalDataServer",
            "endpoint": "https://shimeji.us-east.host.bsky.network",
        }
    },
    "alsoKnownAs": ["at://somebody.bsky.social"],
    "rotationKeys": ["did:key:zQ3shhCGUqDKjStzuDxPkTxN6ujddP4RkEKJJouJGRRkaLGbg"] * 2,
    "verificationMethods": {"atproto": "did:key:zQ3shXjHeiBuRCKmM36cuYnm7YEMzhGnCmCyW92sRJ9pribSF"},
}
LINE = {
    "type": "sequenced_op",
    "seq": 7,
    "did": "did:plc:z72i7hdynmk6r22z27h6tvur",
    "operation": OPERATION,
    "cid": "bafyreihmuvr3frdvd6vmdhucih277prdcfcezf67lasg5oekxoimnunjoq",
    "createdAt": "2023-11-06T21:42:21.017Z",
}


def long_way(text):
    """Without a schema, as every line used to be read."""
    try:
        return orjson.loads(text)
    except ValueError:
        return None


def told(parsed):
    """Everything that a mirror makes of a line."""
    try:
        row = read_line(parsed, allow_private=False)
    except Malformed:
        row = None
    return number_of(parsed), isinstance(parsed, dict | UsualLine), row


def check(text):
    assert told(parsed_line(text)) == told(long_way(text)), text


def changed(**fields):
    return orjson.dumps({**LINE, "operation": {**OPERATION, **fields}})


PLAIN = orjson.dumps(LINE)
ODD = [
    json.dumps(LINE).encode(),
    json.dumps(LINE, indent=1).replace("\n", " ").encode(),
    PLAIN + b" ",
    PLAIN.replace(b"somebody", b"some\\u0062ody"),
    PLAIN.replace(b"https://", b"https:\\/\\/"),
    PLAIN.replace(b"somebody", "björk".encode()),
    PLAIN.replace(b"somebody", b"\xff\xfe"),
    PLAIN.replace(b"somebody", b"some\x01body"),
    PLAIN.replace(b"somebody", b"some\x7fbody"),
    PLAIN.replace(b"somebody", b"\\ud800"),
    PLAIN.replace(b'"sig":', b'"sig":"x","sig":'),
    PLAIN.replace(b'"seq":7', b'"seq":6,"seq":7'),
    PLAIN.replace(b'"seq":7', b'"seq":7.0'),
    PLAIN.replace(b'"seq":7', b'"seq":0'),
    PLAIN.replace(b'"seq":7', b'"seq":-7'),
    PLAIN.replace(b'"seq":7', b'"seq":9223372036854775808'),
    PLAIN.replace(b'"seq":7', b'"seq":1e400'),
    PLAIN.replace(b'"seq":7', b'"seq":true'),
    PLAIN.replace(b'"seq":7', b'"seq":null'),
    PLAIN.replace(b"plc_operation", b"plc_tombstone"),
    PLAIN.replace(b"plc_operation", b"something"),
    PLAIN.replace(b"2023-11-06T21", b"2023-11-06 21"),
    PLAIN.replace(b"2023-11-06T21", b"1823-11-06T21"),
    PLAIN.replace(b"2023-11-06T21:42:21.017Z", b"2023-11-06T21:42:21.017"),
    PLAIN.replace(b"did:plc", b"did_plc"),
    PLAIN.replace(b"bafyreih", b"!"),
    PLAIN.replace(b"bafyreig", b"!"),
    PLAIN[:-1],
    PLAIN + PLAIN,
    b"",
    b"null",
    b"[]",
    changed(prev=None),
    changed(prev=""),
    changed(prev=7),
    changed(extra=1.50),
    changed(alsoKnownAs=[]),
    changed(alsoKnownAs=["https://x", "at://a.test", "at://b.test"]),
    changed(alsoKnownAs=["at://" + "a" * 3000]),
    changed(alsoKnownAs="at://a"),
    changed(rotationKeys=[]),
    changed(rotationKeys=[1]),
    changed(verificationMethods={}),
    changed(verificationMethods={"atproto": "k", "other": "k"}),
    changed(verificationMethods={"atproto": 7}),
    changed(verificationMethods={"atproto": "k" * 3000}),
    changed(services={}),
    changed(services={"atproto_pds": {"type": "x", "endpoint": ""}}),
    changed(services={"atproto_pds": {"type": "x", "endpoint": " localhost "}}),
    changed(services={"atproto_pds": {"type": "x", "endpoint": "e" * 3000}}),
    changed(services={"atproto_pds": {"type": "x"}}),
    changed(services={"atproto_pds": "x", "other": {}}),
    changed(services={**OPERATION["services"], "other": {"type": "x", "endpoint": "y"}}),
    orjson.dumps({name: LINE[name] for name in reversed(LINE)}),
    orjson.dumps({**LINE, "operation": dict(reversed(OPERATION.items()))}),
    orjson.dumps({**LINE, "nullified": False}),
    orjson.dumps({**LINE, "operation": None}),
]


@pytest.mark.parametrize("text", ODD, ids=range(len(ODD)))
def test_an_odd_line_is_read_as_before(text):
    check(text)


def test_the_usual_line_takes_the_short_way():
    assert usual_line(PLAIN) is not None
    assert usual_line(PLAIN.decode()) is not None
    check(PLAIN)


def test_every_line_of_a_simulated_directory_is_read_as_before(tmp_path):
    async def ask():
        async with open_world(tmp_path, habits=()) as visitor:
            return await lines_of(visitor.world)

    lines = asyncio.run(ask())
    for line in lines:
        check(orjson.dumps({name: line[name] for name in LINE}))
        check(orjson.dumps(line))
    short = sum(usual_line(orjson.dumps({n: line[n] for n in LINE})) is not None for line in lines)
    assert short > len(lines) / 2


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
