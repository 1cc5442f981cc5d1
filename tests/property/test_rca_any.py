"""Archives of anything read back as written, and damage is always said to be damage."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from trawlnet.archive.format import index as rcaindex
from trawlnet.archive.format import rca

times = st.integers(-(1 << 63), (1 << 63) - 1)
counts = st.integers(0, (1 << 32) - 1)
offsets = st.integers(rca.HEADER_SIZE, (1 << 63) - 1)
texts = st.text(max_size=30)
collections = st.lists(
    st.builds(rca.PackedCollection, texts, counts, st.binary(max_size=40)),
    max_size=6,
    unique_by=lambda collection: collection.name,
)
entries = st.lists(st.builds(rcaindex.IndexEntry, texts, offsets, counts, counts), max_size=30)


@given(st.builds(rca.Header, times, counts, st.just(0) | offsets))
def test_headers_read_back(header: rca.Header) -> None:
    assert rca.parse_header(rca.encode_header(header)) == header


@given(st.builds(rca.Footer, offsets, counts, counts, counts))
def test_footers_read_back(footer: rca.Footer) -> None:
    assert rca.parse_footer(rca.encode_footer(footer)) == footer


@settings(deadline=None)
@given(texts, texts, texts, times, collections)
def test_blocks_read_back(
    did: str, pds: str, rev: str, at_us: int, packed: list[rca.PackedCollection]
) -> None:
    block = rca.encode_block(did, pds, rev, at_us, packed)
    head = rca.check_block(block)
    assert (head.did, head.pds, head.rev, head.crawled_at_us) == (did, pds, rev, at_us)
    assert head.size == rca.block_size(block) == len(block)
    found = [
        (entry.name, entry.records, block[entry.start : entry.end]) for entry in head.collections
    ]
    assert found == sorted((one[:3] for one in packed), key=lambda row: row[0].encode())


@given(entries)
def test_indexes_read_back_sorted(written: list[rcaindex.IndexEntry]) -> None:
    index = rcaindex.encode_index(written)
    found = list(rcaindex.iter_index(index))
    assert found == sorted(written, key=lambda entry: entry.did.encode())
    for entry in written:
        assert entry in rcaindex.find_entries(index, entry.did)


dids = st.builds("did:{}:{}".format, st.sampled_from(["plc", "web"]), st.text("ab:d.i", max_size=9))


@settings(max_examples=50, deadline=None)
@given(st.lists(dids, min_size=300, max_size=500), dids)
def test_bisection_finds_what_a_scan_finds(known: list[str], asked: str) -> None:
    index = rcaindex.encode_index(
        [rcaindex.IndexEntry(did, 64 + n, n, n) for n, did in enumerate(known)]
    )
    for did in [asked, *known[::50]]:
        scan = [entry for entry in rcaindex.iter_index(index) if entry.did == did]
        assert rcaindex.find_entries(index, did) == scan


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_damage_is_reported_with_a_place(data: st.DataObject) -> None:
    good = rca.encode_block("did:plc:x", "https://p.example", "rev", 1, data.draw(collections))
    bad = bytearray(good)
    for _ in range(data.draw(st.integers(1, 4))):
        bad[data.draw(st.integers(0, len(bad) - 1))] = data.draw(st.integers(0, 255))
    for what in (bytes(bad), bytes(bad[: data.draw(st.integers(0, len(bad)))])):
        try:
            head = rca.check_block(what)
            for entry in head.collections:
                rca.decompress(what, entry, limit=1 << 16)
        except rca.RcaError as error:
            assert 0 <= error.offset <= len(what)


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=200), st.integers(0, 5))
def test_any_bytes_are_records_an_index_or_an_error(data: bytes, count: int) -> None:
    for read in (
        lambda: list(rca.iter_records(data, count)),
        lambda: list(rcaindex.iter_index(data)),
    ):
        try:
            read()
        except rca.RcaError as error:
            assert 0 <= error.offset <= len(data)
