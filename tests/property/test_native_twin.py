"""The C extraction and its plain twin agree on everything: odd records, odd trees, damaged CARs."""

from __future__ import annotations

import hashlib
import json
import math
import os
import struct
import subprocess
import sys
from base64 import b64encode
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.repos.extractors import (
    FIXTURES,
    HAS_NATIVE,
    needs_fixtures,
    needs_native,
    records_of,
    verdict,
)
from tests.support.repos.made_repos import ODD_RECORDS, make_car, make_record
from trawlnet.archive.format import repoblock, repoblock_plain
from trawlnet.archive.format.content import ExtractOptions, RepoErrorKind
from trawlnet.atproto.cid import Cid, cid_of
from trawlnet.atproto.dagcbor import encode

if HAS_NATIVE:
    from trawlnet.native import _repo

# More rounds for a long run: TRAWLNET_TWIN_ROUNDS=100000 pytest tests/property/test_native_twin.py
ROUNDS = int(os.environ.get("TRAWLNET_TWIN_ROUNDS", "4000"))

pytestmark = needs_native


def agree(car: bytes, options: ExtractOptions) -> object:
    native, plain = (verdict(way.extract, car, options) for way in (repoblock, repoblock_plain))
    assert native == plain
    return native


# Records.

links = st.binary(max_size=40).map(cid_of) | st.binary(max_size=60).map(
    lambda digest: Cid(bytes((1, 0x55, 0, len(digest))) + digest)
)
names = st.text(max_size=20) | st.sampled_from(["cid", "uri", "$type", "$link", "$bytes"])
scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(1 << 64), (1 << 64) - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
    | st.binary(max_size=60)
    | links
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(names, inner, max_size=6),
    max_leaves=25,
)
records = st.dictionaries(names, values, max_size=6)
rkeys = st.text("abcXYZ019._~:-", min_size=1, max_size=20)
paths = st.builds(
    "{}/{}".format,
    st.sampled_from(["app.bsky.feed.like", "a.b.c", "a.b-c.d", "bad", "a..b"]),
    rkeys,
) | st.text(min_size=1, max_size=30)
options = st.builds(
    ExtractOptions,
    verify_hashes=st.booleans(),
    keep_cids=st.booleans(),
    collections=st.just(()) | st.lists(st.text("ab.*c", max_size=6), max_size=3).map(tuple),
    max_record=st.sampled_from([100, 1 << 20]),
    max_json=st.sampled_from([120, 2 << 20]),
    memory_limit=st.sampled_from([500, 5000, 1 << 30]),
    proof=st.booleans(),
)


@settings(max_examples=100, deadline=None)
@given(st.dictionaries(paths, records, max_size=12), options)
def test_generated_repositories(repo: dict[str, Any], options: ExtractOptions) -> None:
    agree(make_car({path: encode(value) for path, value in repo.items()}), options)


@pytest.mark.slow
@settings(max_examples=250, deadline=None)
@given(records)
def test_json_means_what_the_record_said(record: dict[str, Any]) -> None:
    """Against a third reading of the same bytes, so that the twins cannot be wrong together."""
    car = make_car({"a.b.c/x": encode(record)})
    content = repoblock.extract(car, ExtractOptions(keep_cids=True))
    if not too_low(record):
        (found,) = records_of(content).values()
        assert json.loads(found) == meaning(record)


def too_low(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(too_low, value.values()))
    if isinstance(value, list):
        return any(map(too_low, value))
    return isinstance(value, int) and value < -(1 << 63)


def meaning(value: Any) -> Any:
    match value:
        case dict():
            return {key: meaning(item) for key, item in value.items()}
        case list():
            return [meaning(item) for item in value]
        case Cid():
            return {"$link": str(value)}
        case bytes():
            return {"$bytes": b64encode(value).decode().rstrip("=")}
    return value


@settings(max_examples=400, deadline=None)
@given(st.binary(max_size=80))
def test_records_of_any_bytes(data: bytes) -> None:
    agree(make_car({"a.b.c/x": data, "a.b.c/y": b"\xa1\x61v" + data}), ExtractOptions(proof=True))


@pytest.mark.parametrize("path", sorted(ODD_RECORDS))
@pytest.mark.parametrize("keep_cids", [False, True])
def test_odd_records_and_all_their_beginnings(path: str, keep_cids: bool) -> None:
    data = ODD_RECORDS[path]
    cuts = [data[:size] for size in range(0, len(data) + 1, 1 + len(data) // 40)]
    car = make_car({f"a.b.c/{n}": cut for n, cut in enumerate([*cuts, data])})
    agree(car, ExtractOptions(keep_cids=keep_cids, proof=keep_cids))


# Damage.


def damaged(car: bytes, rng: Random) -> bytes:
    data = bytearray(car)
    for _ in range(rng.choice((1, 1, 2, 3, 8))):
        at = rng.randrange(len(data))
        match rng.randrange(8):
            case 0 | 1 | 2:
                data[at] = rng.randrange(256)
            case 3 | 4:
                data[at] ^= 1 << rng.randrange(8)
            case 5:
                del data[at : at + rng.randrange(1, 20)]
            case 6:
                data[at:at] = rng.randbytes(rng.randrange(1, 9))
            case _:
                source = rng.randrange(len(data))
                data[at : at + 8] = data[source : source + 8]
        data = data or bytearray(b"\0")
    return bytes(data)


@pytest.mark.parametrize("seed", range(4))
def test_damaged_cars(seed: int) -> None:
    rng = Random(seed)
    whole = {f"app.bsky.feed.like/{n}": make_record(rng) for n in range(12)}
    cars = [make_car(whole), make_car(dict(list(ODD_RECORDS.items())[seed::4]))]
    kinds = set()
    for _ in range(ROUNDS // 4):
        car = damaged(rng.choice(cars), rng)
        options = ExtractOptions(
            verify_hashes=rng.random() < 0.05,
            keep_cids=rng.random() < 0.5,
            proof=rng.random() < 0.5,
            memory_limit=rng.choice((1 << 30, 1 << 30, rng.randrange(8000))),
        )
        found = agree(car, options)
        kinds.add(found if isinstance(found, RepoErrorKind) else "taken")
    # The damage must reach every part of the code to say anything.
    assert kinds >= {*RepoErrorKind, "taken"} - {RepoErrorKind.UNSUPPORTED_VERSION}


@needs_fixtures
def test_fixtures_and_their_beginnings() -> None:
    for path in sorted((FIXTURES / "car").glob("*.car")):
        car = path.read_bytes()
        for options in (ExtractOptions(), ExtractOptions(verify_hashes=False, proof=True)):
            agree(car, options)
        for size in range(0, len(car), 1 + len(car) // 50):
            agree(car[:size], ExtractOptions(verify_hashes=False))


# The parts.


@settings(max_examples=500, deadline=None)
@given(st.floats(allow_nan=False, allow_infinity=False))
def test_floats_are_written_as_repr_writes_them(value: float) -> None:
    assert _repo.format_double(value) == repr(value)


def test_floats_at_the_edges_of_their_binades() -> None:
    for exponent in range(-1074, 1024):
        power = math.ldexp(1.0, exponent)
        for value in (power, math.nextafter(power, 0.0), math.nextafter(power, math.inf), -power):
            assert _repo.format_double(value) == repr(value)


def test_short_decimals_and_the_floats_beside_them() -> None:
    for exponent in range(-325, 309):
        for digits in (1, 2, 5, 9, 25, 99, 123, 4999999999999999, 99999999999999994):
            near = float(f"{digits}e{exponent}")
            for value in (near, math.nextafter(near, 0.0), math.nextafter(near, math.inf)):
                if math.isfinite(value):
                    assert _repo.format_double(value) == repr(value)


def test_random_doubles_of_all_magnitudes() -> None:
    rng = Random()
    for bits in (64, 64, 52, 20):
        for _ in range(5 * ROUNDS):
            (value,) = struct.unpack("<d", rng.getrandbits(bits).to_bytes(8, "little"))
            if math.isfinite(value):
                assert _repo.format_double(value) == repr(value), value.hex()


def test_the_powers_of_ten_are_those_that_the_script_writes() -> None:
    root = Path(__file__).parents[2]
    header = root / "src" / "trawlnet" / "native" / "json" / "powers_of_ten.h"
    script = [sys.executable, str(root / "scripts" / "make_powers_of_ten.py")]
    assert subprocess.run(script, check=True, capture_output=True).stdout == header.read_bytes()


def test_blocks_under_several_keys() -> None:
    """Read once and copied, or dropped once and for all, with the limit reached anywhere."""
    rng = Random()
    few = [*ODD_RECORDS.values(), make_record(rng), make_record(rng)]
    for _ in range(max(10, ROUNDS // 400)):
        chosen = rng.sample(few, 4)
        names = (f"a.b.{rng.choice('cde')}/{'k' * rng.randrange(9)}{n}" for n in range(40))
        car = make_car({name: rng.choice(chosen) for name in names})
        for keep_cids in (True, False):
            agree(car, ExtractOptions(keep_cids=keep_cids, proof=keep_cids))
            limit = rng.randrange(2000, 12_000)
            agree(car, ExtractOptions(keep_cids=keep_cids, memory_limit=limit))


def test_maps_out_of_order_repeat_no_key() -> None:
    rng = Random()
    for count in (2, 11, 12, 13, 14, 40, 300):
        for length in (0, 1, 7, 8, 9, 40):
            keys = [b"p" * length + b"%d" % n for n in range(count)]
            rng.shuffle(keys)
            agree(make_car({"a.b.c/x": map_of(keys)}), ExtractOptions())
            keys[rng.randrange(count // 2)] = keys[-1]
            agree(make_car({"a.b.c/x": map_of(keys)}), ExtractOptions())


def map_of(keys: list[bytes]) -> bytes:
    entries = b"".join(b"\x79" + len(key).to_bytes(2, "big") + key + b"\x01" for key in keys)
    return b"\xb9" + len(keys).to_bytes(2, "big") + entries


@pytest.mark.parametrize("digest", ["sha256", "sha256_portable", "sha256_paired", "sha256_crowded"])
def test_sha256_is_hashlibs(digest: str) -> None:
    rng = Random(2)
    for size in [*range(200), 1000, 4095, 4096, 70_000]:
        data = rng.randbytes(size)
        assert getattr(_repo, digest)(data) == hashlib.sha256(data).digest()
