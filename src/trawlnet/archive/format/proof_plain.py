"""What proving a repository takes, noted while its records are read: the plain twin of the C."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from trawlnet.archive.format.content import ProofParts
from trawlnet.archive.format.proof import (
    ExceptionKind,
    ProofException,
    SumsMaker,
    encode_exception,
    usual_commit,
)
from trawlnet.archive.format.tree_plain import Leaf, StoredBlock

_LONGEST_CID = 255  # Bytes; a tree with one so long keeps its nodes.


class _NodeMark(NamedTuple):
    told: int
    since: int
    size: int


class ProofNotes:
    """A TreeWatcher. `charge` takes bytes, which may be negative, and a place in the CAR."""

    def __init__(self, charge: Callable[[int, int], None]) -> None:
        self._charge = charge
        self._exceptions = bytearray()
        self._sums = SumsMaker()
        self._since = 0  # Records that were kept behind the last exception.
        self._told = 0  # Records that were kept, or dropped and named.
        self._is_odd = False

    def commit(self, did: str, rev: str, root: bytes, signature: bytes, block: StoredBlock) -> None:
        if usual_commit(did, rev, root, signature) != block.data:
            self._except(ExceptionKind.COMMIT, block.data, block.at)

    def kept(self, leaf: Leaf, block: StoredBlock, odd: bool) -> None:
        self._told += 1
        self._sums.add(leaf.cid[-32:])
        if odd:
            self._except(ExceptionKind.RECORD, block.data, block.at)
        else:
            self._since += 1

    def left_out(self, leaf: Leaf, *, dropped: bool) -> None:
        self._told += dropped
        cid = leaf.cid[:_LONGEST_CID]
        if len(cid) == _LONGEST_CID:
            self._is_odd = True
        self._except(ExceptionKind.LEFT_OUT, cid, leaf.block.at if leaf.block else 0, leaf.key)

    def begin(self) -> object:
        return _NodeMark(self._told, self._since, len(self._exceptions))

    def end(self, mark: object, layer: int, digest: bytes) -> None:
        """Where all were filtered out, the node's digest stands for them. Those that were dropped
        are named, for they are few, and whoever follows the repository has to know them."""
        assert isinstance(mark, _NodeMark)
        grown = len(self._exceptions) - mark.size
        if self._told != mark.told or not grown:
            return
        self._charge(-grown, 0)
        del self._exceptions[mark.size :]
        self._since = mark.since
        self._except(ExceptionKind.SUBTREE, digest, 0, layer=layer)

    def odd(self) -> None:
        self._is_odd = True

    def finish(self, blocks: Mapping[bytes, StoredBlock], root: bytes) -> ProofParts:
        if self._is_odd:
            first = blocks[root]
            others = [one for one in blocks.values() if one.opened and one is not first]
            for node in (first, *others):
                self._except(ExceptionKind.NODE, node.data, node.at)
        return ProofParts(self._sums.finish(), bytes(self._exceptions))

    def _except(
        self, kind: ExceptionKind, data: bytes, place: int, path: bytes = b"", layer: int = 0
    ) -> None:
        one = encode_exception(ProofException(kind, 0, data, path, layer), self._since)
        self._charge(len(one), place)
        self._exceptions += one
        self._since = 0
