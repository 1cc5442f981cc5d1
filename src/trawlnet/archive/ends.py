"""Check what a segment says about itself: its header and footer, its index, a table of contents.

Cheap, since no data are read: whether they are what was written, the CRC of each block tells.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from trawlnet.archive.blocks import check_names, pread
from trawlnet.archive.format import rca
from trawlnet.archive.reader import Damage, Segment

REPOS_IN_HEADER, REPOS_IN_FOOTER = 20, 12  # Where each counts its repositories.
_LEAST_RECORD = 6  # Bytes of the two lengths before a key and its JSON.
_ZSTD_BLOCK, _LEAST_ZSTD_BLOCK = 128 << 10, 4  # No four bytes of zstd unpack to more than this.


def check_ends(segment: Segment) -> list[Damage]:
    """Of header, footer and index; none of an archive that is still being written, or sound."""
    found = [] if segment.damage is None else [segment.damage]
    found += [Damage(segment.path, offset, what) for offset, what in end_damage(segment)]
    found += [Damage(segment.path, offset, what) for offset, what in index_damage(segment)]
    return found


def end_damage(segment: Segment) -> Iterator[tuple[int, str]]:
    """Flags and padding are zero: what is written again from its fields must be the same."""
    with segment.open() as fd:
        header = pread(fd, rca.HEADER_SIZE, 0)
        start = segment.size - rca.FOOTER_SIZE
        footer = pread(fd, rca.FOOTER_SIZE, start) if segment.footer else b""
    if at := _difference(header, rca.encode_header(segment.header)):
        sound = rca.header_is_sound(header) or segment.header.version == 1
        what = "whose reserved bytes are not zero" if sound else "that is not what its CRC says"
        yield at - 1, f"a header {what}"
    if segment.footer is None:
        return
    if at := _difference(footer, rca.encode_footer(segment.footer)):
        yield start + at - 1, "a footer whose reserved bytes are not zero"
    if segment.finalised and segment.header.repo_count != segment.footer.repo_count:
        what = f"{segment.header.repo_count} repos, in the footer {segment.footer.repo_count}"
        yield REPOS_IN_HEADER, what


def _difference(one: bytes, other: bytes) -> int:
    """The place of the first byte that differs, from 1; 0 if none does."""
    return next((n for n, (a, b) in enumerate(zip(one, other, strict=False), 1) if a != b), 0)


def index_damage(segment: Segment) -> Iterator[tuple[int, str]]:
    """The first thing that is wrong with the index, taken by itself."""
    footer = segment.footer
    if footer is None:
        return
    if not segment.index_is_sound():
        yield footer.index_offset, "index CRC differs from the one in the footer"
        return
    count, before = 0, b""
    try:
        for entry in segment.index_entries(footer):
            if entry.did < before:
                raise rca.RcaError(footer.index_offset, f"index not sorted at {entry.did[:80]!r}")
            if not rca.HEADER_SIZE <= entry.offset <= segment.blocks_end - entry.size:
                what = f"the index has a block of {entry.size} bytes at {entry.offset}"
                raise rca.RcaError(footer.index_offset, f"{what}, outside of the blocks")
            count, before = count + 1, entry.did
    except rca.RcaError as error:
        yield error.offset, error.what
        return
    if count != footer.repo_count:
        place = segment.size - rca.FOOTER_SIZE + REPOS_IN_FOOTER
        yield place, f"{footer.repo_count} repos, in the index {count}"


def check_contents(head: rca.BlockHead) -> None:
    """Raises RcaError, its place counted from the start of the block, for a table of contents that
    nobody wrote. That its sizes add up was checked when it was read."""
    check_names(head)
    names = [collection.name.encode() for collection in head.collections]
    if any(one >= other for one, other in pairwise(names)):
        raise rca.RcaError(head.crc_end, "collections that are not sorted by name")
    for name, records, start, end in head.collections:
        unpacked = ((end - start) // _LEAST_ZSTD_BLOCK + 1) * _ZSTD_BLOCK
        if records * _LEAST_RECORD > unpacked:
            what = f"{name}: {records} records in {end - start} bytes, more than zstd can pack"
            raise rca.RcaError(head.crc_end, what)
