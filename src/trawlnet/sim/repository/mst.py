"""The Merkle search tree of a repository: build it, and walk it without trusting it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from hashlib import sha256

from trawlnet.atproto.cid import Cid, cid_of
from trawlnet.atproto.dagcbor import head, link
from trawlnet.sim.repository.car import CarBlock

_NULL = b"\xf6"


def key_height(key: bytes) -> int:
    """How far above the leaves a key stands: pairs of leading zero bits in its hash."""
    digest = sha256(key).digest()
    return (256 - int.from_bytes(digest, "big").bit_length()) // 2


def common_prefix(one: bytes, other: bytes) -> int:
    shorter = min(len(one), len(other))
    for at in range(shorter):
        if one[at] != other[at]:
            return at
    return shorter


@dataclass(frozen=True, slots=True)
class Tree:
    root: Cid
    nodes: Sequence[CarBlock]  # Children before their parents, the root last.


def build_tree(entries: Iterable[tuple[bytes, Cid]]) -> Tree:
    """The one tree over `entries`, which come in the order of their keys, each key once."""
    levels: list[_OpenNode] = []
    nodes: list[CarBlock] = []
    before: bytes | None = None
    for key, value in entries:
        if before is not None and key <= before:
            raise ValueError(f"keys out of order: {key[:80]!r}")
        before = key
        height = key_height(key)
        while len(levels) <= height:
            levels.append(_OpenNode())
        # A key closes everything open below its own level: that becomes the subtree to its left.
        _attach(levels[height], _close(levels[:height], nodes))
        levels[height].add(key, value)
    root = _close(levels, nodes)
    if root is None:
        nodes.append(_block(_OpenNode()))
        root = nodes[-1].cid
    return Tree(root, nodes)


@dataclass(slots=True)
class _OpenNode:
    left: Cid | None = None
    # Each entry as the bytes before and after its subtree link, which is known only later.
    parts: list[bytes] = field(default_factory=list)
    count: int = 0
    last: bytes = b""

    def add(self, key: bytes, value: Cid) -> None:
        shared = common_prefix(self.last, key) if self.count else 0
        suffix = key[shared:]
        before = b"".join((b"\xa4\x61k", head(2, len(suffix)), suffix, b"\x61p", head(0, shared)))
        self.parts += (before + b"\x61t", _NULL, b"\x61v" + link(value.raw))
        self.count += 1
        self.last = key


def _close(levels: Sequence[_OpenNode], nodes: list[CarBlock]) -> Cid | None:
    """Finish the open nodes from the leaves up; None when all of them are empty."""
    below: Cid | None = None
    for node in levels:
        _attach(node, below)
        below = None
        if node.count or node.left is not None:
            nodes.append(_block(node))
            below = nodes[-1].cid
            node.left, node.parts, node.count = None, [], 0
    return below


def _attach(node: _OpenNode, below: Cid | None) -> None:
    if below is None:
        return
    if node.count:
        node.parts[-2] = link(below.raw)
    else:
        node.left = below


def _block(node: _OpenNode) -> CarBlock:
    left = _NULL if node.left is None else link(node.left.raw)
    data = b"".join((b"\xa2\x61e", head(4, node.count), *node.parts, b"\x61l", left))
    return CarBlock(cid_of(data), data)
