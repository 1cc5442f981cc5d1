"""A whole repository: built from records and signed, or read from a CAR and believed if true."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableSequence, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from trawlnet.atproto.cid import Cid, cid_of, matches
from trawlnet.atproto.dagcbor import Value, encode
from trawlnet.atproto.identity.keys import PublicKey, Signer
from trawlnet.atproto.syntax import split_path
from trawlnet.malformed import Malformed
from trawlnet.sim.repository.car import CarBlock, read_frames, read_header, write_car
from trawlnet.sim.repository.commit import Commit, parse_commit
from trawlnet.sim.repository.mst import build_tree, walk_tree


class Shuffler(Protocol):
    """A seeded random.Random: where the order of blocks comes from."""

    def shuffle(self, x: MutableSequence[Any]) -> None: ...

    def choice(self, seq: Sequence[CarBlock]) -> CarBlock: ...


@dataclass(frozen=True, slots=True)
class Repo:
    did: str
    rev: str
    head: Cid  # Of the commit.
    blocks: Sequence[CarBlock]  # Records in path order, tree nodes, the commit; each block once.

    def car(self, order: Shuffler | None = None, duplicates: int = 0) -> bytes:
        """As a CAR. With `order`, blocks are shuffled, some of them told again, and the commit is
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
    commit = Commit(did, tree.root, rev, prev).signed(key).encode()
    head = CarBlock(cid_of(commit), commit)
    distinct = dict(blocks + list(tree.nodes) + [head])
    return Repo(did, rev, head.cid, [CarBlock(*item) for item in distinct.items()])


class RepoRecord(NamedTuple):
    collection: str
    rkey: str
    cid: Cid
    data: bytes  # DAG-CBOR, not looked into.


@dataclass(frozen=True, slots=True)
class VerifiedRepo:
    commit: Commit
    blocks: Mapping[Cid, bytes]

    def records(self) -> Iterator[RepoRecord]:
        """In path order. Raises Malformed where the tree is broken or a block is missing."""
        for key, cid in walk_tree(self.commit.data, self._load):
            try:
                collection, rkey = split_path(key.decode())
            except UnicodeDecodeError:
                raise Malformed("a tree key that is not UTF-8") from None
            yield RepoRecord(collection, rkey, cid, self._load(cid))

    def _load(self, cid: Cid) -> bytes:
        try:
            return self.blocks[cid]
        except KeyError:
            raise Malformed(f"block {cid} is missing") from None


def verify_repo(car: bytes, did: str, key: PublicKey) -> VerifiedRepo:
    """Read a CAR: every block's hash, the commit's owner and its signature are checked here, the
    tree while its records are walked."""
    header = read_header(car)
    if not header.roots:
        raise Malformed("a CAR without a root")
    blocks: dict[Cid, bytes] = {}
    for frame in read_frames(car, header.end):
        data = car[frame.start : frame.end]
        if not matches(frame.cid, data):
            raise Malformed(f"block at {frame.at} is not what its CID names")
        blocks[frame.cid] = data
    if header.roots[0] not in blocks:
        raise Malformed("the commit is missing")
    commit = parse_commit(blocks[header.roots[0]])
    if commit.did != did:
        raise Malformed(f"a repository of {commit.did[:80]}, asked for {did}")
    if not commit.signed_by(key):
        raise Malformed("the commit's signature is not that of the account's key")
    return VerifiedRepo(commit, blocks)
