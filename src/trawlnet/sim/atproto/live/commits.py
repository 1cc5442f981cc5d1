"""One change of a repository as its server tells it: the commit, and the blocks that prove it."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import libipld

from trawlnet.atproto.cid import Cid, cid_of
from trawlnet.atproto.identity.keys import Signer
from trawlnet.sim.repository.car import CarBlock, write_car
from trawlnet.sim.repository.commit import Commit
from trawlnet.sim.repository.mst import build_tree


@dataclass(frozen=True, slots=True)
class RepoState:
    """A repository between two commits."""

    did: str
    records: Mapping[str, bytes]  # DAG-CBOR by path.
    rev: str
    data: Cid  # The root of the tree.


@dataclass(frozen=True, slots=True)
class CommitStory:
    """A commit, and what it did to which state."""

    before: RepoState
    after: RepoState
    commit: Commit
    head: CarBlock  # The commit as a block.
    nodes: Sequence[CarBlock]  # The whole tree after it.

    def payload(self, *, with_prev_data: bool = True) -> dict[str, Any]:
        """The fields of a `#commit` message, without `seq` and `time`."""
        made: dict[str, Any] = {
            "repo": self.after.did,
            "rev": self.after.rev,
            "since": self.before.rev or None,
            "commit": self.head.cid,
            "blocks": write_car([self.head.cid], self.blocks()),
            "ops": [*self._ops()],
            "rebase": False,
            "tooBig": False,
            "blobs": [],
        }
        if with_prev_data and self.before.rev:
            made["prevData"] = self.before.data
        return made

    def sync_payload(self) -> dict[str, Any]:
        """The fields of a `#sync` message: the commit alone."""
        car = write_car([self.head.cid], [self.head])
        return {"did": self.after.did, "rev": self.after.rev, "blocks": car}

    def changed(self) -> list[str]:
        old, new = self.before.records, self.after.records
        return sorted(path for path in old.keys() | new.keys() if old.get(path) != new.get(path))

    def blocks(self) -> list[CarBlock]:
        """The commit, every node that is new or that undoing the change touches, new records."""
        nodes = {node.cid: node for node in self.nodes}
        paths = sorted(self.after.records)
        wanted = {self.after.data}
        for key in _around(paths, self.changed(), self.before.records):
            wanted |= set(_way_to(key.encode(), self.after.data, nodes))
        records = [
            CarBlock(cid_of(self.after.records[path]), self.after.records[path])
            for path in self.changed()
            if path in self.after.records
        ]
        found = [self.head, *(node for cid, node in nodes.items() if cid in wanted), *records]
        return [CarBlock(*item) for item in dict(found).items()]

    def _ops(self) -> Iterator[dict[str, Any]]:
        old, new = self.before.records, self.after.records
        for path in self.changed():
            op: dict[str, Any] = {"path": path, "cid": None}
            if path in new:
                op["cid"] = cid_of(new[path])
            if path in old:
                op["prev"] = cid_of(old[path])
            op["action"] = "delete" if path not in new else "update" if path in old else "create"
            yield op


def commit_of(
    before: RepoState, records: Mapping[str, bytes], rev: str, key: Signer
) -> CommitStory:
    """The commit that makes `records` of what was before; signed."""
    entries = [(path.encode(), cid_of(data)) for path, data in sorted(records.items())]
    tree = build_tree(entries)
    after = RepoState(before.did, dict(records), rev, tree.root)
    commit = Commit(before.did, tree.root, rev).signed(key)
    block = commit.encode()
    return CommitStory(before, after, commit, CarBlock(cid_of(block), block), tree.nodes)


def _around(
    paths: Sequence[str], changed: Collection[str], old: Mapping[str, bytes]
) -> Iterator[str]:
    """Each changed path and its neighbours: the next ones now, and the next ones that were there
    before. Undoing a change joins or splits the nodes between them."""
    stayed = [path for path in paths if path in old]
    for path in changed:
        yield path
        for among in (paths, stayed):
            at = bisect_left(among, path)
            yield from among[max(at - 1, 0) : at]
            here = at < len(among) and among[at] == path
            yield from among[at + here : at + here + 1]


def _way_to(key: bytes, root: Cid, nodes: Mapping[Cid, CarBlock]) -> Iterator[Cid]:
    """The nodes from the top to where a key is, or would be."""
    at: Cid | None = root
    while at is not None:
        yield at
        node = libipld.decode_dag_cbor(nodes[at].data)
        at, before = _link(node["l"]), b""
        for entry in node["e"]:
            before = before[: entry["p"]] + entry["k"]
            if before == key:
                return
            if before > key:
                break
            at = _link(entry["t"])


def _link(raw: bytes | None) -> Cid | None:
    return None if raw is None else Cid(raw)
