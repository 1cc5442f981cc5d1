"""Walking a repository's tree with the checks of the C code: order, layers, completeness."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from trawlnet.archive.format.content import MAX_KEY, MAX_LAYER, DropReason, RepoError, RepoErrorKind
from trawlnet.archive.format.tree_making import NodeEntry, encode_node, key_height
from trawlnet.atproto.cbor_items import (
    ARRAY,
    BYTES,
    MAP,
    SHA256_LINK,
    read_head,
    read_link,
    read_sha256_link,
    read_span,
)
from trawlnet.malformed import Malformed

_NULL = 0xF6


@dataclass(slots=True)
class StoredBlock:
    at: int
    data: bytes
    dropped: DropReason | None = None  # What an earlier reference to it ended in,
    json: bytes | None = None  # or what it came to.
    opened: bool = False  # As a node of the tree.


@dataclass(frozen=True, slots=True)
class _Entry:
    suffix: bytes
    prefix: int
    subtree: bytes | None
    value: bytes | None  # None: a CID that is not DAG-CBOR under SHA-256.
    cid: bytes


@dataclass(slots=True)
class _Node:
    at: int
    left: bytes | None
    entries: list[_Entry]
    layer: int
    digest: bytes = b""
    mark: object = None  # What the watcher said at its beginning.
    visited: int = 0
    key: bytes = b""


class Leaf(NamedTuple):
    key: bytes
    block: StoredBlock | None  # None: see the value of an entry.
    cid: bytes


class TreeWatcher(Protocol):
    """Told of the nodes around the leaves."""

    def begin(self) -> object:
        """A node is opened; what comes back is said at its end."""

    def end(self, mark: object, layer: int, digest: bytes) -> None:
        """All below it was there."""

    def odd(self) -> None:
        """A node is not written in the only way that there is for its keys."""


class _Nobody:
    def begin(self) -> object:
        return None

    def end(self, mark: object, layer: int, digest: bytes) -> None:
        pass

    def odd(self) -> None:
        pass


def walk(
    blocks: Mapping[bytes, StoredBlock],
    root: bytes,
    *,
    check_layers: bool,
    watcher: TreeWatcher | None = None,
    records: bool = True,
) -> Iterator[Leaf]:
    """Every key in order with its record, if those are there. A stack, not recursion: depth is the
    sender's choice."""
    watcher = watcher or _Nobody()

    def open_node(digest: bytes, parent: _Node | None) -> _Node:
        mark = watcher.begin()
        node = _open_node(blocks, digest, parent)
        node.digest, node.mark = digest, mark
        if not is_canonical(blocks[digest].data, node.left, node.entries):
            watcher.odd()
        if check_layers:
            _check_keys(node)
        elif parent is None:
            node.layer = MAX_LAYER
        return node

    path = [open_node(root, None)]
    last: bytes | None = None
    while path:
        node = path[-1]
        if node.left is not None:
            left, node.left = node.left, None
            path.append(open_node(left, node))
            continue
        if node.visited == len(node.entries):
            path.pop()
            watcher.end(node.mark, max(node.layer, 0), node.digest)
            continue
        entry = node.entries[node.visited]
        node.visited += 1
        key = node.key = _next_key(node, node.key, entry)
        if last is not None and key <= last:
            raise RepoError(RepoErrorKind.BAD_TREE, "keys are out of order", node.at)
        last = key
        block = None
        if entry.value is not None:
            block = blocks.get(entry.value)
            if block is None and records:
                raise RepoError(RepoErrorKind.MISSING_BLOCK, "a record is not there", node.at)
        yield Leaf(key, block, entry.cid)
        if entry.subtree is not None:
            path.append(open_node(entry.subtree, node))


def _open_node(blocks: Mapping[bytes, StoredBlock], digest: bytes, parent: _Node | None) -> _Node:
    if parent is not None and parent.layer == 0:
        raise RepoError(
            RepoErrorKind.BAD_TREE, "a node of the lowest layer has a subtree", parent.at
        )
    block = blocks.get(digest)
    if block is None:
        raise RepoError(RepoErrorKind.MISSING_BLOCK, "a tree node is not in the CAR", 0)
    # It would bring its keys a second time; with hashes unchecked it could even hold itself.
    if block.opened:
        raise RepoError(RepoErrorKind.BAD_TREE, "a tree node is in two places", block.at)
    block.opened = True
    try:
        entries, left = _parse_node(block.data)
    except Malformed as error:
        raise RepoError(RepoErrorKind.BAD_TREE, str(error), block.at) from None
    # An empty node is the whole of an empty tree, or a step down to the next layer.
    if not entries and (left is None) != (parent is None):
        raise RepoError(RepoErrorKind.BAD_TREE, "an empty node out of place", block.at)
    return _Node(block.at, left, entries, -1 if parent is None else parent.layer - 1)


def _check_keys(node: _Node) -> None:
    """The layer of every key at once: the root's first key sets it, its children's are below."""
    key = b""
    for entry in node.entries:
        key = _next_key(node, key, entry)
        height = key_height(key)
        if node.layer < 0:
            node.layer = height
        if height != node.layer:
            raise RepoError(RepoErrorKind.BAD_TREE, "a key is in the wrong layer", node.at)


def _parse_node(data: bytes) -> tuple[list[_Entry], bytes | None]:
    head = read_head(data, 0)
    if head.major != MAP or head.argument != 2:
        raise Malformed("a tree node is no pair")
    head = read_head(data, _field(data, head.end, b"e"))
    if head.major != ARRAY:
        raise Malformed("a tree node's entries are no list")
    at = head.end
    entries = []
    for _ in range(head.argument):
        entry, at = _parse_entry(data, at)
        entries.append(entry)
    left, at = _subtree(data, _field(data, at, b"l"))
    if at != len(data):
        raise Malformed("bytes follow a tree node")
    if entries and entries[0].prefix:
        raise Malformed("a node's first key has a prefix")
    return entries, left


def _parse_entry(data: bytes, at: int) -> tuple[_Entry, int]:
    head = read_head(data, at)
    if head.major != MAP or head.argument != 4:
        raise Malformed("a tree entry is no map of four")
    suffix, at = read_span(data, _field(data, head.end, b"k"), BYTES)
    prefix = read_head(data, _field(data, at, b"p"))
    if len(suffix) > MAX_KEY or prefix.major != 0 or prefix.argument > MAX_KEY:
        raise Malformed("a tree entry's key is malformed")
    subtree, at = _subtree(data, _field(data, prefix.end, b"t"))
    cid, at = read_link(data, _field(data, at, b"v"))
    value = cid[4:] if len(cid) == 36 and cid[:4] == SHA256_LINK else None
    return _Entry(suffix, prefix.argument, subtree, value, cid), at


def _field(data: bytes, at: int, name: bytes) -> int:
    if data[at : at + 2] != b"\x61" + name:
        raise Malformed(f"no field {name.decode()} where a tree node has it")
    return at + 2


def _subtree(data: bytes, at: int) -> tuple[bytes | None, int]:
    if at < len(data) and data[at] == _NULL:
        return None, at + 1
    return read_sha256_link(data, at)


def _next_key(node: _Node, before: bytes, entry: _Entry) -> bytes:
    if entry.prefix > len(before):
        raise RepoError(RepoErrorKind.BAD_TREE, "a prefix longer than the key before", node.at)
    key = before[: entry.prefix] + entry.suffix
    if not key or len(key) > MAX_KEY:
        raise RepoError(RepoErrorKind.BAD_TREE, "a key is empty or too long", node.at)
    return key


def is_canonical(data: bytes, left: bytes | None, entries: list[_Entry]) -> bool:
    """Whether a node has the shortest heads, and prefixes as long as they can be."""
    before = b""
    for entry in entries:
        if entry.suffix and before[entry.prefix : entry.prefix + 1] == entry.suffix[:1]:
            return False
        before = before[: entry.prefix] + entry.suffix
    shown = [NodeEntry(one.suffix, one.prefix, one.subtree, one.cid) for one in entries]
    return encode_node(left, shown) == data
