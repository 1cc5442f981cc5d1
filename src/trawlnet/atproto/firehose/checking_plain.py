"""The checks of a #commit that need nothing but the frame, in plain Python: the twin of
`native/live`, and its oracle."""

from __future__ import annotations

from trawlnet.atproto.cbor_items import SHA256_LINK
from trawlnet.atproto.firehose.car_plain import BlockSlice, read_blocks, read_signed_commit
from trawlnet.atproto.firehose.checked import CheckedCommit, CheckedOp, OpAction
from trawlnet.atproto.firehose.commit_fields_plain import (
    CommitFields,
    OpFields,
    check_commit_fields,
    read_commit_fields,
    read_ops,
)
from trawlnet.atproto.firehose.inversion_plain import TreeChange, invert, take_back
from trawlnet.atproto.firehose.limits import MAX_RECORD
from trawlnet.atproto.firehose.refusal import FrameRefused, Refusal
from trawlnet.atproto.firehose.tree_plain import PartialTree


def check_payload(payload: bytes, now_us: int) -> CheckedCommit | Refusal:
    try:
        return _check(payload, now_us)
    except FrameRefused as refused:
        return refused.why


def _check(payload: bytes, now_us: int) -> CheckedCommit:
    fields = read_commit_fields(payload)
    check_commit_fields(fields, now_us)
    ops = read_ops(payload, fields)
    found = read_blocks(fields.blocks)
    if found.root != fields.commit:
        raise FrameRefused(Refusal.WRONG_ROOT)
    commit = read_signed_commit(found.blocks.get(found.root))
    if commit.did != fields.did:
        raise FrameRefused(Refusal.WRONG_DID)
    if commit.rev != fields.rev:
        raise FrameRefused(Refusal.WRONG_REV)
    data = SHA256_LINK + commit.data
    checked_ops = tuple(_with_record(op, found) for op in ops)
    return CheckedCommit(
        did=fields.did,
        rev=fields.rev,
        since=fields.since,
        commit_cid=fields.commit,
        data=data,
        prev_data=fields.prev_data,
        unsigned_commit=commit.unsigned,
        signature=commit.signature,
        ops=checked_ops,
        inverts_to=_inverted(fields, data, ops, found),
    )


def _with_record(op: OpFields, found: BlockSlice) -> CheckedOp:
    record = None
    if op.cid is not None:
        record = found.blocks.get(op.cid)
        if record is None:
            raise FrameRefused(Refusal.MISSING_RECORD)
        if len(record) > MAX_RECORD:
            raise FrameRefused(Refusal.LARGE_RECORD)
    return CheckedOp(op.action, op.collection, op.rkey, op.cid, op.prev, record)


def _inverted(
    fields: CommitFields, root: bytes, ops: list[OpFields], found: BlockSlice
) -> bytes | None:
    changes = [TreeChange(op.action, op.key, op.cid, op.prev) for op in ops]
    tree = PartialTree(found.blocks)
    if any(op.action is not OpAction.CREATE and op.prev is None for op in ops):
        # Such a server sends no more of the tree than where the new records stand.
        take_back(tree, root, [c for c in changes if c.action is not OpAction.DELETE])
        return None
    before = invert(tree, root, changes)
    if fields.prev_data is not None and before != fields.prev_data:
        raise FrameRefused(Refusal.WRONG_PREV_DATA)
    return before
