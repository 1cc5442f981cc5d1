"""Repositories are proven from their archive, or it is named what does not fit."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from tests.support.repos.extractors import FIXTURES, needs_fixtures
from tests.support.repos.made_repos import DID, REV, SOME_CID
from tests.support.repos.made_segments import make_block, write
from tests.support.repos.provable import (
    KEY,
    PROVABLE,
    forged,
    odd_records,
    provable_block,
    proven_in,
    signed_car,
    some_records,
)
from tests.support.repository.reading import read_header
from trawlnet.archive.blocks import FoundBlock
from trawlnet.archive.format import rca, repoblock
from trawlnet.archive.format.content import ExtractOptions
from trawlnet.archive.format.proof import key_bytes, parse_key, with_key
from trawlnet.archive.proving.car import NotWhole, repo_car
from trawlnet.archive.proving.proofs import NO_KEY, VERSION_1, asked_elsewhere
from trawlnet.archive.reader import open_segment
from trawlnet.archive.verify import Proven, SegmentVerdict, verify_segment
from trawlnet.atproto.cid import Cid, cid_of
from trawlnet.atproto.dagcbor import encode
from trawlnet.atproto.identity.keys import Curve
from trawlnet.native.zstd import FrameWriter
from trawlnet.sim.private_key import PrivateKey
from trawlnet.sim.repository.car import read_frames, write_car
from trawlnet.sim.repository.commit import Commit
from trawlnet.sim.repository.mst import key_height
from trawlnet.sim.repository.repo import build_repo_of_blocks

OTHER = PrivateKey(Curve.P256, 99)


@pytest.mark.parametrize("count", [0, 1, 2, 255, 256, 257, 700])
def test_a_repository_is_proven_whatever_its_size(tmp_path: Path, count: int) -> None:
    car = signed_car(some_records(count, count))
    verdict = proven_in(tmp_path, provable_block(car))
    assert verdict.proven, verdict.reason
    assert verdict.root == str(read_header(car).roots[0])
    assert verdict.key == KEY.public


def test_odd_records_and_those_left_out_are_proven_too(tmp_path: Path) -> None:
    car = signed_car({**odd_records(), **some_records(1), "no path": b"\xa0", "a.b.c/..": b"\xa0"})
    content = repoblock.extract(car, PROVABLE)
    assert content.dropped
    verdict = proven_in(tmp_path, provable_block(car))
    assert verdict.proven, verdict.reason


@pytest.mark.parametrize("globs", [("app.bsky.feed.*",), ("a.b.c",), ("nothing",)])
def test_some_collections_of_a_repository_are_proven_by_themselves(
    tmp_path: Path, globs: tuple[str, ...]
) -> None:
    car = signed_car(some_records(2, 600))
    block = provable_block(car, replace(PROVABLE, collections=globs))
    assert len(block) < len(car) / 2
    verdict = proven_in(tmp_path, block)
    assert verdict.proven, verdict.reason
    assert verdict.root == str(read_header(car).roots[0])


def test_nothing_but_digests_is_kept_of_a_range_that_is_left_out() -> None:
    records = {f"a.b.c/{n:06}": encode({"n": n}) for n in range(3000)}
    records["z.y.x/self"] = encode({"x": 1})
    block = provable_block(signed_car(records), replace(PROVABLE, collections=("z.y.x",)))
    assert len(block) < 2000


def test_an_unusual_commit_is_kept(tmp_path: Path) -> None:
    repo = build_repo_of_blocks(DID, some_records(3), KEY, REV, prev=SOME_CID)
    verdict = proven_in(tmp_path, provable_block(repo.car()))
    assert verdict.proven, verdict.reason
    assert verdict.root == str(repo.head)


def odd_tree_car() -> bytes:
    """Two keys of one layer of which the second shares less than it could."""
    keys = [f"a.b.c/{n}".encode() for n in range(200)]
    low = sorted(key for key in keys if key_height(key) == 0)[:2]
    records = [encode({"n": n}) for n in range(2)]
    entries = [
        {"k": low[0], "p": 0, "t": None, "v": cid_of(records[0])},
        {"k": low[1][3:], "p": 3, "t": None, "v": cid_of(records[1])},
    ]
    node = encode({"e": entries, "l": None})
    commit = Commit(DID, cid_of(node), REV, None).signed(KEY).encode()
    blocks = [(cid_of(data), data) for data in (commit, node, *records)]
    return write_car([blocks[0][0]], blocks)  # type: ignore[arg-type]


def test_a_tree_that_is_written_otherwise_is_kept(tmp_path: Path) -> None:
    car = odd_tree_car()
    block = provable_block(car)
    verdict = proven_in(tmp_path, block)
    assert verdict.proven, verdict.reason
    assert blocks_of(again(tmp_path)) == blocks_of(car)


def test_what_has_no_proof_says_so(tmp_path: Path) -> None:
    assert proven_in(tmp_path / "1", make_block(DID)).reason == VERSION_1
    verdict = proven_in(tmp_path / "2", provable_block(signed_car(some_records(1)), key=None))
    assert verdict.reason == NO_KEY
    assert asked_elsewhere(verdict, [OTHER.public, KEY.public]).proven
    assert not asked_elsewhere(verdict, [OTHER.public]).proven


def test_a_key_that_is_not_the_owners_proves_nothing(tmp_path: Path) -> None:
    block = provable_block(signed_car(some_records(1)))
    verdict = proven_in(tmp_path / "1", with_key(block, key_bytes(OTHER.public)))
    assert "not signed" in verdict.reason
    sound = proven_in(tmp_path / "2", with_key(block, key_bytes(KEY.public)))
    assert sound.proven
    assert asked_elsewhere(sound, [OTHER.public, KEY.public]).proven
    assert "never this DID's" in asked_elsewhere(sound, [OTHER.public]).reason


def test_keys_read_back() -> None:
    for key in (KEY, OTHER):
        assert parse_key(key_bytes(key.public)) == key.public


# Whoever changes a record and mends the checksums.


def test_a_changed_record_is_named_though_every_checksum_is_right(tmp_path: Path) -> None:
    records = {f"a.b.c/{n:03}": encode({"text": f"number {n:03}"}) for n in range(600)}
    block = provable_block(signed_car(records))
    for n in (0, 255, 256, 433, 599):
        bad = forged(block, {b"number %03d" % n: b"numbeR %03d" % n})
        rca.check_block(bad)
        verdict = proven_in(tmp_path / str(n), bad)
        assert [one.where for one in verdict.misfits] == [f"a.b.c/{n:03}"]


def test_several_changed_records_are_told_by_their_range(tmp_path: Path) -> None:
    records = {f"a.b.c/{n:03}": encode({"text": f"number {n:03}"}) for n in range(600)}
    block = provable_block(signed_car(records))
    bad = forged(block, {b"number 30": b"numbeR 30", b"number 599": b"numbeR 599"})
    verdict = proven_in(tmp_path, bad)
    assert [one.where for one in verdict.misfits] == ["a.b.c/256", "a.b.c/599"]
    assert "a.b.c/511" in verdict.misfits[0].what


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b'{"text":"number 007"}', b'{"text":"number 007" '),
        (b'"number 007"', b'"numb\\u0007'),
        (b'{"text":"number 007"}', b'{"tex":"number 007" }'),
        (b'{"text":"number 007"}', b'{"text":   1.00000000'[:20] + b"}"),
    ],
)
def test_json_that_nobody_writes_is_named(tmp_path: Path, before: bytes, after: bytes) -> None:
    records = {f"a.b.c/{n:03}": encode({"text": f"number {n:03}"}) for n in range(300)}
    after = after.ljust(len(before))[: len(before)]
    verdict = proven_in(tmp_path, forged(provable_block(signed_car(records)), {before: after}))
    assert [one.where for one in verdict.misfits] == ["a.b.c/007"]


def test_an_odd_record_is_held_to_its_own_bytes(tmp_path: Path) -> None:
    records = {"a.b.c/a": encode({"v": 0.5, "text": "one"}), "a.b.c/b": encode({"x": 1})}
    bad = forged(provable_block(signed_car(records)), {b'"one"': b'"two"'})
    verdict = proven_in(tmp_path, bad)
    assert [one.where for one in verdict.misfits] == ["a.b.c/a"]


# Whoever flips a byte.


def told(path: Path) -> tuple[SegmentVerdict, list[Proven]]:
    proven: list[Proven] = []
    return verify_segment(path, tell=proven.append), proven


@pytest.mark.slow
def test_a_thousand_flips_anywhere_are_found_and_named(tmp_path: Path) -> None:
    dids = [f"did:plc:{letter * 24}" for letter in "abc"]
    cars = [signed_car(some_records(n, 30), did) for n, did in enumerate(dids)]
    write(tmp_path, [provable_block(car) for car in cars])
    (path,) = tmp_path.glob("*.rca")
    sound = path.read_bytes()
    verdict, proven = told(path)
    assert verdict.sound
    assert all(one.verdict.proven for one in proven)
    segment = open_segment(path)
    with segment.open() as fd:
        starts = [one.offset for one in segment.blocks(fd, check=True)]
    rng = Random(17)
    for _ in range(1000):
        at = rng.randrange(len(sound))
        bad = bytearray(sound)
        bad[at] ^= rng.randrange(1, 256)
        path.write_bytes(bad)
        verdict, proven = told(path)
        assert not verdict.sound, f"byte {at}"
        inside = [n for n, start in enumerate(starts) if start <= at]
        if at < segment.blocks_end and inside:
            # The DID is named, unless the flip made another of it that its own block claims.
            name = dids[inside[-1]]
            where = f"{starts[inside[-1]]}"
            assert any(name in one.what or str(one.offset) == where for one in verdict.damage), (
                f"byte {at}: {verdict.damage}"
            )


def test_a_flip_within_the_data_names_the_collection_or_the_record(tmp_path: Path) -> None:
    block = provable_block(signed_car(some_records(5, 60)))
    write(tmp_path, [block])
    (path,) = tmp_path.glob("*.rca")
    sound = path.read_bytes()
    head = rca.parse_block(block)
    named = 0
    for collection in head.collections:
        for at in range(collection.start, collection.end, 37):
            bad = bytearray(sound)
            bad[rca.HEADER_SIZE + at] ^= 0x40
            path.write_bytes(bad)
            verdict, _ = told(path)
            assert any(f"{DID} {collection.name}" in one.what for one in verdict.damage) or any(
                DID in one.what for one in verdict.damage
            )
            named += any(f"{DID} {collection.name}" in one.what for one in verdict.damage)
    assert named > 20


def test_the_header_of_version_2_covers_its_own_fields(tmp_path: Path) -> None:
    write(tmp_path, [provable_block(signed_car(some_records(1)))])
    (path,) = tmp_path.glob("*.rca")
    sound = path.read_bytes()
    for at in range(rca.HEADER_SIZE):
        bad = bytearray(sound)
        bad[at] ^= 1
        path.write_bytes(bad)
        verdict = verify_segment(path)
        assert not verdict.sound, at
        assert any(one.offset < rca.HEADER_SIZE for one in verdict.damage), at


# Back to a CAR.


def again(folder: Path) -> bytes:
    segment = open_segment(max(folder.glob("*.rca")))
    with segment.open() as fd:
        (found,) = segment.blocks(fd, check=True)
        assert isinstance(found, FoundBlock)
        return repo_car(fd, found)


def blocks_of(car: bytes) -> dict[Cid, bytes]:
    header = read_header(car)
    return {one.cid: car[one.start : one.end] for one in read_frames(car, header.end)}


@needs_fixtures
@pytest.mark.parametrize("name", ["rs_empty", "rs_tiny", "rs_little", "greenground.repo"])
def test_the_blocks_of_real_repositories_come_back_byte_for_byte(tmp_path: Path, name: str) -> None:
    car = (FIXTURES / "car" / f"{name}.car").read_bytes()
    write(tmp_path, [provable_block(car, key=None)])
    made = again(tmp_path)
    assert blocks_of(made) == blocks_of(car)
    assert read_header(made).roots == read_header(car).roots


def test_a_car_comes_back_with_each_block_once(tmp_path: Path) -> None:
    same = encode({"same": True})
    car = signed_car({**some_records(8, 300), "a.b.c/x": same, "a.b.c/y": same})
    write(tmp_path, [provable_block(car)])
    made = again(tmp_path)
    assert blocks_of(made) == blocks_of(car)
    assert len(list(read_frames(made, read_header(made).end))) == len(blocks_of(car))


def test_no_car_without_what_was_left_out(tmp_path: Path) -> None:
    write(tmp_path, [provable_block(signed_car({"a.b.c/x": b"\xff", "a.b.c/y": b"\xa0"}))])
    with pytest.raises(NotWhole):
        again(tmp_path)


# Hostile archives.


def test_a_proof_that_lies_about_itself_is_refused(tmp_path: Path) -> None:
    block = provable_block(signed_car(some_records(1)))
    head = rca.parse_block(block)
    proof = block[head.proof_start :]
    bomb = FrameWriter(19, False).frame(bytes(1 << 20))
    for n, bad in enumerate((b"", proof[:50], proof + b"x", proof + bomb)):
        packed = [
            rca.PackedCollection(one.name, one.records, block[one.start : one.end])
            for one in head.collections
        ]
        made = rca.encode_block(head.did, head.pds, head.rev, 1, packed, bad)
        verdict = proven_in(tmp_path / str(n), made)
        assert not verdict.proven


@pytest.mark.parametrize("form", [3, 7, 15])
def test_a_form_that_nobody_knows_is_refused(form: int) -> None:
    block = bytearray(provable_block(signed_car(some_records(1))))
    block[5] = form << 4
    with pytest.raises(rca.RcaError, match="unknown form"):
        rca.parse_block(bytes(block))


def test_a_block_of_version_2_checks_all_of_itself() -> None:
    block = provable_block(signed_car(some_records(1, 4)))
    for at in range(len(block)):
        bad = bytearray(block)
        bad[at] ^= 0x10
        with pytest.raises(rca.RcaError):
            rca.check_block(bytes(bad))


def test_the_key_is_changed_in_place() -> None:
    block = provable_block(signed_car(some_records(1)))
    other = with_key(block, key_bytes(OTHER.public))
    assert len(other) == len(block)
    rca.check_block(other)
    assert with_key(other, key_bytes(KEY.public)) == block
    assert with_key(make_block(DID), b"x" * 34) == make_block(DID)


def test_the_proof_is_within_two_percent() -> None:
    car = signed_car(some_records(9, 400))
    first = repoblock.encode_content(
        repoblock.extract(car, ExtractOptions(keep_cids=True)),
        pds="https://pds.example",
        crawled_at_us=1,
        zstd_level=3,
    )
    assert len(provable_block(car)) <= 1.02 * len(first)
