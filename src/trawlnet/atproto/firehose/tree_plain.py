"""One node of a partial tree, opened with every check that it allows by itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import NamedTuple

from trawlnet.atproto.cbor_items import (
    ARRAY,
    BYTES,
    LINK_TAG,
    SHA256_LINK,
    TAG,
    UNSIGNED,
    ItemHead,
    read_head,
)
from trawlnet.atproto.cid import decode_cid
from trawlnet.atproto.dagcbor import head, link
from trawlnet.atproto.firehose.items_plain import NULL
from trawlnet.atproto.firehose.limits import MAX_KEY, MAX_KEYS
from trawlnet.atproto.firehose.refusal import FrameRefused, Refusal
from trawlnet.malformed import Malformed


class TreeKey(NamedTuple):
    key: bytes
    cid: bytes
    layer: int


class Subtree(NamedTuple):
    cid: bytes
    layer: int  # -1 for a root, which has no parent to say it.
    low: bytes | None  # Its keys lie between these two.
    high: bytes | None


TreeItem = TreeKey | Subtree


class ReadEntry(NamedTuple):
    key: bytes
    cid: bytes
    right: bytes | None


@dataclass(slots=True)
class PartialTree:
    blocks: Mapping[bytes, bytes]
    key_bytes: int = 0
    opened: list[bytes] = field(default_factory=list)  # CIDs, for those who ask what was needed.

    def items(self, tree: Subtree) -> list[TreeItem]:
        """What a node holds, in order."""
        block = self.blocks.get(tree.cid)
        if block is None:
            raise FrameRefused(Refusal.PARTIAL_TREE)
        self.opened.append(tree.cid)
        try:
            left, entries = read_node(block)
            return self._checked(tree, left, entries)
        except Malformed:
            raise FrameRefused(Refusal.BAD_TREE) from None

    def _checked(
        self, tree: Subtree, left: bytes | None, entries: list[ReadEntry]
    ) -> list[TreeItem]:
        is_root = tree.layer < 0
        if not entries and (left is None) != is_root:
            raise Malformed("an empty node out of place")
        layer = key_layer(entries[0].key) if is_root and entries else tree.layer
        if layer == 0 and (left or any(entry.right for entry in entries)):
            raise Malformed("a subtree below the lowest layer")
        before = tree.low
        found: list[TreeItem] = []
        if left is not None:
            found.append(Subtree(left, layer - 1, before, None))
        for key, cid, right in entries:
            self.key_bytes += len(key)
            if self.key_bytes > MAX_KEYS or key_layer(key) != layer:
                raise Malformed("a key in the wrong layer, or too much of keys")
            if (before is not None and key <= before) or (tree.high and key >= tree.high):
                raise Malformed("keys out of order")
            before = key
            found.append(TreeKey(key, cid, layer))
            if right is not None:
                found.append(Subtree(right, layer - 1, before, None))
        return [_bounded(found, at, tree.high) for at in range(len(found))]


def _bounded(items: list[TreeItem], at: int, high: bytes | None) -> TreeItem:
    item = items[at]
    if isinstance(item, TreeKey):
        return item
    after = items[at + 1] if at + 1 < len(items) else None
    return item._replace(high=after.key if isinstance(after, TreeKey) else high)


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


def write_node(left: bytes | None, entries: list[ReadEntry]) -> bytes:
    parts = [b"\xa2\x61e", head(ARRAY, len(entries))]
    before = b""
    for key, cid, right in entries:
        shared = shared_prefix(before, key)
        before = key
        suffix = key[shared:]
        parts += (b"\xa4\x61k", head(BYTES, len(suffix)), suffix, b"\x61p", head(UNSIGNED, shared))
        parts += (b"\x61t", _subtree(right), b"\x61v", link_to(cid))
    return b"".join((*parts, b"\x61l", _subtree(left)))


def _subtree(cid: bytes | None) -> bytes:
    return bytes((NULL,)) if cid is None else link(cid)


def link_to(cid: bytes) -> bytes:
    return bytes((TAG << 5 | 24, LINK_TAG)) + head(BYTES, len(cid) + 1) + b"\0" + cid


# Reading. A node must be written in the one way there is, or it could not be written back.


def read_node(data: bytes) -> tuple[bytes | None, list[ReadEntry]]:
    at = _expect(data, 0, b"\xa2\x61e")
    count = _shortest(data, at, ARRAY)
    at = count.end
    entries: list[ReadEntry] = []
    before = b""
    for _ in range(count.argument):
        entry, at = _read_entry(data, at, before)
        before = entry.key
        entries.append(entry)
    left, at = _read_subtree(data, _expect(data, at, b"\x61l"))
    if at != len(data):
        raise Malformed("bytes follow a node")
    return left, entries


def _read_entry(data: bytes, at: int, before: bytes) -> tuple[ReadEntry, int]:
    size = _shortest(data, _expect(data, at, b"\xa4\x61k"), BYTES)
    at = size.end + size.argument
    suffix = data[size.end : at]
    prefix = _shortest(data, _expect(data, at, b"\x61p"), UNSIGNED)
    shared = prefix.argument
    key = before[:shared] + suffix
    if shared > len(before) or not 0 < len(key) <= MAX_KEY:
        raise Malformed("a key that is empty or too long, or a prefix that is")
    if suffix and before[shared : shared + 1] == suffix[:1]:
        raise Malformed("a key without its whole prefix")
    right, at = _read_subtree(data, _expect(data, prefix.end, b"\x61t"))
    cid, at = _read_value(data, _expect(data, at, b"\x61v"))
    return ReadEntry(key, cid, right), at


def _expect(data: bytes, at: int, wanted: bytes) -> int:
    if data[at : at + len(wanted)] != wanted:
        raise Malformed(f"no {wanted!r} at {at}")
    return at + len(wanted)


def _shortest(data: bytes, at: int, major: int) -> ItemHead:
    found = read_head(data, at)
    if data[at : found.end] != head(major, found.argument):
        raise Malformed(f"another head than the shortest at {at}")
    return found


def _read_subtree(data: bytes, at: int) -> tuple[bytes | None, int]:
    if data[at : at + 1] == bytes((NULL,)):
        return None, at + 1
    cid, end = _read_value(data, at)
    if len(cid) != 36 or cid[:4] != SHA256_LINK:
        raise Malformed(f"a subtree under another kind of CID at {at}")
    return cid, end


def _read_value(data: bytes, at: int) -> tuple[bytes, int]:
    size = _shortest(data, _expect(data, at, b"\xd8\x2a"), BYTES)
    end = size.end + size.argument
    if end > len(data) or data[size.end : size.end + 1] != b"\0":
        raise Malformed(f"no link at {at}")
    return decode_cid(data[size.end + 1 : end]).raw, end
