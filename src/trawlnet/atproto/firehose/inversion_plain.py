"""Takes the ops of a commit back: which root the tree must have had before. The plain twin of
`native/live`.

Not op by op: all of them in one walk down the new tree, which leaves a line of keys and of subtrees
that were not touched; from these the old tree is built. A subtree stays closed where a key of a
higher layer, or nothing, stands on each side of it; else it shares its place with what stands
there, and has to be opened. So no order of ops is kept, no node is opened twice, and no node is
asked for that the old root does not depend on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from trawlnet.atproto.cbor_items import SHA256_LINK
from trawlnet.atproto.firehose.checked import OpAction
from trawlnet.atproto.firehose.refusal import FrameRefused, Refusal
from trawlnet.atproto.firehose.tree_plain import PartialTree, Subtree, TreeItem, TreeKey
from trawlnet.atproto.repository.node_plain import key_layer
from trawlnet.atproto.repository.tree_maker_plain import TreeMaker


@dataclass(frozen=True, slots=True)
class TreeChange:
    action: OpAction
    key: bytes
    cid: bytes | None
    prev: bytes | None


def invert(tree: PartialTree, root: bytes, changes: Sequence[TreeChange]) -> bytes:
    """The root before the changes. Raises FrameRefused."""
    line = take_back(tree, root, changes)
    return _Builder(tree, line[::-1]).root()


def take_back(tree: PartialTree, root: bytes, changes: Sequence[TreeChange]) -> list[TreeItem]:
    """The keys before the changes, in order; subtrees without any change stand for their keys."""
    line: list[TreeItem] = []
    _take_back(tree, Subtree(root, -1, None, None), sorted(changes, key=lambda c: c.key), line)
    return line


def _take_back(
    tree: PartialTree, subtree: Subtree, changes: list[TreeChange], line: list[TreeItem]
) -> None:
    # The recursion ends at the lowest layer; no root stands above the 128th.
    if not changes and subtree.layer >= 0:
        line.append(subtree)
        return
    rest = changes
    for item in tree.items(subtree):
        if isinstance(item, Subtree):
            inside = 0
            while inside < len(rest) and (item.high is None or rest[inside].key < item.high):
                inside += 1
            _take_back(tree, item, rest[:inside], line)
            rest = rest[inside:]
            continue
        while rest and rest[0].key < item.key:
            line.append(_put_back(rest.pop(0)))
        if rest and rest[0].key == item.key:
            line.extend(_taken_back(rest.pop(0), item))
        else:
            line.append(item)
    line.extend(_put_back(change) for change in rest)


def _put_back(change: TreeChange) -> TreeKey:
    """A key where the tree has none."""
    if change.action is not OpAction.DELETE:
        raise FrameRefused(Refusal.NOT_IN_TREE)
    return _before(change)


def _taken_back(change: TreeChange, found: TreeKey) -> list[TreeKey]:
    """What was there in place of a key that the tree has."""
    if change.action is OpAction.DELETE:
        raise FrameRefused(Refusal.STILL_IN_TREE)
    if change.cid != found.cid:
        raise FrameRefused(Refusal.WRONG_CID)
    return [] if change.prev is None else [_before(change)]


def _before(change: TreeChange) -> TreeKey:
    # Without a prev nobody asks for the root.
    return TreeKey(change.key, change.prev or b"", key_layer(change.key))


@dataclass(slots=True)
class _Builder:
    """Builds the tree from the left."""

    tree: PartialTree
    to_come: list[TreeItem]  # The next one last.
    made: TreeMaker = field(default_factory=TreeMaker)
    last: TreeKey | None = None
    held: Subtree | None = None  # It stays closed if what comes next allows it.

    def root(self) -> bytes:
        while self.to_come:
            item = self.to_come.pop()
            if self.held is not None:
                self._beside_held(item, self.held)
            elif isinstance(item, TreeKey):
                self._place(item)
            elif self.last is None or self.last.layer > item.layer:
                self.held = item
            else:
                self._open(item)
        if self.held is not None and self.last is None:
            return self._trimmed(self.held)
        self._release()
        return SHA256_LINK + self.made.finish()

    def _beside_held(self, item: TreeItem, held: Subtree) -> None:
        if isinstance(item, TreeKey) and item.layer > held.layer:
            self._release()
            self._place(item)
            return
        if isinstance(item, Subtree) and item.layer >= held.layer:
            self._open(item)
            if item.layer > held.layer:
                return
        else:
            self.to_come.append(item)
        self.held = None
        self._open(held)

    def _open(self, subtree: Subtree) -> None:
        self.to_come.extend(self.tree.items(subtree)[::-1])

    def _release(self) -> None:
        if self.held is not None:
            self.made.add_subtree(self.held.layer, self.held.cid[4:])
            self.held = None

    def _place(self, key: TreeKey) -> None:
        self.made.add(key.key, key.cid)
        self.last = key

    def _trimmed(self, only: Subtree) -> bytes:
        """A root has keys of its own: where one is left with nothing but a subtree, that is it."""
        items = self.tree.items(only)
        while len(items) == 1 and isinstance(items[0], Subtree):
            only = items[0]
            items = self.tree.items(only)
        return only.cid
