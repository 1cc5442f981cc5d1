"""From the entries of a collection in an archive to two columns of a table, without making an
object of any record."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from trawlnet.archive.format.rca import RcaError
from trawlnet.tables.clickhouse.native import SHORT, TextPairs, varint

_U32 = struct.Struct("<I")
_ROWS = 50_000  # In one piece.
_BYTES = 32 << 20  # Of JSON in one piece, about.


def unpack(entries: bytes, count: int) -> Iterator[TextPairs]:
    """The records of a decompressed collection, exactly `count`, a bounded piece at a time."""
    at = done = 0
    short, longest = SHORT, len(SHORT)  # Looked up here: a call per record is a third of the time.
    while done < count:
        keys: list[bytes] = []
        texts: list[bytes] = []
        begun = at
        try:
            for _ in range(min(_ROWS, count - done)):
                size = entries[at] | entries[at + 1] << 8
                at += 2 + size
                head = short[size] if size < longest else varint(size)
                keys.append(head + entries[at - size : at])
                (size,) = _U32.unpack_from(entries, at)
                at += 4 + size
                texts.append(short[size] if size < longest else varint(size))
                texts.append(entries[at - size : at])
                if at - begun > _BYTES:
                    break
        except (IndexError, struct.error):
            at = len(entries) + 1
        if at > len(entries):
            raise RcaError(begun, f"the data end inside of {count} records")
        done += len(keys)
        yield TextPairs(len(keys), b"".join(keys), b"".join(texts))
    if at != len(entries):
        raise RcaError(at, f"{len(entries) - at} bytes behind the last of {count} records")
