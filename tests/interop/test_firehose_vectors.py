"""Commits that others made: published proofs, and frames that the reference PDS has sent."""

from __future__ import annotations

import json
from base64 import b64decode
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from trawlnet.atproto.cid import cid_of, parse_cid
from trawlnet.atproto.firehose import checking_plain
from trawlnet.atproto.firehose.checked import CheckedCommit, CheckedSync, OpAction
from trawlnet.atproto.firehose.checking import check_commit, check_signature, check_sync
from trawlnet.atproto.firehose.frame import (
    CommitFrame,
    SyncFrame,
    read_binary_frame,
    read_frame,
)
from trawlnet.atproto.firehose.inversion_plain import TreeChange, invert
from trawlnet.atproto.firehose.refusal import FrameRefused, Refusal
from trawlnet.atproto.firehose.tree_plain import PartialTree
from trawlnet.atproto.identity.keys import parse_did_key
from trawlnet.sim.repository.mst import build_tree

HERE = Path(__file__).parent
PROOFS = HERE.parents[1] / "../shared/fixtures/atproto-interop/firehose/commit-proof-fixtures.json"
needs_proofs = pytest.mark.skipif(not PROOFS.exists(), reason="no ../shared/fixtures")
REFERENCE = json.loads((HERE / "reference_frames.json").read_text())
FRAMES = [b64decode(text) for text in REFERENCE["frames"]]
LATER = 4_000_000_000.0


def proofs() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(PROOFS.read_text()) if PROOFS.exists() else []
    return found


@needs_proofs
def test_there_are_proofs() -> None:
    assert len(proofs()) >= 6


@pytest.mark.parametrize("proof", proofs(), ids=lambda proof: proof["comment"])
def test_published_proofs_invert(proof: dict[str, Any]) -> None:
    leaf = parse_cid(proof["leafValue"])
    keys = (set(proof["keys"]) | set(proof["adds"])) - set(proof["dels"])
    tree = build_tree([(key.encode(), leaf) for key in sorted(keys)])
    assert str(tree.root) == proof["rootAfterCommit"]
    changes = [
        *(TreeChange(OpAction.CREATE, key.encode(), leaf.raw, None) for key in proof["adds"]),
        *(TreeChange(OpAction.DELETE, key.encode(), None, leaf.raw) for key in proof["dels"]),
    ]
    sent = set(proof["blocksInProof"])
    blocks = {node.cid.raw: node.data for node in tree.nodes if str(node.cid) in sent}
    before = parse_cid(proof["rootBeforeCommit"]).raw
    assert invert(PartialTree(blocks), tree.root.raw, changes) == before
    for gone in blocks:
        rest = {cid: data for cid, data in blocks.items() if cid != gone}
        try:
            assert invert(PartialTree(rest), tree.root.raw, changes) == before
        except FrameRefused as refused:
            assert refused.why is Refusal.PARTIAL_TREE


def test_frames_of_the_reference_pds_are_believed() -> None:
    kinds: Counter[str] = Counter()
    for message in FRAMES:
        frame = read_frame(message)
        assert frame == read_binary_frame(message)
        kinds[type(frame).__name__] += 1
        checked: CheckedCommit | CheckedSync | Refusal
        if isinstance(frame, CommitFrame):
            checked = check_commit(frame, LATER)
            assert checked == checking_plain.check_payload(frame.payload, int(LATER * 1_000_000))
            kinds.update(op.action for op in getattr(checked, "ops", ()))
        elif isinstance(frame, SyncFrame):
            checked = check_sync(frame, LATER)
        else:
            continue
        assert not isinstance(checked, Refusal)
        key = parse_did_key(REFERENCE["keys"][checked.did])
        assert check_signature(checked, key) is None
    assert set(kinds) >= {"CommitFrame", "SyncFrame", "IdentityFrame", "AccountFrame"}
    assert set(kinds) >= set(OpAction)


def test_commits_of_the_reference_pds_follow_each_other() -> None:
    """Of the accounts whose first frames are all there."""
    known: dict[str, tuple[str, bytes]] = {}
    followed = 0
    for message in FRAMES:
        frame = read_frame(message)
        if not isinstance(frame, CommitFrame):
            continue
        checked = check_commit(frame, LATER)
        assert isinstance(checked, CheckedCommit)
        if checked.since is None:
            assert checked.begins_empty
        elif known.get(checked.did, ("", b""))[0] == checked.since:
            assert checked.prev_data == known[checked.did][1]
            followed += 1
        known[checked.did] = checked.rev, checked.data
        for op in checked.ops:
            assert op.record is None or op.cid == cid_of(op.record).raw
    assert followed > 5
