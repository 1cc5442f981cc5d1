"""A whole repository: built from records and signed."""

from __future__ import annotations

from collections.abc import Mapping, MutableSequence, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from trawlnet.atproto.cid import Cid, cid_of
from trawlnet.atproto.dagcbor import Value, encode
from trawlnet.atproto.identity.keys import Signer
from trawlnet.sim.repository.car import CarBlock, write_car
from trawlnet.sim.repository.commit import Commit
from trawlnet.sim.repository.mst import build_tree


class Shuffler(Protocol):
    """A seeded random.Random: where the order of blocks comes from."""

    def shuffle(self, x: MutableSequence[Any]) -> None: ...

    def choice(self, seq: Sequence[CarBlock]) -> CarBlock: ...


@dataclass(frozen=True, slots=True)
class Repo:
    commit: Commit
    head: Cid  # Of the commit.
    blocks: Sequence[CarBlock]  # Records in path order, tree nodes, the commit; each block once.

    def car(self, order: Shuffler | None = None, duplicates: int = 0) -> bytes:
        """As a CAR. With `order`, blocks are shuffled, some of them repeated, and the commit is
        never the first."""
        blocks = list(self.blocks)
        if order is not None:
            blocks += [order.choice(self.blocks) for _ in range(duplicates)]
            order.shuffle(blocks)
            while blocks[0].cid == self.head:
                blocks.append(blocks.pop(0))
        return write_car([self.head], blocks)


def build_repo(
    did: str, records: Mapping[str, Value], key: Signer, rev: str, prev: Cid | None = None
) -> Repo:
    """The repository of `records` (by path: collection/rkey) as it stands at `rev`."""
    encoded = {path: encode(value) for path, value in records.items()}
    return build_repo_of_blocks(did, encoded, key, rev, prev)


def build_repo_of_blocks(
    did: str, records: Mapping[str, bytes], key: Signer, rev: str, prev: Cid | None = None
) -> Repo:
    """The same for records that are DAG-CBOR already, or that are broken on purpose."""
    by_key = sorted([(path.encode(), data) for path, data in records.items()])
    blocks = [CarBlock(cid_of(data), data) for _, data in by_key]
    tree = build_tree([(path, block.cid) for (path, _), block in zip(by_key, blocks, strict=True)])
    commit = Commit(did, tree.root, rev, prev).signed(key)
    head = CarBlock(cid_of(commit.encode()), commit.encode())
    distinct = dict(blocks + list(tree.nodes) + [head])
    return Repo(commit, head.cid, [CarBlock(*item) for item in distinct.items()])
