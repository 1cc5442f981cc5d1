"""Archives as they are read: sound, damaged at every byte, doubled, entombed, and hostile."""

from __future__ import annotations

import os
import random
import struct
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.repos.made_segments import dids_in, make_block, pack, write
from trawlnet.archive import blocks
from trawlnet.archive.blocks import FoundBlock, ReadAhead
from trawlnet.archive.census import load_tombstones, take_census
from trawlnet.archive.format import rca
from trawlnet.archive.lookup import FoundRecord, look_up, records
from trawlnet.archive.reader import (
    ArchiveChanged,
    Damage,
    NoArchive,
    find_segments,
    open_segment,
)
from trawlnet.archive.tally import inspect, tally
from trawlnet.archive.tombstones import Tombstone, append_tombstones
from trawlnet.archive.verify import verify_segment
from trawlnet.hinted import UnknownFormat

HEADER, FOOTER = 64, 32


@pytest.fixture(autouse=True)
def no_fsync(monkeypatch: pytest.MonkeyPatch) -> None:
    """These tests are about what is in files, not about when it is durable."""
    monkeypatch.setattr(os, "fsync", lambda fd: None)


def three(folder: Path) -> Path:
    write(folder, [make_block(f"did:plc:{name}", 7) for name in ("c", "a", "b")])
    return folder / "segment_0001.rca"


def every_use(path: Path) -> None:
    """Each way of reading a file; none may do worse than tell of damage, or refuse it."""
    for use in (verify_segment, tally, partial(look_up, did="did:plc:a"), inspect):
        with suppress(rca.RcaError, UnknownFormat):
            use(path)


def test_everything_that_was_written_is_found(tmp_path: Path) -> None:
    path = three(tmp_path)
    verdict = verify_segment(path)
    assert verdict.sound and verdict.finalised
    assert (verdict.blocks, verdict.records, verdict.bytes) == (3, 9, path.stat().st_size)
    for did in ("did:plc:a", "did:plc:b", "did:plc:c"):
        found = look_up(tmp_path, did)
        assert found.segment and found.block and found.block.head.did == did
        post = FoundRecord("app.bsky.feed.post", "3ka", b'{"text":"%s at 7"}' % did.encode())
        assert post in list(records(found.segment, found.block, lambda name: "post" in name))
    assert look_up(tmp_path, "did:plc:d").block is None


# Which bytes a flip cannot be seen in: the instant of creation has no checksum of any kind.
UNCHECKED = range(12, 20)


@pytest.mark.slow
def test_verify_sees_every_flipped_byte_of_a_finalised_segment(tmp_path: Path) -> None:
    path = three(tmp_path)
    sound = path.read_bytes()
    dice = random.Random(1)
    for at in range(len(sound)):
        damaged = bytearray(sound)
        damaged[at] ^= dice.randrange(1, 256)
        path.write_bytes(damaged)
        every_use(path)
        verdict = verify_segment(path)
        assert verdict.sound == (at in UNCHECKED), f"byte {at}"
        assert not verdict.sound or verdict.blocks == 3


def test_inspect_and_tally_see_every_flipped_byte_of_header_index_and_footer(
    tmp_path: Path,
) -> None:
    path = three(tmp_path)
    sound = path.read_bytes()
    index = open_segment(path).header.index_offset
    dice = random.Random(1)
    for at in [*range(HEADER), *range(index, len(sound))]:
        damaged = bytearray(sound)
        damaged[at] ^= dice.randrange(1, 256)
        path.write_bytes(damaged)
        assert bool(tally(path).damage) == (at not in UNCHECKED), f"byte {at}"
        try:
            told = inspect(path)[1].damage
        except rca.RcaError:  # No archive at all.
            continue
        assert bool(told) == (at not in UNCHECKED), f"byte {at}"


def test_an_index_that_is_only_wrong_is_told_by_all_three(tmp_path: Path) -> None:
    """Its CRC is right: somebody wrote it so."""
    path = three(tmp_path)
    sound, segment = path.read_bytes(), open_segment(path)
    assert segment.footer
    start, end = segment.footer.index_offset, len(sound) - FOOTER
    entry = 2 + len("did:plc:a") + 16
    beyond = bytearray(sound[start:end])
    beyond[4 + entry - 16 : 4 + entry - 8] = struct.pack("<q", start)
    swapped = sound[start + 4 + entry : start + 4 + 2 * entry] + sound[start + 4 :][:entry]
    unsorted = sound[start : start + 4] + swapped + sound[start + 4 + 2 * entry : end]
    short = struct.pack("<I", 2) + sound[start + 4 : end]
    for wrong, what in (
        (bytes(beyond), f"bytes at {start}, outside of the blocks"),
        (unsorted, "index not sorted"),
        (short, "in an index of 2 entries"),
    ):
        footer = rca.Footer(start, len(wrong), 3, crc32(wrong))
        path.write_bytes(sound[:start] + wrong + rca.encode_footer(footer))
        for damage in (tally(path).damage, inspect(path)[1].damage, verify_segment(path).damage):
            assert damage and what in damage[0].what


def test_a_table_of_contents_that_cannot_be_right_is_not_counted(tmp_path: Path) -> None:
    path = three(tmp_path)
    data = bytearray(path.read_bytes())
    second = HEADER + rca.block_size(data, HEADER)
    head = rca.parse_head(data[second : second + 4096])
    first = head.collections[0]
    count_at = second + head.crc_end + 2 + len(first.name)
    struct.pack_into("<I", data, count_at, 1 << 28)
    path.write_bytes(data)
    counts = tally(path)
    assert counts.repos == 2 and counts.records == 6
    told = f"{path}@{second + head.crc_end}: {first.name}: {1 << 28} records in "
    assert [str(one) for one in counts.damage if str(one).startswith(told)]
    assert inspect(path)[1].damage


def test_a_footer_that_came_before_its_index_is_not_believed(tmp_path: Path) -> None:
    """A power cut keeps some pages and loses others; the header was still to be written."""
    path = three(tmp_path)
    segment, data = open_segment(path), bytearray(path.read_bytes())
    assert segment.footer
    start = segment.footer.index_offset
    data[:HEADER] = rca.encode_header(rca.Header(segment.header.created_at_us, 0, 0))
    path.write_bytes(data)
    early = open_segment(path)
    assert not early.finalised and early.footer == segment.footer
    data[start + 9] ^= 0xFF
    path.write_bytes(data)
    torn = open_segment(path)
    assert torn.footer is None and torn.blocks_end == len(data)
    assert verify_segment(path).blocks == 3


def test_collections_out_of_order_are_not_counted(tmp_path: Path) -> None:
    path = three(tmp_path)
    data = path.read_bytes().replace(b"app.bsky.actor.profile", b"zpp.bsky.actor.profile", 1)
    path.write_bytes(data)
    counts = tally(path)
    assert counts.repos == 2
    assert ["not sorted by name" in one.what for one in counts.damage] == [True]


def test_a_footer_that_counts_other_than_the_blocks_is_told(tmp_path: Path) -> None:
    """Header, footer and index agree with each other: one block is in none of them."""
    path = three(tmp_path)
    sound, segment = path.read_bytes(), open_segment(path)
    assert segment.footer
    start, entry = segment.footer.index_offset, 2 + len("did:plc:a") + 16
    index = struct.pack("<I", 2) + sound[start + 4 : start + 4 + 2 * entry]
    header = rca.encode_header(replace(segment.header, repo_count=2))
    footer = rca.encode_footer(rca.Footer(start, len(index), 2, crc32(index)))
    path.write_bytes(header + sound[HEADER:start] + index + footer)
    for damage in (tally(path).damage, inspect(path)[1].damage):
        assert [one.what for one in damage] == ["2 repos, and 3 blocks"]


@pytest.mark.parametrize(
    ("place", "offset", "what"),
    [
        (0, 0, "magic"),
        (10, 10, "reserved"),
        (20, 20, "repos"),
        (40, 40, "reserved"),
        ("footer index", "footer", "an index at"),
        ("footer size", "footer+8", "an index of"),
        ("footer repos", 20, "repos"),
        ("footer crc", "index", "index CRC"),
        ("footer reserved", "footer+20", "reserved"),
        ("index", "index", "index CRC"),
        ("block size", "block contents", "collections that end at"),
        ("block did", "block", "did:plc:"),
        ("block rev", "block", "not the one in the index"),
        ("block data", "block", "block CRC"),
    ],
)
def test_damage_is_named_with_its_place(
    place: int | str, offset: int | str, what: str, tmp_path: Path
) -> None:
    path = three(tmp_path)
    data = bytearray(path.read_bytes())
    segment = open_segment(path)
    assert segment.footer
    second = HEADER + rca.block_size(data, HEADER)
    footer = len(data) - FOOTER
    spots = {
        "footer index": footer + 1,
        "footer size": footer + 8,
        "footer repos": footer + 12,
        "footer crc": footer + 16,
        "footer reserved": footer + 20,
        "index": segment.footer.index_offset + 9,
        "block size": second,
        "block did": second + 4 + 2 + 8,
        "block rev": data.index(b"3lscuq", second),
        "block data": second + rca.block_size(data, second) - 1,
    }
    offsets = {
        "footer": footer,
        "footer+8": footer + 8,
        "footer+20": footer + 20,
        "index": segment.footer.index_offset,
        "block": second,
        "block contents": rca.parse_head(path.read_bytes()[second:]).crc_end + second,
    }
    data[spots[place] if isinstance(place, str) else place] ^= 0x04
    path.write_bytes(data)
    expected = offsets[offset] if isinstance(offset, str) else offset
    told = [d for d in verify_segment(path).damage if what in d.what]
    assert expected in [damage.offset for damage in told], verify_segment(path).damage
    assert str(told[0]).startswith(f"{path}@")


def resealed(path: Path, change: Callable[[bytes], bytes]) -> None:
    """Change the first block and make every checksum right again: only the content is wrong."""
    data = path.read_bytes()
    size = rca.block_size(data, HEADER)
    block = change(data[HEADER : HEADER + size])
    path.unlink()
    write(path.parent, [block])
    path.with_name("segment_0002.rca").rename(path)


def packed_entries(entries: bytes, count: int) -> bytes:
    collection = rca.PackedCollection("a.b.c", count, zstandard.compress(entries))
    return rca.encode_block("did:plc:x", "", "", 1, [collection])


def entry(rkey: str, json: bytes) -> bytes:
    return struct.pack("<H", len(rkey)) + rkey.encode() + struct.pack("<I", len(json)) + json


@pytest.mark.parametrize(
    ("block", "what"),
    [
        (packed_entries(entry("a", b"{}"), 2), "a.b.c: the data end"),
        (packed_entries(entry("a", b"{}") * 2, 1), "a.b.c: 9 bytes behind the last"),
        (packed_entries(entry("a", b"{") + entry("b", b"{}"), 2), "'a' is no JSON"),
        (packed_entries(entry("a", b'{"x":"\xff"}'), 1), "'a' is no JSON"),
        (packed_entries(entry("a", b"[1]"), 1), "'a' is no JSON object"),
        (packed_entries(entry("a", b'{"x":' + b"[" * 9999 + b"]" * 9999 + b"}"), 1), "'a' is no"),
        (packed_entries(entry("b", b"{}") + entry("a", b"{}"), 2), "'a' is out of order"),
        (packed_entries(entry("a", b"{}") * 2, 2), "'a' is out of order"),
        (
            rca.encode_block("did:plc:x", "", "", 1, [rca.PackedCollection("a.b.c", 1, b"no")]),
            "a.b.c: no readable zstd",
        ),
        (
            rca.encode_block("did:plc:x", "", "", 1, [pack("a.b.c", {"k": b"{}"})] * 2),
            "not sorted",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_content_that_is_wrong_under_right_checksums_is_seen(
    block: bytes, what: str, tmp_path: Path
) -> None:
    path = three(tmp_path)
    resealed(path, lambda old: block)
    (damage,) = verify_segment(path).damage
    assert what in damage.what and damage.offset > HEADER
    every_use(path)


def with_index(path: Path, change: Callable[[list[bytes]], list[bytes]]) -> None:
    """A segment whose index is another one, under right checksums."""
    segment = open_segment(path)
    data = path.read_bytes()
    blocks = data[: segment.blocks_end]
    rows = change(
        [
            struct.pack("<H", len(e.did)) + e.did + struct.pack("<qII", e.offset, e.size, e.crc)
            for e in segment.entries()
        ]
    )
    index = struct.pack("<I", len(rows)) + b"".join(rows)
    footer = rca.Footer(segment.blocks_end, len(index), len(rows), crc32(index))
    header = rca.Header(segment.header.created_at_us, len(rows), segment.blocks_end)
    path.write_bytes(
        rca.encode_header(header) + blocks[HEADER:] + index + rca.encode_footer(footer)
    )


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (lambda rows: rows[::-1], "index not sorted"),
        (lambda rows: rows[1:], "a block of did:plc:a that is not in the index"),
        (lambda rows: [*rows, rows[-1].replace(b":c", b":d")], "no block of did:plc:d here"),
        (lambda rows: [rows[0][:-1] + b"\0", *rows[1:]], "not the one in the index"),
        (lambda rows: [rows[0] + b"x", *rows[1:]], "whole entries"),
    ],
)
def test_an_index_that_does_not_fit_its_blocks_is_seen(
    change: Callable[[list[bytes]], list[bytes]], what: str, tmp_path: Path
) -> None:
    path = three(tmp_path)
    with_index(path, change)
    told = [damage.what for damage in verify_segment(path).damage]
    assert any(what in one for one in told), told
    every_use(path)


def test_a_damaged_block_costs_itself_only(tmp_path: Path) -> None:
    write(tmp_path, [make_block(f"did:plc:{n:03d}") for n in range(50)])
    path = tmp_path / "segment_0001.rca"
    sound = path.read_bytes()
    size = rca.block_size(sound, HEADER)
    pds = 25  # Covered by the index's CRC alone.
    for flip in (0, 1, 2, 3, 4, size - 1, pds):
        data = bytearray(sound)
        data[HEADER + 20 * size + flip] ^= 0x15
        path.write_bytes(data)
        left = [f"did:plc:{n:03d}" for n in range(50) if n != 20 or flip == pds]
        assert dids_in(tmp_path) == left
        assert look_up(tmp_path, "did:plc:021").block is not None
        found = look_up(tmp_path, "did:plc:020")
        assert found.block is None and found.damage[0].offset >= HEADER + 20 * size


def test_with_a_damaged_index_a_repository_is_still_found(tmp_path: Path) -> None:
    path = three(tmp_path)
    segment = open_segment(path)
    assert segment.footer
    data = bytearray(path.read_bytes())
    for at in range(segment.footer.index_offset, len(data) - FOOTER):
        data[at] ^= 0xFF
    path.write_bytes(data)
    assert look_up(tmp_path, "did:plc:b").block is not None
    assert tally(tmp_path).repos == 3


def test_an_unfinalised_segment_is_read_and_its_torn_end_is_no_damage(tmp_path: Path) -> None:
    path = three(tmp_path)
    segment = open_segment(path)
    data = rca.encode_header(rca.Header(1, 0, 0)) + path.read_bytes()[HEADER : segment.blocks_end]
    path.write_bytes(data[:-3])
    verdict = verify_segment(path)
    torn = rca.block_size(data, HEADER) - 3
    assert verdict.sound and not verdict.finalised and verdict.torn == torn
    counts = tally(tmp_path)
    assert (counts.repos, counts.unfinalised, counts.torn, counts.damage) == (2, 1, torn, [])
    assert look_up(tmp_path, "did:plc:c").block is not None
    assert look_up(tmp_path, "did:plc:b").block is None


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(st.data())
def test_no_bytes_crash_or_hang_a_reader(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("hostile")
    made = bytearray(three(folder).read_bytes())
    for _ in range(data.draw(st.integers(0, 6))):
        at = data.draw(st.integers(0, len(made) - 1))
        change = data.draw(st.one_of(st.binary(max_size=8), st.just(b"\xff" * 4)))
        made[at : at + data.draw(st.sampled_from([0, len(change)]))] = change
    if data.draw(st.booleans()):
        made = made[: data.draw(st.integers(0, len(made)))]
    path = folder / "segment_0001.rca"
    path.write_bytes(made)
    every_use(path)


MISLEADING = 4 + 2 + 9 + 4 + 14 + 2 + 5 + 8


def misleading(count: int) -> bytes:
    """Each head is right and claims everything behind it; only the checksums are wrong."""
    body = b""
    for n in range(count, 0, -1):
        names = struct.pack("<H", 9) + b"did:plc:x" + bytes(4)
        toc = struct.pack("<H5sII", 5, b"a.b.c", 1, (n - 1) * MISLEADING)
        body += struct.pack("<I", n * MISLEADING) + names + struct.pack("<qHI", 1, 1, 12345) + toc
    return body


def test_a_file_made_of_misleading_starts_is_given_up_on(tmp_path: Path) -> None:
    body = bytearray(misleading(1000))
    body[6:9] = b"xyz"  # No head of a block, so that the search begins.
    path = tmp_path / "segment_0001.rca"
    path.write_bytes(rca.encode_header(rca.Header(1, 0, 0)) + body)
    assert bytes_read(tmp_path) < 20 * len(body), "not every start was followed to the end"


def test_an_index_of_misleading_starts_is_given_up_on(tmp_path: Path) -> None:
    body = misleading(1000)
    rows = [
        struct.pack("<H9sqII", 9, b"did:plc:x", HEADER + at, MISLEADING, 1)
        for at in range(0, len(body), MISLEADING)
    ]
    index = struct.pack("<I", len(rows)) + b"".join(rows)
    end = HEADER + len(body)
    footer = rca.Footer(end, len(index), len(rows), crc32(index))
    header = rca.Header(1, len(rows), end)
    data = rca.encode_header(header) + body + index + rca.encode_footer(footer)
    (tmp_path / "segment_0001.rca").write_bytes(data)
    assert bytes_read(tmp_path) < 20 * len(data)


def bytes_read(folder: Path) -> int:
    """What finding all sound blocks costs, of which there must be none."""
    total = 0
    real = os.pread

    def counted(fd: int, size: int, offset: int) -> bytes:
        nonlocal total
        total += size
        return real(fd, size, offset)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "pread", counted)
        patch.setattr("trawlnet.archive.blocks._FUTILE_SLACK", 0)
        assert dids_in(folder) == []
    return total


@pytest.mark.parametrize("write_content_size", [True, False])
def test_a_bomb_is_not_unpacked(
    write_content_size: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bomb = zstandard.ZstdCompressor(write_content_size=write_content_size).compress(bytes(1 << 22))
    collection = rca.PackedCollection("a.b.c", 1, bomb)
    write(tmp_path, [rca.encode_block("did:plc:x", "", "", 1, [collection])])
    monkeypatch.setattr(rca, "unpacked", partial(rca.unpacked, limit=1 << 16))
    (damage,) = verify_segment(tmp_path / "segment_0001.rca").damage
    assert "more than 65536" in damage.what


def doubled(folder: Path) -> None:
    """a twice in one segment, b in two (the later one crawled earlier), c once."""
    blocks = [
        make_block("did:plc:a", 10),
        make_block("did:plc:b", 30),
        make_block("did:plc:a", 20),
    ]
    write(folder, blocks)
    write(folder, [make_block("did:plc:b", 25), make_block("did:plc:c", 5)])


def crawled_at(folder: Path, did: str) -> int:
    found = look_up(folder, did)
    assert found.block
    return found.block.head.crawled_at_us


def test_the_latest_block_of_a_did_counts(tmp_path: Path) -> None:
    doubled(tmp_path)
    assert [crawled_at(tmp_path, f"did:plc:{name}") for name in "abc"] == [20, 30, 5]
    counts = tally(tmp_path)
    assert (counts.repos, counts.records, counts.superseded) == (3, 9, 2)


def test_of_two_blocks_of_one_instant_the_later_written_counts(tmp_path: Path) -> None:
    for json in (b'{"n":1}', b'{"n":2}'):
        write(tmp_path, [make_block("did:plc:a", 10, {"a.b.c": {"k": json}})])
    found = look_up(tmp_path, "did:plc:a")
    assert found.segment and found.block
    assert [r.json for r in records(found.segment, found.block, lambda name: True)] == [b'{"n":2}']
    assert tally(tmp_path).superseded == 1


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(0, 5)), min_size=1, max_size=6),
        min_size=1,
        max_size=4,
    ),
    st.dictionaries(st.sampled_from("abcdef"), st.integers(0, 5), max_size=3),
)
def test_the_census_agrees_with_a_dictionary(
    tmp_path_factory: pytest.TempPathFactory,
    written: list[list[tuple[str, int]]],
    stones: dict[str, int],
) -> None:
    folder = tmp_path_factory.mktemp("archive")
    best: dict[str, int] = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda fd: None)
        for batch in written:
            write(folder, [make_block(f"did:plc:{name}", at) for name, at in batch])
            for name, at in batch:
                best[name] = max(best.get(name, -1), at)
        append_tombstones(
            folder, [Tombstone(f"did:plc:{name}", "deactivated", at) for name, at in stones.items()]
        )
    alive = {name for name, at in best.items() if at > stones.get(name, -1)}
    segments = [open_segment(path) for path in find_segments(folder)]
    census = take_census(segments, load_tombstones(folder))
    left = []
    for segment in segments:
        with segment.open() as fd:
            left += [
                (block.head.did[-1], block.head.crawled_at_us)
                for block in segment.blocks(fd, check=True)
                if isinstance(block, FoundBlock) and block.offset not in census.dead(segment.path)
            ]
    assert sorted(left) == sorted((name, best[name]) for name in alive)
    counts = tally(folder)
    assert counts.repos == len(alive)
    assert counts.repos + counts.superseded + counts.tombstoned == sum(map(len, written))


def test_an_archive_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(NoArchive, match="no segments"):
        find_segments(tmp_path)
    with pytest.raises(NoArchive, match="there is no"):
        find_segments(tmp_path / "x")


def test_a_segment_that_is_replaced_while_it_is_read_is_noticed(tmp_path: Path) -> None:
    segment = open_segment(three(tmp_path))
    write(tmp_path, [make_block("did:plc:other")])
    (tmp_path / "segment_0002.rca").replace(tmp_path / "segment_0001.rca")
    with pytest.raises(ArchiveChanged):
        list(segment.entries())


def test_more_segments_than_a_process_may_have_files_open(tmp_path: Path) -> None:
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    write(tmp_path, [make_block(f"did:plc:{n:03d}") for n in range(120)], segment_bytes=1)
    highest = max(map(int, os.listdir("/proc/self/fd")))
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 30, hard))
    try:
        assert tally(tmp_path).repos == 120
        assert look_up(tmp_path, "did:plc:077").block is not None
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_damage_reads_as_file_and_offset() -> None:
    assert str(Damage(Path("a/segment_0001.rca"), 64, "gone")) == "a/segment_0001.rca@64: gone"


def test_a_table_of_contents_beyond_the_first_pages_is_read(tmp_path: Path) -> None:
    many: dict[str, Any] = {f"org.example.collection{n:05d}": {"k": b"{}"} for n in range(5000)}
    write(tmp_path, [make_block("did:plc:many", 1, many), make_block("did:plc:next")])
    assert verify_segment(tmp_path / "segment_0001.rca").sound
    assert len(tally(tmp_path).collections) == 5002


def test_verify_fetches_no_block_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fetches(repositories: int) -> int:
        folder = tmp_path / str(repositories)
        write(folder, [make_block(f"did:plc:{n:03}", 7) for n in range(repositories)])
        asked: list[int] = []
        with monkeypatch.context() as patch:
            pread = os.pread
            patch.setattr(os, "pread", lambda fd, *rest: asked.append(fd) or pread(fd, *rest))
            assert verify_segment(folder / "segment_0001.rca").sound
        return len(asked)

    assert fetches(40) == fetches(4), "as many as for a tenth of the blocks"


def test_reading_ahead_gives_what_the_file_gives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(blocks, "CHUNK", 16)
    path, rng = tmp_path / "file", random.Random(5)
    path.write_bytes(rng.randbytes(100))
    fd = os.open(path, os.O_RDONLY)
    near = ReadAhead(fd)
    for _ in range(2000):
        size, offset = rng.randrange(20), rng.randrange(110)
        assert near.pread(size, offset) == os.pread(fd, size, offset), (size, offset)
    os.close(fd)
