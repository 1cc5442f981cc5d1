"""One node of a partial tree, opened with every check that it allows by itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from trawlnet.atproto.cbor_items import SHA256_LINK
from trawlnet.atproto.cid import decode_cid
from trawlnet.atproto.firehose.limits import MAX_KEYS
from trawlnet.atproto.firehose.refusal import FrameRefused, Refusal
from trawlnet.atproto.repository.node_plain import (
    NodeEntry,
    is_canonical,
    key_layer,
    next_key,
    read_node,
)
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
            if not is_canonical(block, left, entries):
                raise Malformed("a node that could not be written back")
            return self._checked(tree, left, entries)
        except Malformed:
            raise FrameRefused(Refusal.BAD_TREE) from None

    def _checked(
        self, tree: Subtree, left: bytes | None, entries: list[NodeEntry]
    ) -> list[TreeItem]:
        is_root = tree.layer < 0
        if not entries and (left is None) != is_root:
            raise Malformed("an empty node out of place")
        layer = key_layer(entries[0].suffix) if is_root and entries else tree.layer
        if layer == 0 and (left or any(entry.subtree for entry in entries)):
            raise Malformed("a subtree below the lowest layer")
        key, before = b"", tree.low
        found: list[TreeItem] = []
        if left is not None:
            found.append(Subtree(SHA256_LINK + left, layer - 1, before, None))
        for entry in entries:
            key = next_key(key, entry)
            self.key_bytes += len(key)
            if self.key_bytes > MAX_KEYS or key_layer(key) != layer:
                raise Malformed("a key in the wrong layer, or too much of keys")
            if (before is not None and key <= before) or (tree.high and key >= tree.high):
                raise Malformed("keys out of order")
            before = key
            found.append(TreeKey(key, decode_cid(entry.cid).raw, layer))
            if entry.subtree is not None:
                found.append(Subtree(SHA256_LINK + entry.subtree, layer - 1, before, None))
        return [_bounded(found, at, tree.high) for at in range(len(found))]


def _bounded(items: list[TreeItem], at: int, high: bytes | None) -> TreeItem:
    item = items[at]
    if isinstance(item, TreeKey):
        return item
    after = items[at + 1] if at + 1 < len(items) else None
    return item._replace(high=after.key if isinstance(after, TreeKey) else high)
