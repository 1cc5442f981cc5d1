"""A repository that changes, and the frames that a server sends of its changes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from trawlnet.atproto.cid import Cid, cid_of
from trawlnet.atproto.dagcbor import Value, encode
from trawlnet.atproto.firehose.checked import OpAction
from trawlnet.atproto.firehose.inversion_plain import TreeChange, invert
from trawlnet.atproto.firehose.tree_plain import PartialTree
from trawlnet.atproto.identity.keys import Signer
from trawlnet.sim.repository.car import CarBlock, write_car
from trawlnet.sim.repository.commit import Commit
from trawlnet.sim.repository.mst import Tree, build_tree


def frame_of(kind: str, payload: Value) -> bytes:
    """A binary frame: a header and a payload."""
    return encode({"op": 1, "t": kind}) + encode(payload)


@dataclass(frozen=True, slots=True)
class LiveOp:
    action: OpAction
    path: str
    cid: Cid | None
    prev: Cid | None

    def value(self) -> Value:
        op: dict[str, Value] = {"action": str(self.action), "path": self.path, "cid": self.cid}
        return op if self.prev is None else {**op, "prev": self.prev}


@dataclass(frozen=True, slots=True)
class CommitEvent:
    did: str
    rev: str
    since: str | None
    commit: Cid
    prev_data: Cid | None
    ops: tuple[LiveOp, ...]
    blocks: tuple[CarBlock, ...]  # The commit, nodes, records.

    def payload(self, seq: int, time: str = "2026-01-01T00:00:00.000Z") -> dict[str, Any]:
        payload = {
            "seq": seq,
            "repo": self.did,
            "time": time,
            "rev": self.rev,
            "since": self.since,
            "commit": self.commit,
            "blocks": write_car([self.commit], self.blocks),
            "ops": [op.value() for op in self.ops],
            "blobs": [],
            "rebase": False,
            "tooBig": False,
        }
        return payload if self.prev_data is None else {**payload, "prevData": self.prev_data}

    def frame(self, seq: int) -> bytes:
        return frame_of("#commit", self.payload(seq))


@dataclass(slots=True)
class LiveRepo:
    did: str
    key: Signer
    records: dict[str, bytes] = field(default_factory=dict)  # DAG-CBOR by path.
    rev: str | None = None
    tree: Tree = field(default_factory=lambda: build_tree([]))
    head: CarBlock | None = None

    def commit(self, changes: Mapping[str, bytes | None], rev: str) -> CommitEvent:
        """Write records, or delete those that are None, in one commit."""
        since, before = self.rev, self.tree
        ops = tuple(self._op(path, data) for path, data in changes.items())
        for path, data in changes.items():
            self.records.pop(path, None)
            if data is not None:
                self.records[path] = data
        by_key = sorted((path.encode(), cid_of(data)) for path, data in self.records.items())
        self.rev, self.tree = rev, build_tree(by_key)
        commit = Commit(self.did, self.tree.root, rev).signed(self.key).encode()
        self.head = CarBlock(cid_of(commit), commit)
        records = [CarBlock(cid_of(data), data) for data in changes.values() if data is not None]
        return CommitEvent(
            self.did,
            rev,
            since,
            self.head.cid,
            None if since is None else before.root,
            ops,
            tuple(dict.fromkeys([self.head, *self._needed(before, ops), *records])),
        )

    def sync_frame(self, seq: int) -> bytes:
        """What a server sends that says where the repository stands, and not how it came there."""
        assert self.head is not None
        blocks = write_car([self.head.cid], [self.head])
        time = "2026-01-01T00:00:00.000Z"
        payload = {"seq": seq, "did": self.did, "time": time, "rev": self.rev, "blocks": blocks}
        return frame_of("#sync", payload)

    def _op(self, path: str, data: bytes | None) -> LiveOp:
        held = self.records.get(path)
        prev = None if held is None else cid_of(held)
        if data is None:
            return LiveOp(OpAction.DELETE, path, None, prev)
        action = OpAction.CREATE if prev is None else OpAction.UPDATE
        return LiveOp(action, path, cid_of(data), prev)

    def _needed(self, before: Tree, ops: tuple[LiveOp, ...]) -> list[CarBlock]:
        """Nodes that are new, and old ones without which the ops could not be taken back."""
        nodes = {node.cid.raw: node for node in self.tree.nodes}
        whole = PartialTree({cid: node.data for cid, node in nodes.items()})
        changes = [
            TreeChange(op.action, op.path.encode(), _raw(op.cid), _raw(op.prev)) for op in ops
        ]
        invert(whole, self.tree.root.raw, changes)
        old = {node.cid.raw for node in before.nodes}
        opened = set(whole.opened)
        return [node for cid, node in nodes.items() if cid in opened or cid not in old]


def _raw(cid: Cid | None) -> bytes | None:
    return None if cid is None else cid.raw
