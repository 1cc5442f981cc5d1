"""One node of a repository's tree, read and written: the plain twin of the C code."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import NamedTuple

from trawlnet.atproto.cbor_items import (
    ARRAY,
    BYTES,
    MAP,
    SHA256_LINK,
    UNSIGNED,
    read_head,
    read_link,
    read_sha256_link,
    read_span,
)
from trawlnet.atproto.dagcbor import head, link
from trawlnet.malformed import Malformed

MAX_KEY = 1024  # Bytes of a tree key; the longest legal one has 830.
_NULL = b"\xf6"


class NodeEntry(NamedTuple):
    suffix: bytes
    prefix: int
    subtree: bytes | None  # Digest.
    cid: bytes

    @property
    def value(self) -> bytes | None:
        """The digest of the record; None for a CID that is not DAG-CBOR under SHA-256."""
        is_usual = len(self.cid) == 36 and self.cid[:4] == SHA256_LINK
        return self.cid[4:] if is_usual else None


def key_layer(key: bytes) -> int:
    """One for every two bits that the key's hash begins with and that are zero."""
    return (256 - int.from_bytes(sha256(key).digest(), "big").bit_length()) // 2


def shared_prefix(one: bytes, other: bytes) -> int:
    # By halves: whoever writes the keys says how long they are.
    low, high = 0, min(len(one), len(other))
    while low < high:
        middle = (low + high + 1) // 2
        if one[low:middle] == other[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def next_key(before: bytes, entry: NodeEntry) -> bytes:
    """The key of an entry, by that of the one before it. Raises Malformed."""
    if entry.prefix > len(before):
        raise Malformed("a prefix longer than the key before")
    key = before[: entry.prefix] + entry.suffix
    if not key or len(key) > MAX_KEY:
        raise Malformed("a key is empty or too long")
    return key


def encode_node(left: bytes | None, entries: Sequence[NodeEntry]) -> bytes:
    out = [b"\xa2\x61e", head(ARRAY, len(entries))]
    for suffix, prefix, subtree, cid in entries:
        out += (b"\xa4\x61k", head(BYTES, len(suffix)), suffix, b"\x61p", head(UNSIGNED, prefix))
        out += (b"\x61t", _subtree(subtree), b"\x61v", link(cid))
    out += (b"\x61l", _subtree(left))
    return b"".join(out)


def _subtree(digest: bytes | None) -> bytes:
    return _NULL if digest is None else link(SHA256_LINK + digest)


def is_canonical(data: bytes, left: bytes | None, entries: Sequence[NodeEntry]) -> bool:
    """Whether a node has the shortest heads, and prefixes as long as they can be."""
    before = b""
    for entry in entries:
        if entry.suffix and before[entry.prefix : entry.prefix + 1] == entry.suffix[:1]:
            return False
        before = before[: entry.prefix] + entry.suffix
    return encode_node(left, entries) == data


def read_node(data: bytes) -> tuple[bytes | None, list[NodeEntry]]:
    """The subtree on the left and the entries, from heads of any width. Raises Malformed."""
    start = read_head(data, 0)
    if start.major != MAP or start.argument != 2:
        raise Malformed("a tree node is no pair")
    count = read_head(data, _field(data, start.end, b"e"))
    if count.major != ARRAY:
        raise Malformed("a tree node's entries are no list")
    at = count.end
    entries = []
    for _ in range(count.argument):
        entry, at = _read_entry(data, at)
        entries.append(entry)
    left, at = _read_subtree(data, _field(data, at, b"l"))
    if at != len(data):
        raise Malformed("bytes follow a tree node")
    if entries and entries[0].prefix:
        raise Malformed("a node's first key has a prefix")
    return left, entries


def _read_entry(data: bytes, at: int) -> tuple[NodeEntry, int]:
    start = read_head(data, at)
    if start.major != MAP or start.argument != 4:
        raise Malformed("a tree entry is no map of four")
    suffix, at = read_span(data, _field(data, start.end, b"k"), BYTES)
    prefix = read_head(data, _field(data, at, b"p"))
    if len(suffix) > MAX_KEY or prefix.major != UNSIGNED or prefix.argument > MAX_KEY:
        raise Malformed("a tree entry's key is malformed")
    subtree, at = _read_subtree(data, _field(data, prefix.end, b"t"))
    cid, at = read_link(data, _field(data, at, b"v"))
    return NodeEntry(suffix, prefix.argument, subtree, cid), at


def _field(data: bytes, at: int, name: bytes) -> int:
    if data[at : at + 2] != b"\x61" + name:
        raise Malformed(f"no field {name.decode()} where a tree node has it")
    return at + 2


def _read_subtree(data: bytes, at: int) -> tuple[bytes | None, int]:
    if data[at : at + 1] == _NULL:
        return None, at + 1
    return read_sha256_link(data, at)
