"""Parts of a shared archive: small segments of whole blocks, and larger ones composed of them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from trawlnet.archive.entries import BlockEntry, EntryLog, read_entries
from trawlnet.archive.format import rca
from trawlnet.archive.segment_file import CheckedBlock, check
from trawlnet.native.checksum import crc32
from trawlnet.storage.errors import SinkError
from trawlnet.storage.objects import Objects
from trawlnet.storage.part_sink import PartForm

FOLDER = "parts"


@dataclass(frozen=True, slots=True)
class Kept:
    """What of one part goes into a segment."""

    part: str  # Its name.
    entries: Sequence[BlockEntry]  # In the order of their offsets.
    version: int = 1  # Of the part.


def path_of(part: str) -> str:
    return f"{FOLDER}/{part}.rca"


def part_bytes(blocks: Sequence[CheckedBlock], created_at_us: int) -> bytes:
    """A finished segment of these blocks."""
    log, at = EntryLog(), rca.HEADER_SIZE
    for block in blocks:
        log.add(BlockEntry(block.did, at, len(block.data), block.crc))
        at += len(block.data)
    version = max((block.version for block in blocks), default=1)
    head, tail = _ends(log, at, created_at_us, version)
    return b"".join((head, *(block.data for block in blocks), tail))


def kept_of(objects: Objects, part: str, size: int, dids: Collection[bytes]) -> Kept:
    """The blocks of these DIDs in a part. Raises SinkError for one that is not as it was made."""
    read = partial(objects.read, path_of(part))
    try:
        header = rca.parse_header(read(rca.HEADER_SIZE, 0), f"{objects.url}/{path_of(part)}")
        found = read_entries(read, header.index_offset, size - rca.FOOTER_SIZE)
        entries = [entry for entry in found if entry.did in dids]
    except (rca.RcaError, FileNotFoundError) as error:
        raise _spoilt(objects, part, str(error)) from error
    return Kept(part, sorted(entries, key=lambda entry: entry.offset), header.version)


def segment_pieces(objects: Objects, kept: Sequence[Kept], created_at_us: int) -> Iterator[bytes]:
    """A segment of what is kept of these parts, one part in memory at a time; of the newest version
    among them, since a fleet may have changed it on the way."""
    log, at = EntryLog(), rca.HEADER_SIZE
    for one in kept:
        for entry in one.entries:
            log.add(entry._replace(offset=at))
            at += entry.size
    version = max((one.version for one in kept), default=1)
    head, tail = _ends(log, at, created_at_us, version)
    yield head
    for one in kept:
        data = memoryview(objects.get(path_of(one.part)))
        for entry in one.entries:
            block = data[entry.offset : entry.offset + entry.size]
            if crc32(block) != entry.crc:
                raise _spoilt(objects, one.part, f"the block at {entry.offset} is damaged")
        yield b"".join(data[e.offset : e.offset + e.size] for e in one.entries)
    yield tail


def _ends(
    log: EntryLog, index_offset: int, created_at_us: int, version: int
) -> tuple[bytes, bytes]:
    index = b"".join(log.section())
    footer = rca.Footer(index_offset, len(index), len(log), crc32(index))
    header = rca.Header(created_at_us, len(log), index_offset, version)
    return rca.encode_header(header), index + rca.encode_footer(footer)


def _spoilt(objects: Objects, part: str, what: str) -> SinkError:
    return SinkError(
        f"{objects.url}/{path_of(part)}: {what}",
        "keep it, and put back the part as it was written: its repositories count as archived",
    )


def _objects(name: str, blocks: Sequence[CheckedBlock], at_us: int) -> list[tuple[str, bytes]]:
    return [(path_of(name), part_bytes(blocks, at_us))]


# Parts of repository blocks, for the sink that puts them.
BLOCKS = PartForm(lambda task, data: check(data), lambda block: len(block.data), _objects)
