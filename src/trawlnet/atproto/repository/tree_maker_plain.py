"""A repository's tree made from its keys: the plain twin of the C code, node for node."""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import sha256

from trawlnet.atproto.repository.node_plain import (
    NodeEntry,
    encode_node,
    key_layer,
    shared_prefix,
)
from trawlnet.malformed import Malformed

MAX_LAYER = 128  # SHA-256 has 256 bits, and a layer is two of them.


@dataclass(slots=True)
class _GrowingNode:
    left: bytes | None = None
    entries: list[NodeEntry] = field(default_factory=list)
    key: bytes = b""  # Of the last entry.


class TreeMaker:
    """Keys come in order; nodes come out when the layer above needs them. Raises Malformed for what
    no tree has."""

    def __init__(self) -> None:
        self._open: dict[int, _GrowingNode] = {}  # By layer.
        self.nodes: list[tuple[bytes, bytes]] = []  # Digest and bytes, in the order made.

    def add(self, key: bytes, cid: bytes) -> None:
        layer = key_layer(key)
        self._settle(layer)
        node = self._open.setdefault(layer, _GrowingNode())
        prefix = shared_prefix(node.key, key) if node.entries else 0
        node.entries.append(NodeEntry(key[prefix:], prefix, None, cid))
        node.key = key

    def add_subtree(self, layer: int, digest: bytes) -> None:
        if not 0 <= layer <= MAX_LAYER:
            raise Malformed("a layer that no tree has")
        self._settle(layer + 1)
        self._hand(layer + 1, digest)

    def finish(self) -> bytes:
        """The digest of the root."""
        top = max(self._open, default=0)
        self._settle(top)
        node = self._open.pop(top, _GrowingNode())
        # A root is never only a pointer: what it would point to is the root.
        if not node.entries and node.left is not None:
            return node.left
        return self._closed(node)

    def _settle(self, layer: int) -> None:
        """Close all that lies below a layer; each node goes to the one above."""
        while self._open and (lowest := min(self._open)) < layer:
            self._hand(lowest + 1, self._closed(self._open.pop(lowest)))

    def _closed(self, node: _GrowingNode) -> bytes:
        data = encode_node(node.left, node.entries)
        digest = sha256(data).digest()
        self.nodes.append((digest, data))
        return digest

    def _hand(self, layer: int, digest: bytes) -> None:
        node = self._open.setdefault(layer, _GrowingNode())
        before = node.entries[-1].subtree if node.entries else node.left
        if before is not None:
            raise Malformed("two subtrees side by side")
        if node.entries:
            node.entries[-1] = node.entries[-1]._replace(subtree=digest)
        else:
            node.left = digest
