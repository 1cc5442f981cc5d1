"""The Merkle search tree of a repository: build it, and walk it without trusting it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import sha256

from trawlnet.atproto.cid import Cid, cid_of
from trawlnet.atproto.dagcbor import head, link
from trawlnet.malformed import Malformed
from trawlnet.sim.repository.car import CarBlock
from trawlnet.sim.repository.cbor_decoder import decode

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


@dataclass(frozen=True, slots=True)
class TreeNode:
    left: Cid | None
    entries: Sequence[TreeEntry]


@dataclass(frozen=True, slots=True)
class TreeEntry:
    key: bytes
    value: Cid
    right: Cid | None


def walk_tree(root: Cid, load: Callable[[Cid], bytes]) -> Iterator[tuple[bytes, Cid]]:
    """Every key and value in order. Raises Malformed at the first rule the tree breaks; `load`
    raises whatever it likes for a block that is not there."""
    node = parse_node(load(root))
    if not node.entries:
        if node.left is not None:
            raise Malformed("the top of the tree is a bare pointer")
        return
    before = b""
    for key, value in _walk(node, key_height(node.entries[0].key), load):
        if before and key <= before:
            raise Malformed("tree keys are repeated or out of order")
        before = key
        yield key, value


def _walk(node: TreeNode, level: int, load: Callable[[Cid], bytes]) -> Iterator[tuple[bytes, Cid]]:
    if node.left is not None:
        yield from _walk_below(node.left, level, load)
    for entry in node.entries:
        if key_height(entry.key) != level:
            raise Malformed(f"a key of height {key_height(entry.key)} on level {level}")
        yield entry.key, entry.value
        if entry.right is not None:
            yield from _walk_below(entry.right, level, load)


# A level can only fall, and the first key's hash bounds it: no cycle, no endless depth.
def _walk_below(cid: Cid, level: int, load: Callable[[Cid], bytes]) -> Iterator[tuple[bytes, Cid]]:
    if level == 0:
        raise Malformed("a subtree below the leaves")
    node = parse_node(load(cid))
    if not node.entries and node.left is None:
        raise Malformed("an empty node below the top")
    yield from _walk(node, level - 1, load)


def parse_node(data: bytes) -> TreeNode:
    value = decode(data)
    if not isinstance(value, dict) or value.keys() != {"e", "l"}:
        raise Malformed("a tree node must have the fields e and l, no others")
    left, rows = value["l"], value["e"]
    if not isinstance(rows, list) or not (left is None or isinstance(left, Cid)):
        raise Malformed("a tree node with fields of the wrong type")
    entries: list[TreeEntry] = []
    before = b""
    for row in rows:
        entries.append(_parse_entry(row, before, first=not entries))
        before = entries[-1].key
    return TreeNode(left, entries)


def _parse_entry(row: object, before: bytes, *, first: bool) -> TreeEntry:
    if not isinstance(row, dict) or row.keys() != {"k", "p", "t", "v"}:
        raise Malformed("a tree entry must have the fields k, p, t and v, no others")
    suffix, shared, right, value = row["k"], row["p"], row["t"], row["v"]
    if type(shared) is not int or not isinstance(suffix, bytes) or not isinstance(value, Cid):
        raise Malformed("a tree entry with fields of the wrong type")
    if not (right is None or isinstance(right, Cid)):
        raise Malformed("a tree entry whose subtree is not a link")
    if not 0 <= shared <= len(before):
        raise Malformed(f"a tree entry shares {shared} bytes with a key of {len(before)}")
    key = before[:shared] + suffix
    if not first and key <= before:
        raise Malformed("tree keys are repeated or out of order")
    if shared != common_prefix(before, key):
        raise Malformed("a tree entry that does not share all it could")
    return TreeEntry(key, value, right)
