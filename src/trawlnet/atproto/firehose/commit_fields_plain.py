"""What a #commit says by itself, before its blocks are looked at; the checks of its syntax."""

from __future__ import annotations

from dataclasses import dataclass

from trawlnet.atproto.cbor_items import ARRAY, BYTES, read_head, read_span, skip
from trawlnet.atproto.firehose.checked import OpAction
from trawlnet.atproto.firehose.items_plain import (
    NULL,
    read_bool,
    read_fields,
    read_integer,
    read_link,
    read_text,
)
from trawlnet.atproto.firehose.limits import (
    FUTURE_TOLERANCE_US,
    MAX_BLOCKS,
    MAX_OPS,
    MAX_SEQ,
)
from trawlnet.atproto.firehose.refusal import FrameRefused, Refusal
from trawlnet.atproto.syntax import is_did, is_tid, split_path
from trawlnet.atproto.tid import tid_time_us
from trawlnet.malformed import Malformed

_COMMIT = frozenset(
    (b"seq", b"repo", b"time", b"rev", b"since", b"commit", b"blocks", b"ops", b"prevData")
) | {b"tooBig"}
_OP = frozenset((b"action", b"path", b"cid", b"prev"))


@dataclass(frozen=True, slots=True)
class CommitFields:
    seq: int
    did: str
    time: str
    rev: str
    since: str | None
    commit: bytes
    prev_data: bytes | None
    too_big: bool
    blocks: bytes
    op_count: int
    ops_at: int  # Where the first op begins.


@dataclass(frozen=True, slots=True)
class OpFields:
    action: OpAction
    collection: str
    rkey: str
    cid: bytes | None
    prev: bytes | None

    @property
    def key(self) -> bytes:
        return f"{self.collection}/{self.rkey}".encode()


def read_commit_fields(payload: bytes) -> CommitFields:
    try:
        found = read_fields(payload, 0, _COMMIT)
        ops = read_head(payload, found[b"ops"])
        if ops.major != ARRAY:
            raise Malformed("the ops are no list")
        fields = CommitFields(
            seq=read_integer(payload, found[b"seq"]),
            did=read_text(payload, found[b"repo"]),
            time=read_text(payload, found[b"time"]),
            rev=read_text(payload, found[b"rev"]),
            since=_text_or_none(payload, found.get(b"since")),
            commit=read_link(payload, found[b"commit"]),
            prev_data=_link_or_none(payload, found.get(b"prevData")),
            too_big=b"tooBig" in found and read_bool(payload, found[b"tooBig"]),
            blocks=read_span(payload, found[b"blocks"], BYTES)[0],
            op_count=ops.argument,
            ops_at=ops.end,
        )
    except (Malformed, KeyError):
        raise FrameRefused(Refusal.BAD_FIELDS) from None
    check_seq(fields.seq)
    return fields


def check_seq(seq: int) -> None:
    if not 0 < seq <= MAX_SEQ:
        raise FrameRefused(Refusal.BAD_SEQ)


def check_rev(did: str, rev: str, now_us: int) -> None:
    if not is_did(did):
        raise FrameRefused(Refusal.BAD_DID)
    if not is_tid(rev):
        raise FrameRefused(Refusal.BAD_REV)
    if tid_time_us(rev) > now_us + FUTURE_TOLERANCE_US:
        raise FrameRefused(Refusal.FUTURE_REV)


def check_commit_fields(fields: CommitFields, now_us: int) -> None:
    check_rev(fields.did, fields.rev, now_us)
    if fields.since is not None and not (is_tid(fields.since) and fields.since < fields.rev):
        raise FrameRefused(Refusal.BAD_SINCE)
    if fields.too_big:
        raise FrameRefused(Refusal.LEFT_OUT)
    if len(fields.blocks) > MAX_BLOCKS:
        raise FrameRefused(Refusal.TOO_LARGE)
    if fields.op_count > MAX_OPS:
        raise FrameRefused(Refusal.TOO_MANY_OPS)


def read_ops(payload: bytes, fields: CommitFields) -> list[OpFields]:
    ops: list[OpFields] = []
    at = fields.ops_at
    for _ in range(fields.op_count):
        ops.append(_read_op(payload, at, fields.prev_data is None))
        at = skip(payload, at, 2)
    if len({op.key for op in ops}) != len(ops):
        raise FrameRefused(Refusal.REPEATED_PATH)
    return ops


def _read_op(payload: bytes, at: int, is_old: bool) -> OpFields:
    """Servers that send no prevData know no prev either."""
    try:
        found = read_fields(payload, at, _OP)
        action = OpAction(read_text(payload, found[b"action"]))
        path = read_span(payload, found[b"path"], 3)[0]
        cid = _link_or_none(payload, found.get(b"cid"))
        prev = _link_or_none(payload, found.get(b"prev"))
    except (Malformed, KeyError, ValueError):
        raise FrameRefused(Refusal.BAD_OP) from None
    if (cid is None) != (action is OpAction.DELETE):
        raise FrameRefused(Refusal.BAD_OP)
    if action is OpAction.CREATE and prev is not None:
        raise FrameRefused(Refusal.BAD_OP)
    if action is not OpAction.CREATE and prev is None and not is_old:
        raise FrameRefused(Refusal.BAD_OP)
    try:
        collection, rkey = split_path(path.decode("latin-1"))
    except Malformed:
        raise FrameRefused(Refusal.BAD_PATH) from None
    return OpFields(action, collection, rkey, cid, prev)


def _link_or_none(payload: bytes, at: int | None) -> bytes | None:
    return None if at is None or payload[at] == NULL else read_link(payload, at)


def _text_or_none(payload: bytes, at: int | None) -> str | None:
    return None if at is None or payload[at] == NULL else read_text(payload, at)
