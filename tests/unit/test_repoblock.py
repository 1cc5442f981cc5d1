"""What is taken from a repository's CAR and what is dropped; in C and in Python."""

from __future__ import annotations

import json
import struct
from base64 import b64decode
from concurrent.futures import ThreadPoolExecutor
from random import Random

import pytest

from tests.support.repos.extractors import BACKENDS, FIXTURES, Extract, needs_fixtures, records_of
from tests.support.repos.made_repos import (
    DID,
    ODD_RECORDS,
    REV,
    SOME_CID,
    field,
    make_car,
    make_record,
)
from trawlnet.archive.format import rca, repoblock
from trawlnet.archive.format.content import DROP_REASONS, ERROR_KINDS, DropReason, ExtractOptions
from trawlnet.atproto.dagcbor import encode, head
from trawlnet.atproto.identity.keys import Curve
from trawlnet.sim.private_key import PrivateKey
from trawlnet.sim.repository.repo import build_repo

LIKE = encode({"$type": "app.bsky.feed.like"})


@pytest.fixture(params=BACKENDS)
def extract(request: pytest.FixtureRequest) -> Extract:
    found: Extract = request.param
    return found


def test_the_c_code_numbers_errors_and_drops_as_python_does() -> None:
    native = pytest.importorskip("trawlnet.native._repo")
    assert len(ERROR_KINDS) + 1 == native.ERROR_KINDS
    assert len(DROP_REASONS) + 1 == native.DROP_REASONS


# What is taken.


@needs_fixtures
@pytest.mark.parametrize(
    ("name", "records", "collections"),
    [("rs_empty", 0, 0), ("rs_tiny", 8, 5), ("rs_little", 278, 24), ("greenground.repo", 2, 1)],
)
def test_real_repositories_are_taken_whole(
    extract: Extract, name: str, records: int, collections: int
) -> None:
    content = extract((FIXTURES / "car" / f"{name}.car").read_bytes(), ExtractOptions())
    assert (content.records, len(content.collections)) == (records, collections)
    assert not content.dropped
    assert len(records_of(content)) == records
    for record in records_of(content).values():
        assert json.loads(record)["$type"]


@needs_fixtures
def test_interop_records_have_their_published_json(extract: Extract) -> None:
    path = FIXTURES / "atproto-interop" / "data-model" / "data-model-fixtures.json"
    cases = json.loads(path.read_text())
    paths = {
        f"org.example.data/{n}": b64decode(case["cbor_base64"] + "==")
        for n, case in enumerate(cases)
    }
    content = extract(make_car(paths), ExtractOptions(keep_cids=True))
    found = [json.loads(record) for record in records_of(content).values()]
    assert found == [case["json"] for case in cases]


def test_the_signed_bytes_and_signature_come_out_for_checking(extract: Extract) -> None:
    key = PrivateKey(Curve.K256, 12345)
    repo = build_repo(DID, {"a.b.c/self": {"x": 1}}, key, REV, prev=SOME_CID)
    content = extract(repo.car(), ExtractOptions())
    assert (content.did, content.rev, content.root) == (DID, REV, repo.head.raw)
    assert key.public.verifies(content.signature, content.unsigned_commit)


def test_collections_are_sorted_by_name_though_keys_sort_otherwise(extract: Extract) -> None:
    # "-" and "." come before "/": as keys, a.b.c-d/x and a.b.c.e/x precede a.b.c/x.
    names = ["a.b.c", "a.b.c.e", "a.b-c.d", "a.b.cc", "A.b.c"]
    content = extract(make_car({f"{name}/x": LIKE for name in names}), ExtractOptions())
    assert [collection.name for collection in content.collections] == sorted(names)
    assert content.records == 5


def test_block_order_and_repeated_blocks_do_not_matter(extract: Extract) -> None:
    records = {f"app.bsky.feed.like/{n}": make_record(Random(n)) for n in range(60)}
    plain = records_of(extract(make_car(records), ExtractOptions()))
    for seed in range(3):
        car = make_car(records, shuffle=seed, duplicates=20)
        assert records_of(extract(car, ExtractOptions())) == plain


def test_the_same_block_may_be_many_records(extract: Extract) -> None:
    content = extract(make_car({f"a.b.c/{n}": LIKE for n in range(50)}), ExtractOptions())
    assert content.records == 50


@pytest.mark.parametrize(
    ("patterns", "kept"),
    [
        ((), "abcd"),
        (("*",), "abcd"),
        (("app.bsky.*",), "ab"),
        (("app.bsky.feed.like", "org.*"), "ad"),
        (("*.like",), "ac"),
        (("*.bsky.*.post*",), "b"),
        (("app.bsky.feed.lik",), ""),
        (("app.bsky.feed.like?", "app[.]bsky"), ""),
        (("",), ""),
    ],
)
def test_patterns_choose_collections(
    extract: Extract, patterns: tuple[str, ...], kept: str
) -> None:
    names = {
        "app.bsky.feed.like": "a",
        "app.bsky.feed.post": "b",
        "com.example.like": "c",
        "org.example.x": "d",
    }
    car = make_car({f"{name}/1": LIKE for name in names})
    content = extract(car, ExtractOptions(collections=patterns))
    assert "".join(names[collection.name] for collection in content.collections) == kept
    assert content.filtered == 4 - len(kept)


# The JSON of a record.

SHORT = {8: "\\b", 9: "\\t", 10: "\\n", 12: "\\f", 13: "\\r"}
CONTROLS = "".join(SHORT.get(n, f"\\u{n:04x}") for n in range(32))
EXPECTED_JSON = {
    "empty": "{}",
    "wide-int": '{"v":5}',
    "int-max": '{"v":18446744073709551615}',
    "int-min": '{"v":-9223372036854775808}',
    "half": '{"v":1.0009765625}',
    "half-tiny": '{"v":5.960464477539063e-08}',
    "half-nan": '{"v":null}',
    "single": '{"v":0.10000000149011612}',
    "double": '{"v":0.1}',
    "double-zero": '{"v":-0.0}',
    "double-inf": '{"v":null}',
    "double-big": '{"v":1e+16}',
    "double-power": '{"v":5.684341886080802e-14}',
    "double-least": '{"v":5e-324}',
    "words": '{"a":false,"b":true,"c":null}',
    "bytes": '{"v":{"$bytes":"aGVsbG8"}}',
    "bytes-none": '{"v":{"$bytes":""}}',
    "link": f'{{"v":{{"$link":"{SOME_CID}"}}}}',
    "link-identity": '{"v":{"$link":"bafkqaa3bmjrq"}}',
    "controls": '{"v":"'
    + "".join(
        {8: "\\b", 9: "\\t", 10: "\\n", 12: "\\f", 13: "\\r"}.get(n, f"\\u{n:04x}")
        for n in range(32)
    )
    + '\\"\\\\/\x7f<>&"}',
    "unicode": '{"v":"é海🌊\u2028\uffff\U0010ffff"}',
    "empty-key": '{"":1}',
    "odd-key": '{"\\n\\"é":1}',
    "unsorted": '{"b":1,"a":2}',
    "unsorted-nested": '{"b":{"z":1,"y":[]},"a":2}',
    "strong": '{"subject":{"uri":"at://x"}}',
    "strong-late": '{"uri":"u"}',
    "strong-only-cid": '{"cid":"bafyrei","mimeType":"image/png"}',
    "strong-link-cid": f'{{"cid":{{"$link":"{SOME_CID}"}},"uri":"at://x"}}',
    "strong-number-uri": '{"cid":"bafyrei","uri":7}',
    "strong-nested": '{"a":[{"b":{"uri":"at://x","via":{"uri":"at://x"}}}],"uri":"at://x"}',
}


@pytest.mark.parametrize("name", sorted(EXPECTED_JSON))
def test_odd_values_have_their_written_down_json(extract: Extract, name: str) -> None:
    path = f"org.example.odd/{name}"
    content = extract(make_car({path: ODD_RECORDS[path]}), ExtractOptions())
    assert records_of(content) == {path: EXPECTED_JSON[name].encode()}


def test_kept_cids_stay_in_strong_references(extract: Extract) -> None:
    path = "org.example.odd/strong-nested"
    content = extract(make_car({path: ODD_RECORDS[path]}), ExtractOptions(keep_cids=True))
    strong = {"cid": "bafyrei", "uri": "at://x"}
    assert json.loads(records_of(content)[path]) == {
        "a": [{"b": {**strong, "via": strong}}],
        **strong,
    }


# What is dropped.

DROPS = {
    "x-int-below": DropReason.INT_RANGE,
    "x-link-v0": DropReason.BAD_CID,
    "x-link-empty": DropReason.BAD_CID,
    "x-link-long": DropReason.BAD_CID,
    "x-link-trailing": DropReason.BAD_CID,
    "x-utf8-overlong": DropReason.BAD_UTF8,
    "x-utf8-surrogate": DropReason.BAD_UTF8,
    "x-utf8-cut": DropReason.BAD_UTF8,
    "x-utf8-high": DropReason.BAD_UTF8,
    "x-utf8-key": DropReason.BAD_UTF8,
    "x-array": DropReason.NOT_A_MAP,
    "x-text": DropReason.NOT_A_MAP,
    "x-deep-33": DropReason.TOO_DEEP,
    "x-huge-array": DropReason.TOO_LARGE,
    "x-huge-map": DropReason.TOO_LARGE,
    "x-duplicate": DropReason.DUPLICATE_KEY,
    "x-duplicate-apart": DropReason.DUPLICATE_KEY,
    "x-duplicate-few": DropReason.DUPLICATE_KEY,
    "x-duplicate-many": DropReason.DUPLICATE_KEY,
}


@pytest.mark.parametrize("path", sorted(ODD_RECORDS))
def test_a_bad_record_costs_that_record_only(extract: Extract, path: str) -> None:
    rkey = path.partition("/")[2]
    car = make_car({"a.b.c/1": LIKE, path: ODD_RECORDS[path], "z.z.z/1": LIKE})
    content = extract(car, ExtractOptions())
    if rkey.startswith("x-"):
        assert content.dropped == {DROPS.get(rkey, DropReason.BAD_CBOR): 1}
        assert content.records == 2
    else:
        assert not content.dropped
        assert content.records == 3
        json.loads(records_of(content)[path])


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("nopath", DropReason.BAD_PATH),
        ("bad/rkey", DropReason.BAD_COLLECTION),
        ("/x", DropReason.BAD_COLLECTION),
        ("a.b.3c/x", DropReason.BAD_COLLECTION),
        ("a.b.é/x", DropReason.BAD_COLLECTION),
        ("a.b.c/", DropReason.BAD_RKEY),
        ("a.b.c/..", DropReason.BAD_RKEY),
        ("a.b.c/a/b", DropReason.BAD_RKEY),
        ("a.b.c/é", DropReason.BAD_RKEY),
        ("a.b.c/" + "o" * 513, DropReason.BAD_RKEY),
    ],
)
def test_a_bad_path_costs_that_record(extract: Extract, path: str, reason: DropReason) -> None:
    content = extract(make_car({path: LIKE, "a.b.d/ok": LIKE}), ExtractOptions())
    assert (content.records, content.dropped) == (1, {reason: 1})


@needs_fixtures
@pytest.mark.parametrize("kind", ["nsid", "recordkey"])
def test_published_names_are_judged_as_published(extract: Extract, kind: str) -> None:
    for verdict in ("valid", "invalid"):
        path = FIXTURES / "atproto-interop" / "syntax" / f"{kind}_syntax_{verdict}.txt"
        lines = [line for line in path.read_text().splitlines() if line and line[0] != "#"]
        names = {line for line in lines if len(line) < 700 and (kind != "nsid" or "/" not in line)}
        paths = {f"{name}/x" if kind == "nsid" else f"a.b.c/{name}": LIKE for name in names}
        content = extract(make_car(paths), ExtractOptions())
        assert content.records == (len(names) if verdict == "valid" else 0)


def test_a_record_over_the_limit_is_dropped(extract: Extract) -> None:
    big, small = encode({"t": "x" * 1000}), encode({"t": "x" * 990})
    car = make_car({"a.b.c/big": big, "a.b.c/small": small})
    content = extract(car, ExtractOptions(max_record=len(big) - 1))
    assert list(records_of(content)) == ["a.b.c/small"]
    content = extract(car, ExtractOptions(max_json=len('{"t":""}') + 999))
    assert (list(records_of(content)), content.dropped) == (
        ["a.b.c/small"],
        {DropReason.TOO_LARGE: 1},
    )


def test_a_collection_left_with_no_record_is_left_out(extract: Extract) -> None:
    content = extract(make_car({"a.b.c/x": b"\xff", "a.b.d/x": LIKE}), ExtractOptions())
    assert [collection.name for collection in content.collections] == ["a.b.d"]


# The extension itself.


def test_any_bytes_like_object_is_read(extract: Extract) -> None:
    car = make_car({"a.b.c/x": LIKE})
    for form in (bytearray(car), memoryview(car), memoryview(b"?" + car)[1:]):
        assert extract(form, ExtractOptions()).records == 1  # type: ignore[arg-type]


def test_content_outlives_the_car_and_later_extractions(extract: Extract) -> None:
    car = bytearray(make_car({"a.b.c/x": LIKE}))
    content = extract(car, ExtractOptions())  # type: ignore[arg-type]
    before = bytes(content.collections[0].data)
    car[:] = bytes(len(car))
    for n in range(8):
        extract(make_car({f"a.b.c/{n}": field(head(0, n))}), ExtractOptions())
    assert bytes(content.collections[0].data) == before


def test_threads_extract_side_by_side(extract: Extract) -> None:
    cars = [make_car({f"a.b.c{n}/{k}": field(head(0, n * k)) for k in range(40)}) for n in range(6)]
    alone = [records_of(extract(car, ExtractOptions())) for car in cars]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda car: records_of(extract(car, ExtractOptions())), cars * 20))
    assert together == alone * 20


@pytest.mark.parametrize("bad", [{"max_record": -1}, {"max_json": 2**32}, {"memory_limit": -1}])
def test_senseless_limits_are_an_error_of_the_caller(bad: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="limit"):
        ExtractOptions(**bad)  # type: ignore[arg-type]


# The whole block.


@needs_fixtures
def test_a_real_repository_becomes_a_block_that_reads_back(extract: Extract) -> None:
    content = extract((FIXTURES / "car" / "rs_little.car").read_bytes(), ExtractOptions())
    block = repoblock.encode_content(
        content, pds="https://p.example", crawled_at_us=7, zstd_level=3
    )
    head = rca.check_block(block)
    assert (head.did, head.rev, head.pds) == (content.did, content.rev, "https://p.example")
    again = {
        f"{entry.name}/{record.rkey}": record.json
        for entry in head.collections
        for record in rca.iter_records(rca.decompress(block, entry), entry.records)
    }
    assert again == records_of(content)
    assert struct.unpack_from("<I", block)[0] == len(block)


def test_zstd_levels_are_real(extract: Extract) -> None:
    records = {f"a.b.c/{n}": make_record(Random(n)) for n in range(300)}
    content = extract(make_car(records), ExtractOptions())
    sizes = [
        len(repoblock.encode_content(content, pds="", crawled_at_us=0, zstd_level=level))
        for level in (1, 19)
    ]
    assert sizes[1] < sizes[0]
