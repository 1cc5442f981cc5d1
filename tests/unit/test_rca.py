"""The archive format, byte by byte, and what is said of damage."""

from __future__ import annotations

import struct
from zlib import crc32

import pytest
import zstandard

from trawlnet.archive.format import index as rcaindex
from trawlnet.archive.format import rca
from trawlnet.hinted import UnknownFormat

HEADER = rca.Header(created_at_us=0x0102030405060708, repo_count=3, index_offset=0x1000)
# Written out by hand from the format's tables.
HEADER_BYTES = (
    bytes.fromhex(
        "5245504f41524348"  # REPOARCH
        "0100" + "0000"  # version, flags
        "0807060504030201"  # created at
        "03000000"  # repos
        "0010000000000000"  # index offset
    )
    + bytes(32)
)

FOOTER = rca.Footer(index_offset=0x1000, index_size=0x22, repo_count=3, index_crc=0xDEADBEEF)
FOOTER_BYTES = bytes.fromhex(
    "0010000000000000"  # index offset
    "22000000"  # index size
    "03000000"  # repos
    "efbeadde"  # CRC of the index
    "00000000"  # reserved
    "5245504f41524348"  # REPOARCH
)

A, B = rca.PackedCollection("a.b.c", 2, b"AAAA"), rca.PackedCollection("a.b.d", 1, b"BB")
TOC_AND_DATA = bytes.fromhex(
    "0500612e622e63" + "02000000" + "04000000"  # a.b.c, 2 records, 4 bytes
    "0500612e622e64" + "01000000" + "02000000"  # a.b.d, 1 record, 2 bytes
    "41414141" + "4242"
)
BLOCK_BYTES = (
    bytes.fromhex(
        "50000000"  # 80 bytes, these four included
        "0900" + "6469643a706c633a78"  # did:plc:x
        "0800" + "68747470733a2f2f"  # https://
        "0300" + "726576"  # rev
        "0500000000000000"  # crawled at
        "0200"  # collections
    )
    + struct.pack("<I", crc32(TOC_AND_DATA))
    + TOC_AND_DATA
)


def block() -> bytes:
    return rca.encode_block("did:plc:x", "https://", "rev", 5, [B, A])


def test_the_header_has_the_bytes_of_the_table() -> None:
    assert rca.encode_header(HEADER) == HEADER_BYTES
    assert len(HEADER_BYTES) == rca.HEADER_SIZE
    assert rca.parse_header(HEADER_BYTES) == HEADER


def test_the_footer_has_the_bytes_of_the_table() -> None:
    assert rca.encode_footer(FOOTER) == FOOTER_BYTES
    assert len(FOOTER_BYTES) == rca.FOOTER_SIZE
    assert rca.parse_footer(FOOTER_BYTES) == FOOTER


def test_a_block_counts_itself_and_sorts_its_collections() -> None:
    assert block() == BLOCK_BYTES
    assert rca.block_size(BLOCK_BYTES) == len(BLOCK_BYTES) == 0x50


def test_a_block_reads_back() -> None:
    head = rca.check_block(BLOCK_BYTES)
    assert (head.did, head.pds, head.rev, head.crawled_at_us) == ("did:plc:x", "https://", "rev", 5)
    cut = [BLOCK_BYTES[entry.start : entry.end] for entry in head.collections]
    assert [(entry.name, entry.records) for entry in head.collections] == [
        ("a.b.c", 2),
        ("a.b.d", 1),
    ]
    assert cut == [b"AAAA", b"BB"]


def test_the_inner_crc_covers_contents_and_data_only() -> None:
    head = rca.parse_block(BLOCK_BYTES)
    assert BLOCK_BYTES[head.crc_end :] == TOC_AND_DATA
    assert head.crc == crc32(TOC_AND_DATA)
    other_rev = BLOCK_BYTES.replace(b"rev", b"veR")
    assert rca.check_block(other_rev).rev == "veR"


def test_a_repo_without_records_is_a_block_without_collections() -> None:
    empty = rca.encode_block("did:plc:x", "", "", 0, [])
    assert rca.check_block(empty).collections == []
    assert struct.unpack_from("<I", empty)[0] == len(empty)


def test_the_index_is_sorted_by_did_and_has_the_bytes_of_the_table() -> None:
    entries = [
        rcaindex.IndexEntry("did:plc:b", 150, 86, 0xAABBCCDD),
        rcaindex.IndexEntry("did:plc:a", 64, 86, 1),
    ]
    index = rcaindex.encode_index(entries)
    assert index == bytes.fromhex(
        "02000000"
        "0900" + "6469643a706c633a61" + "4000000000000000" + "56000000" + "01000000"
        "0900" + "6469643a706c633a62" + "9600000000000000" + "56000000" + "ddccbbaa"
    )
    assert list(rcaindex.iter_index(index)) == entries[::-1]


def test_entries_of_one_did_stay_in_the_order_written() -> None:
    twice = [
        rcaindex.IndexEntry("did:plc:a", 900, 1, 1),
        rcaindex.IndexEntry("did:plc:a", 64, 1, 1),
    ]
    assert list(rcaindex.iter_index(rcaindex.encode_index(twice))) == twice


def test_an_index_entry_is_found_by_did_without_reading_the_whole_index() -> None:
    dids = [f"did:plc:{n:05d}" for n in range(0, 4000, 2)] + [
        "did:web:did:web:x",
        "did:web:e.example",
    ]
    entries = [rcaindex.IndexEntry(did, 64 + n, n, n) for n, did in enumerate(sorted(dids))]
    index = rcaindex.encode_index(entries)
    assert [rcaindex.find_entries(index, entry.did) for entry in entries] == [
        [entry] for entry in entries
    ]
    assert rcaindex.find_entries(index, "did:plc:00001") == []
    assert (
        rcaindex.find_entries(index, "did:aaa:x") == rcaindex.find_entries(index, "did:zzz:x") == []
    )


def test_both_blocks_of_a_did_are_found() -> None:
    entries = [rcaindex.IndexEntry(f"did:plc:{n // 3:05d}", 64 + n, n, n) for n in range(900)]
    index = rcaindex.encode_index(entries)
    assert rcaindex.find_entries(index, "did:plc:00123") == entries[369:372]


def test_a_found_entry_looks_like_no_number_beside_it() -> None:
    lure = int.from_bytes(b"\x09\x00did:pl", "little")
    entries = [
        rcaindex.IndexEntry("did:plc:a", lure, int.from_bytes(b"c:zz", "little"), 7),
        rcaindex.IndexEntry("did:plc:z", 64, 1, 1),
    ]
    assert rcaindex.find_entries(rcaindex.encode_index(entries), "did:plc:z") == entries[1:]


@pytest.mark.parametrize(
    ("at", "value", "what"),
    [
        (0, b"X", "magic"),
        (8, b"\0", "version 0"),
        (24, b"\x05\x00", "inside the header"),
    ],
)
def test_a_bad_header_is_named(at: int, value: bytes, what: str) -> None:
    damaged = bytearray(HEADER_BYTES)
    damaged[at : at + len(value)] = value
    with pytest.raises(rca.RcaError, match=what) as caught:
        rca.parse_header(bytes(damaged))
    assert caught.value.offset == at


def test_a_header_of_a_newer_version_is_no_damage() -> None:
    newer = rca.encode_header(rca.Header(7, 0, 0, version=rca.NEWEST + 1))
    with pytest.raises(UnknownFormat, match=r"here\.rca has format version 3; .* reads 1 to 2"):
        rca.parse_header(newer, "here.rca")


@pytest.mark.parametrize("version", rca.VERSIONS)
@pytest.mark.parametrize("at", [8, 9])
def test_damage_to_the_version_of_an_older_header_is_damage(version: int, at: int) -> None:
    damaged = bytearray(rca.encode_header(rca.Header(7, 3, 200, version)))
    damaged[at] ^= 0x40
    with pytest.raises(rca.RcaError, match=r"format version \d+, which there never was"):
        rca.parse_header(bytes(damaged))


@pytest.mark.parametrize("at", range(len(BLOCK_BYTES)))
def test_no_flipped_bit_in_contents_or_data_passes(at: int) -> None:
    damaged = bytearray(BLOCK_BYTES)
    damaged[at] ^= 0x10
    head = rca.parse_block(BLOCK_BYTES)
    try:
        rca.check_block(damaged)
        passed = True
    except rca.RcaError:
        passed = False
    # Names, time and rev are covered by the index's CRC, not by the block's own.
    assert not passed or at < head.crc_end


@pytest.mark.parametrize("size", range(len(BLOCK_BYTES)))
def test_a_cut_block_is_refused(size: int) -> None:
    with pytest.raises(rca.RcaError):
        rca.check_block(BLOCK_BYTES[:size])


@pytest.mark.parametrize("size", [0, 1, 3, 4, 23])
def test_an_impossible_block_size_is_refused(size: int) -> None:
    with pytest.raises(rca.RcaError, match="too few"):
        rca.block_size(struct.pack("<I", size))


def test_sizes_that_lie_are_named_with_their_place() -> None:
    damaged = bytearray(BLOCK_BYTES)
    damaged[4:6] = b"\xff\x0f"
    with pytest.raises(rca.RcaError, match="4095 bytes where") as caught:
        rca.parse_block(damaged)
    assert caught.value.offset == 4


def test_what_the_format_cannot_hold_is_refused_when_writing() -> None:
    with pytest.raises(ValueError, match="65536 bytes"):
        rca.encode_block("d" * 65536, "", "", 0, [])
    with pytest.raises(ValueError, match="collections"):
        rca.encode_block("did:plc:x", "", "", 0, [A] * 65536)


def packed(entries: bytes, **options: bool) -> tuple[bytes, rca.CollectionEntry]:
    data = zstandard.ZstdCompressor(level=3, **options).compress(entries)
    made = rca.encode_block("did:plc:x", "", "", 0, [rca.PackedCollection("a.b.c", 1, data)])
    return made, rca.check_block(made).collections[0]


@pytest.mark.parametrize("write_content_size", [True, False])
def test_collections_decompress_with_and_without_a_declared_size(write_content_size: bool) -> None:
    for content in (b"", b"x" * 100_000):
        made, entry = packed(content, write_content_size=write_content_size)
        assert rca.decompress(made, entry) == content


@pytest.mark.parametrize("write_content_size", [True, False])
def test_a_collection_that_swells_beyond_the_limit_is_refused(write_content_size: bool) -> None:
    made, entry = packed(bytes(5_000_000), write_content_size=write_content_size)
    with pytest.raises(rca.RcaError, match="more than 1000"):
        rca.decompress(made, entry, limit=1000)


def test_broken_zstd_is_named_with_its_place() -> None:
    made, entry = packed(b"hello" * 100)
    damaged = bytearray(made)
    damaged[entry.start] ^= 0xFF
    with pytest.raises(rca.RcaError, match="zstd") as caught:
        rca.decompress(damaged, entry)
    assert caught.value.offset == entry.start


@pytest.mark.parametrize("write_content_size", [True, False])
def test_a_cut_zstd_frame_is_refused(write_content_size: bool) -> None:
    made, entry = packed(bytes(range(256)) * 50, write_content_size=write_content_size)
    with pytest.raises(rca.RcaError, match="zstd"):
        rca.decompress(made, entry._replace(end=entry.end - 3))


def test_records_read_back_and_their_number_must_be_right() -> None:
    entries = b"\x04\x00self" + b"\x02\x00\x00\x00{}" + b"\x01\x00a" + b"\x00\x00\x00\x00"
    assert list(rca.iter_records(entries, 2)) == [("self", b"{}"), ("a", b"")]
    with pytest.raises(rca.RcaError, match="behind the last of 1") as caught:
        list(rca.iter_records(entries, 1))
    assert caught.value.offset == 12
    with pytest.raises(rca.RcaError, match="inside a field"):
        list(rca.iter_records(entries, 3))
    with pytest.raises(rca.RcaError, match="JSON of 2 bytes"):
        list(rca.iter_records(entries[:11], 1))
