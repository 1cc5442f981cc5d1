"""The repo archive format (.rca): header, repo blocks, index and footer, as bytes and values."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from trawlnet.hinted import UnknownFormat
from trawlnet.malformed import Malformed
from trawlnet.native.checksum import crc32
from trawlnet.native.zstd import ZstdError, read_frame

Buffer = bytes | bytearray | memoryview

MAGIC = b"REPOARCH"
NEWEST = 2
VERSIONS = (1, NEWEST)
HEADER_SIZE = 64
FOOTER_SIZE = 32
MAX_DECOMPRESSED = 1 << 30  # Bytes of one collection; more is damage, not to be allocated for.

_HEADER = struct.Struct("<8sHHqIq")
_HEADER_CRC = struct.Struct("<I")  # Of the fields before it; zeros in version 1.
_FOOTER = struct.Struct("<qIII4x8s")
_U16 = struct.Struct("<H")
_U32 = struct.Struct("<I")
_SIZE = _U32
_AFTER_NAMES = struct.Struct("<qHI")  # crawled at, collections, CRC
_AFTER_COLLECTION = struct.Struct("<II")  # records, compressed size
_U16_MAX = 0xFFFF
_U32_MAX = 0xFFFFFFFF
_FORM_BIT = 12  # The length of a DID has its block's form on top.
_LONGEST_DID = (1 << _FORM_BIT) - 1


class RcaError(Malformed):
    """Damage, and where: `offset` counts from the start of the bytes that were looked at."""

    def __init__(self, offset: int, what: str) -> None:
        super().__init__(f"{what} (at byte {offset})")
        self.offset = offset
        self.what = what


class RcaCut(RcaError):
    """The bytes end where more are needed; whoever has more of them can try again."""


@dataclass(frozen=True, slots=True)
class Header:
    created_at_us: int
    repo_count: int  # Zero until the segment is finalised.
    index_offset: int  # Zero until the segment is finalised.
    version: int = 1


@dataclass(frozen=True, slots=True)
class Footer:
    index_offset: int
    index_size: int
    repo_count: int
    index_crc: int


class Form(IntEnum):
    """What a block holds. A segment of version 2 may hold blocks of every form."""

    FIRST = 0  # A repository, as version 1 has it.
    FULL = 1  # A repository that can be proven.
    DELTA = 2  # What has changed in one since a revision.


class PackedCollection(NamedTuple):
    name: str
    records: int
    compressed: Buffer


class CollectionEntry(NamedTuple):
    name: str
    records: int
    start: int  # Of the compressed data, from the start of the block.
    end: int


class BlockHead(NamedTuple):  # Made for every block that is only stepped over: a tuple is quick.
    size: int
    did: str
    pds: str
    rev: str
    crawled_at_us: int
    crc: int  # Of everything behind this field; in version 2 of everything else.
    crc_end: int
    collections: Sequence[CollectionEntry]
    form: Form = Form.FIRST
    proof_start: int = 0  # It goes on to the end of the block.
    since: str = ""  # Of a delta: the revision that it changes.


class RecordEntry(NamedTuple):
    rkey: str
    json: bytes


def encode_header(header: Header) -> bytes:
    flags = 0
    fields = _HEADER.pack(
        MAGIC, header.version, flags, header.created_at_us, header.repo_count, header.index_offset
    )
    crc = _HEADER_CRC.pack(crc32(fields) if header.version > 1 else 0)
    return (fields + crc).ljust(HEADER_SIZE, b"\0")


def parse_header(data: Buffer, whose: object = "the segment") -> Header:
    """Raises RcaError for what is no header, and UnknownFormat for one of a newer version: that is
    no damage, and whoever goes on beyond damage must not go on beyond it."""
    if len(data) < HEADER_SIZE:
        raise RcaError(0, f"a header of {len(data)} bytes, expected {HEADER_SIZE}")
    magic, version, _flags, created, count, index_offset = _HEADER.unpack_from(data)
    if magic != MAGIC:
        raise RcaError(0, "not an archive: the magic bytes are missing")
    if version > NEWEST and not _is_old(data):
        raise UnknownFormat(
            f"{whose} has format version {version}; this version of trawlnet reads 1 to {NEWEST}",
            "use the version of trawlnet that made it; if none did, its header is damaged: move it "
            "to another folder",
        )
    if version not in VERSIONS:
        raise RcaError(8, f"format version {version}, which there never was")
    if index_offset and index_offset < HEADER_SIZE:
        raise RcaError(24, f"an index at {index_offset}, inside the header")
    return Header(created, count, index_offset, version)


def _is_old(data: Buffer) -> bool:
    """Whether a version that we know wrote a header, whose version is damaged: in the first one
    there was no CRC, and a newer one is part of its own."""
    (crc,) = _HEADER_CRC.unpack_from(data, _HEADER.size)
    magic, _version, *others = _HEADER.unpack_from(data)
    return crc in (0, *(crc32(_HEADER.pack(magic, known, *others)) for known in VERSIONS))


def header_is_sound(data: Buffer) -> bool:
    """Whether its CRC holds. A reader goes on without: the blocks and the index have their own."""
    (crc,) = _HEADER_CRC.unpack_from(data, _HEADER.size)
    return bool(crc == crc32(bytes(data[: _HEADER.size])))


_FORMS = tuple(Form)
_made = tuple.__new__  # A named tuple of what is in order: its constructor takes twice as long.


def encode_footer(footer: Footer) -> bytes:
    return _FOOTER.pack(
        footer.index_offset, footer.index_size, footer.repo_count, footer.index_crc, MAGIC
    )


def parse_footer(data: Buffer) -> Footer:
    if len(data) < FOOTER_SIZE:
        raise RcaError(0, f"a footer of {len(data)} bytes, expected {FOOTER_SIZE}")
    offset, size, count, crc, magic = _FOOTER.unpack_from(data)
    if magic != MAGIC:
        raise RcaError(24, "no footer: the magic bytes are missing")
    if offset < HEADER_SIZE:
        raise RcaError(0, f"an index at {offset}, inside the header")
    return Footer(offset, size, count, crc)


def encode_block(
    did: str,
    pds: str,
    rev: str,
    crawled_at_us: int,
    collections: Sequence[PackedCollection],
    proof: bytes | None = None,
    since: str | None = None,
) -> bytes:
    """One repository, of version 2 with a proof, and what has changed in it with a `since`.
    Collections are sorted by name here; empty ones are the caller's to omit."""
    if len(collections) > _U16_MAX:
        raise ValueError(f"{len(collections)} collections, the format counts to {_U16_MAX}")
    ordered = sorted(collections, key=lambda collection: collection.name.encode())
    contents = b"".join(
        [
            pack_string(name) + _AFTER_COLLECTION.pack(records, len(compressed))
            for name, records, compressed in ordered
        ]
    )
    data = [collection.compressed for collection in ordered]
    names = _pack_did(did, proof, since) + pack_string(pds) + pack_string(rev)
    if proof is not None:
        contents += _U32.pack(len(proof))
        data.append(proof)
    if since is not None:
        names += pack_string(since)
    size = _SIZE.size + len(names) + _AFTER_NAMES.size + len(contents) + sum(map(len, data))
    if size > _U32_MAX:
        raise ValueError(f"a block of {size} bytes, the format counts to {_U32_MAX}")
    # The data are joined once, at the end: fresh pages cost more than their checksum.
    before = _SIZE.pack(size) + names + _AFTER_NAMES.pack(crawled_at_us, len(ordered), 0)[:-4]
    crc = 0 if proof is None else crc32(before)
    for part in (contents, *data):
        crc = crc32(part, crc)
    return b"".join((before, _U32.pack(crc), contents, *data))


def _pack_did(did: str, proof: bytes | None, since: str | None) -> bytes:
    raw = did.encode()
    if len(raw) > _LONGEST_DID:
        raise ValueError(f"a DID of {len(raw)} bytes, the format counts to {_LONGEST_DID}")
    if since is not None and proof is None:
        raise ValueError("a delta without a proof")
    form = Form.FIRST if proof is None else Form.FULL if since is None else Form.DELTA
    return _U16.pack(len(raw) | form << _FORM_BIT) + raw


def block_size(data: Buffer, at: int = 0) -> int:
    """The size that the block at `at` claims; enough to step over it."""
    if len(data) - at < _SIZE.size:
        raise RcaCut(at, "the size of a block is cut")
    (size,) = _SIZE.unpack_from(data, at)
    if size < _SIZE.size + 3 * _U16.size + _AFTER_NAMES.size:
        raise RcaError(at, f"a block of {size} bytes, too few for its fixed fields")
    return int(size)


def version_of(block: Buffer) -> int:
    """Of the segment that a block goes to."""
    return 2 if block[_SIZE.size + 1] >> (_FORM_BIT - 8) else 1


def parse_block(block: Buffer) -> BlockHead:
    """The fields and table of contents of one whole block; sizes are checked, CRCs are not."""
    view = memoryview(block)
    size = block_size(view)
    if size != len(view):
        raise RcaError(0, f"a block that claims {size} bytes and has {len(view)}")
    return parse_head(view)


def parse_head(start: Buffer) -> BlockHead:
    """The same from the first bytes of a block, if they reach beyond its table of contents."""
    view = start if isinstance(start, bytes) else memoryview(start)
    size = block_size(view)
    did, at, form = _read_did(view)
    pds, at = read_string(view, at)
    rev, at = read_string(view, at)
    since = ""
    if form is Form.DELTA:
        since, at = read_string(view, at)
    (crawled_at_us, count, crc), crc_end = read_struct(view, at, _AFTER_NAMES)
    at = crc_end
    toc = []
    for _ in range(count):
        # Not by read_string and read_struct: counting an archive is little else than this.
        try:
            name_end = at + _U16.size + _U16.unpack_from(view, at)[0]
            records, compressed = _AFTER_COLLECTION.unpack_from(view, name_end)
            toc.append((str(view[at + _U16.size : name_end], "utf-8"), records, compressed))
        except struct.error:
            raise RcaCut(at, "the data end inside a field") from None
        except UnicodeDecodeError:
            raise RcaError(at, "a collection name that is not UTF-8") from None
        at = name_end + _AFTER_COLLECTION.size
    proof_size = 0
    if form:
        (proof_size,), at = read_struct(view, at, _U32)
    collections = []
    for name, records, compressed in toc:
        end = at + compressed
        collections.append(_made(CollectionEntry, (name, records, at, end)))
        at = end
    if at + proof_size != size:
        end = at + proof_size
        raise RcaError(crc_end, f"collections that end at {end} in a block of {size} bytes")
    return BlockHead(size, did, pds, rev, crawled_at_us, crc, crc_end, collections, form, at, since)


def _read_did(view: Buffer) -> tuple[str, int, Form]:
    at = _SIZE.size + _U16.size
    try:
        (size,) = _U16.unpack_from(view, _SIZE.size)
        form = _FORMS[size >> _FORM_BIT]
    except struct.error:
        raise RcaCut(_SIZE.size, "the data end inside a field") from None
    except IndexError:
        raise RcaError(_SIZE.size, f"a block of an unknown form, {size >> _FORM_BIT}") from None
    end = at + (size & _LONGEST_DID)
    if end > len(view):
        raise RcaCut(_SIZE.size, f"a DID of {end - at} bytes where {len(view) - at} are left")
    try:
        return str(view[at:end], "utf-8"), end, form
    except UnicodeDecodeError:
        raise RcaError(_SIZE.size, "a DID that is not UTF-8") from None


def block_crc(head: BlockHead, start: Buffer) -> int:
    """Of the first bytes of a block, if they reach beyond the field that its CRC is in."""
    view = memoryview(start)
    before = crc32(view[: head.crc_end - _U32.size]) if head.form else 0
    return crc32(view[head.crc_end :], before)


def check_block(block: Buffer) -> BlockHead:
    """The same, with the CRC over contents and data compared."""
    head = parse_block(block)
    found = block_crc(head, block)
    if found != head.crc:
        raise RcaError(head.crc_end, f"block CRC {found:08x}, expected {head.crc:08x}")
    return head


def decompress(block: Buffer, collection: CollectionEntry, limit: int = MAX_DECOMPRESSED) -> bytes:
    """The entries of one collection; raises RcaError where they are no zstd or exceed `limit`."""
    frame = memoryview(block)[collection.start : collection.end]
    return unpacked(frame, collection.start, limit)


def unpacked(frame: Buffer, offset: int, limit: int = MAX_DECOMPRESSED) -> bytes:
    """What is in one frame; the error says that it is at `offset`."""
    try:
        return read_frame(frame, limit)
    except ZstdError as error:
        raise RcaError(offset, f"no readable zstd: {error}") from None


def iter_records(entries: Buffer, count: int) -> Iterator[RecordEntry]:
    """The records of a decompressed collection, exactly `count` of them."""
    data, at = bytes(entries), 0
    for _ in range(count):
        try:
            key = at + _U16.size
            key_end = key + _U16.unpack_from(data, at)[0]
            start = key_end + _U32.size
            at = start + _U32.unpack_from(data, key_end)[0]
            rkey = str(data[key:key_end], "utf-8")
        except struct.error:
            raise RcaCut(at, "the data end inside a field") from None
        except UnicodeDecodeError:
            raise RcaError(key, "a record key that is not UTF-8") from None
        if at > len(data):
            what = f"JSON of {at - start} bytes where {len(data) - start} are left"
            raise RcaError(start, what)
        yield RecordEntry(rkey, data[start:at])
    if at != len(data):
        raise RcaError(at, f"{len(data) - at} bytes behind the last of {count} records")


def pack_string(text: str) -> bytes:
    raw = text.encode()
    if len(raw) > _U16_MAX:
        raise ValueError(f"a text of {len(raw)} bytes, the format counts to {_U16_MAX}")
    return _U16.pack(len(raw)) + raw


def read_string(view: Buffer, at: int) -> tuple[str, int]:
    start = at + _U16.size
    try:
        end = start + _U16.unpack_from(view, at)[0]
        if end > len(view):
            raise RcaCut(at, f"a text of {end - start} bytes where {len(view) - start} are left")
        return str(view[start:end], "utf-8"), end
    except struct.error:
        raise RcaCut(at, "the data end inside a field") from None
    except UnicodeDecodeError:
        raise RcaError(at, "a text that is not UTF-8") from None


def read_struct(view: Buffer, at: int, layout: struct.Struct) -> tuple[tuple[int, ...], int]:
    if len(view) - at < layout.size:
        raise RcaCut(at, "the data end inside a field")
    return layout.unpack_from(view, at), at + layout.size
