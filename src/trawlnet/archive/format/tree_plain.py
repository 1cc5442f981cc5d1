"""Walking a repository's tree with the checks of the C code: order, layers, completeness."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from trawlnet.archive.format.content import DropReason, RepoError, RepoErrorKind
from trawlnet.atproto.repository.node_plain import (
    NodeEntry,
    is_canonical,
    key_layer,
    next_key,
    read_node,
)
from trawlnet.atproto.repository.tree_maker_plain import MAX_LAYER
from trawlnet.malformed import Malformed


@dataclass(slots=True)
class StoredBlock:
    at: int
    data: bytes
    dropped: DropReason | None = None  # What an earlier reference to it ended in,
    json: bytes | None = None  # or what it came to.
    opened: bool = False  # As a node of the tree.


@dataclass(slots=True)
class _Node:
    at: int
    left: bytes | None
    entries: list[NodeEntry]
    layer: int
    digest: bytes = b""
    mark: object = None  # What the watcher said at its beginning.
    visited: int = 0
    key: bytes = b""


class Leaf(NamedTuple):
    key: bytes
    block: StoredBlock | None  # None: see `NodeEntry.value`.
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
        if (value := entry.value) is not None:
            block = blocks.get(value)
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
        left, entries = read_node(block.data)
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
        height = key_layer(key)
        if node.layer < 0:
            node.layer = height
        if height != node.layer:
            raise RepoError(RepoErrorKind.BAD_TREE, "a key is in the wrong layer", node.at)


def _next_key(node: _Node, before: bytes, entry: NodeEntry) -> bytes:
    try:
        return next_key(before, entry)
    except Malformed as error:
        raise RepoError(RepoErrorKind.BAD_TREE, str(error), node.at) from None
