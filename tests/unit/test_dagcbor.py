"""DAG-CBOR has one spelling per value; every other one is refused."""

import math

import libipld
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.support.repository import cbor_decoder
from tests.support.repository.reading import from_json
from trawlnet.atproto import dagcbor
from trawlnet.atproto.cid import RAW, Cid, cid_of
from trawlnet.malformed import Malformed
from trawlnet.sim.repository.dagjson import to_json

LINKS = st.builds(cid_of, st.binary(max_size=4), st.sampled_from([0x71, RAW]))
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**64), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
    | st.binary()
    | LINKS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(VALUES)
def test_what_is_written_is_read_back(value):
    assert cbor_decoder.decode(dagcbor.encode(value)) == value


@given(VALUES)
def test_a_peer_reads_the_same_value(value):
    def plain(item):
        if isinstance(item, Cid):
            return item.raw
        if isinstance(item, dict):
            return {key: plain(each) for key, each in item.items()}
        if isinstance(item, float):
            assume(item != 0.0 or math.copysign(1.0, item) > 0.0)  # The peer reads no -0.0.
        return [plain(each) for each in item] if isinstance(item, list) else item

    expected = plain(value)
    assert libipld.decode_dag_cbor(dagcbor.encode(value)) == expected


@given(VALUES)
def test_the_json_form_keeps_links_and_bytes(value):
    wrapped = {"value": value} if not _has_dollar(value) else {"value": None}
    assert from_json(to_json(wrapped)) == wrapped


def _has_dollar(value):
    if isinstance(value, dict):
        return any(key in ("$link", "$bytes") or _has_dollar(item) for key, item in value.items())
    return isinstance(value, list) and any(_has_dollar(item) for item in value)


def check_spelling(data):
    try:
        value = cbor_decoder.decode(data)
    except Malformed:
        return
    assert dagcbor.encode(value) == data


@given(st.binary(max_size=60))
def test_whatever_is_accepted_is_the_only_spelling(data):
    check_spelling(data)


@given(VALUES, st.data())
def test_damage_is_refused_or_is_another_value_spelled_right(value, data):
    raw = bytearray(dagcbor.encode(value))
    at = data.draw(st.integers(0, len(raw) - 1))
    raw[at] ^= data.draw(st.integers(1, 255))
    check_spelling(bytes(raw))
    cut = bytes(dagcbor.encode(value)[:at])
    with pytest.raises(Malformed):
        cbor_decoder.decode(cut)


@pytest.mark.parametrize(
    "spelling",
    [
        "",  # Nothing.
        "1800",  # 0 in two bytes.
        "1817",  # 23 in two bytes.
        "190018",  # 24 in three bytes.
        "1a0000ffff",
        "1b00000000ffffffff",
        "3817",  # A negative number that is too long.
        "5801ff",  # A length that is too long.
        "5fff",  # Indefinite lengths.
        "7fff",
        "9fff",
        "bfff",
        "1c",  # Reserved.
        "f7",  # undefined
        "f0",  # Another simple value.
        "f814",
        "f93c00",  # Short floats.
        "fa3f800000",
        "fb7ff8000000000000",  # Not a number.
        "fb7ff0000000000000",  # Infinity.
        "c000",  # A tag other than 42.
        "d82a00",  # A link that is no byte string.
        "d82a40",
        "d82a4101",  # A link without its zero byte.
        "d82a4100",
        "a10000",  # A key that is no string.
        "a2616100616100",  # A key twice.
        "a2616200616100",  # Keys out of order.
        "a262616100616200",  # A long key before a short one.
        "61ff",  # Not UTF-8.
        "63eda080",  # A surrogate.
        "0000",  # Something behind the value.
        "8101" + "00",
        "9b7fffffffffffffff",  # A list longer than the world.
        "bb7fffffffffffffff",
        "5b7fffffffffffffff",
        "7b7fffffffffffffff00",
        "81" * 200 + "00",  # Too deep.
        "81" * 100_000,
    ],
)
def test_every_other_spelling_is_refused(spelling):
    with pytest.raises(Malformed):
        cbor_decoder.decode(bytes.fromhex(spelling))


@pytest.mark.parametrize("value", [2**64, -(2**64) - 1, float("nan"), float("inf"), "\ud800"])
def test_what_has_no_spelling_is_not_written(value):
    with pytest.raises(ValueError):
        dagcbor.encode({"value": value})


@pytest.mark.parametrize("value", [object(), {1, 2}, {1: 2}, {None: 1}])
def test_what_is_not_data_is_not_written(value):
    with pytest.raises((TypeError, AttributeError)):
        dagcbor.encode(value)


@pytest.mark.parametrize(
    "value",
    [
        {"$link": 1},
        {"$link": "."},
        {"$link": str(cid_of(b"")), "more": 1},
        {"$bytes": [1]},
        {"$bytes": "AA", "more": 1},
        {"$bytes": "not base64!"},
    ],
)
def test_a_broken_json_form_is_refused(value):
    with pytest.raises(Malformed):
        from_json({"inside": value})
