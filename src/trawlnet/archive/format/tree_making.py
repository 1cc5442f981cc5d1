"""A repository's tree made from its keys: the plain twin of the C code, node for node."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import NamedTuple

from trawlnet.archive.format.content import MAX_LAYER
from trawlnet.atproto.cbor_items import ARRAY, BYTES, SHA256_LINK
from trawlnet.atproto.dagcbor import head
from trawlnet.malformed import Malformed

_NULL = b"\xf6"


def key_height(key: bytes) -> int:
    """The layer of a key: one for every two bits that its hash begins with and that are zero."""
    leading = 256 - int.from_bytes(sha256(key).digest(), "big").bit_length()
    return leading // 2


class NodeEntry(NamedTuple):
    suffix: bytes
    prefix: int
    subtree: bytes | None  # Digest.
    cid: bytes


def encode_node(left: bytes | None, entries: Sequence[NodeEntry]) -> bytes:
    out = [b"\xa2\x61e", head(ARRAY, len(entries))]
    for suffix, prefix, subtree, cid in entries:
        out += (b"\xa4\x61k", head(BYTES, len(suffix)), suffix, b"\x61p", head(0, prefix))
        out += (b"\x61t", _subtree(subtree), b"\x61v", _link(cid))
    out += (b"\x61l", _subtree(left))
    return b"".join(out)


def _subtree(digest: bytes | None) -> bytes:
    return _NULL if digest is None else _link(SHA256_LINK + digest)


def _link(cid: bytes) -> bytes:
    return b"\xd8\x2a" + head(BYTES, len(cid) + 1) + b"\0" + cid


def _shared(one: bytes, other: bytes) -> int:
    pairs = enumerate(zip(one, other, strict=False))
    return next((n for n, (a, b) in pairs if a != b), min(len(one), len(other)))


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
        layer = key_height(key)
        self._settle(layer)
        node = self._open.setdefault(layer, _GrowingNode())
        prefix = _shared(node.key, key) if node.entries else 0
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
