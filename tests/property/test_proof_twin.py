"""The C proofs and their plain twin agree on JSON, records and exceptions, whatever they are."""

from __future__ import annotations

import os
from random import Random

import pytest

from tests.support.repos.extractors import HAS_NATIVE, needs_native
from tests.support.repos.made_records import ODD_JSON
from tests.support.repos.made_repos import ODD_RECORDS, SOME_CID, make_record
from tests.support.repos.provable import odd_records, provable_block, signed_car, some_records
from trawlnet.archive.format import proving, proving_plain, rca
from trawlnet.archive.format.json_cbor_plain import record_cbor
from trawlnet.archive.format.json_plain import RecordDropped, record_json
from trawlnet.archive.format.proof import parse_proof, tree_name
from trawlnet.archive.format.proving_plain import CollectionEntries, Unprovable
from trawlnet.atproto.dagcbor import encode
from trawlnet.malformed import Malformed

if HAS_NATIVE:
    from trawlnet.native import _repo

ROUNDS = int(os.environ.get("TRAWLNET_TWIN_ROUNDS", "4000"))
TELLING = b'"\\{}[]:,0123456789-.eut$lbA/= \n\x00\x1f\x7f\x80\xc3\xa9\xff'

pytestmark = needs_native


def json_texts() -> list[bytes]:
    found = [record_json(make_record(Random(n)), keep_cids=True) for n in range(50)]
    found.append(
        record_json(encode({"b": b"12", "l": SOME_CID, "n": [-5, 1 << 40]}), keep_cids=True)
    )
    for data in ODD_RECORDS.values():
        try:
            found.append(record_json(data, keep_cids=True))
        except RecordDropped:
            continue
    return [*found, *(body for body in ODD_JSON if len(body) < 5000)]


def changed(data: bytes, rng: Random) -> bytes:
    out = bytearray(data)
    for _ in range(rng.choice((0, 1, 1, 2, 5))):
        at = rng.randrange(len(out) + 1)
        match rng.randrange(4):
            case 0:
                out[at : at + 1] = bytes((rng.choice(TELLING),))
            case 1:
                out.insert(at, rng.choice(TELLING))
            case 2:
                del out[at : at + 1]
            case _:
                start = rng.randrange(len(out) + 1)
                out[at:at] = out[start : start + rng.randrange(8)]
    return bytes(out)


def by_c(json: bytes) -> bytes | None:
    try:
        data: bytes = _repo.record_cbor(json)
    except ValueError:
        return None
    return data


def plainly(json: bytes) -> bytes | None:
    try:
        return record_cbor(json)
    except Malformed:
        return None


def test_json_becomes_the_same_bytes_or_none() -> None:
    rng, texts, taken = Random(5), json_texts(), 0
    for _ in range(ROUNDS):
        json = changed(rng.choice(texts), rng)
        data = by_c(json)
        assert data == plainly(json), json
        if data is not None:
            taken += 1
            # And there is no other JSON that gives them.
            assert record_json(data, keep_cids=True) == json
    assert ROUNDS / 10 < taken < ROUNDS


def block_parts(records: dict[str, bytes]) -> tuple[list[CollectionEntries], bytes]:
    block = provable_block(signed_car(records))
    head = rca.parse_block(block)
    collections = [
        CollectionEntries(one.name.encode(), one.records, rca.decompress(block, one))
        for one in sorted(head.collections, key=lambda one: tree_name(one.name))
    ]
    total = sum(one.records for one in collections)
    return collections, parse_proof(block[head.proof_start :], total).exceptions


def told(way: object, collections: list[CollectionEntries], exceptions: bytes) -> object:
    try:
        found = way.recompute(collections, exceptions, digests=True, car=True)  # type: ignore[attr-defined]
    except Unprovable:
        return None
    return found._replace(car=b"")


@pytest.mark.parametrize("seed", range(2))
def test_damaged_records_and_exceptions_come_to_the_same(seed: int) -> None:
    rng = Random(seed)
    sources = [
        block_parts(some_records(seed, 30)),
        block_parts({**odd_records(), **some_records(1, 4)}),
    ]
    kinds = set()
    for _ in range(ROUNDS // 10):
        collections, exceptions = rng.choice(sources)
        if exceptions and rng.random() < 0.6:
            exceptions = changed(exceptions, rng)
        else:
            at = rng.randrange(len(collections))
            one = collections[at]
            collections = [*collections]
            collections[at] = one._replace(entries=changed(one.entries, rng))
        native = told(proving, collections, exceptions)
        assert native == told(proving_plain, collections, exceptions)
        kinds.add(native is None)
    assert kinds == {True, False}
