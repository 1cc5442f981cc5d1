"""Frames that must not be believed, each with the word that it is refused with."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from hashlib import sha256
from random import Random
from typing import Any, NamedTuple

from tests.support.atproto.made_commits import (
    ABSENT,
    DID,
    KEYS,
    OTHER_DID,
    block_of,
    made_repo,
    message,
    rev_at,
    with_commit,
    with_tree,
)
from tests.support.repos.made_repos import make_record
from trawlnet.atproto.cid import RAW, Cid, cid_of
from trawlnet.atproto.dagcbor import encode, head
from trawlnet.atproto.firehose.checked import OpAction
from trawlnet.atproto.firehose.refusal import Refusal as R
from trawlnet.atproto.identity.keys import ORDER, Curve
from trawlnet.atproto.repository.node_plain import (
    NodeEntry,
    encode_node,
    key_layer,
    shared_prefix,
)
from trawlnet.sim.repository.car import CarBlock, car_frame, car_header, write_car
from trawlnet.sim.repository.commit import Commit
from trawlnet.sim.repository.live import CommitEvent, LiveOp
from trawlnet.sim.repository.mst import build_tree

HEADER = encode({"op": 1, "t": "#commit"})
LEAF = cid_of(b"a record")


class HostileFrame(NamedTuple):
    name: str
    message: bytes | str
    expected: R


@cache
def hostile_frames() -> list[HostileFrame]:
    repo = made_repo()
    rng = Random(3)
    paths = sorted(repo.records)
    changes: dict[str, bytes | None] = {
        "app.bsky.feed.like/3k": make_record(rng),
        "app.bsky.feed.post/3k": make_record(rng),
        paths[40]: make_record(rng),
        paths[90]: None,
    }
    event = repo.commit(changes, rev_at(-60))
    parts = (of_framing, of_json, of_fields, of_ops, of_blocks, of_commits, of_trees, of_changes)
    return [HostileFrame(*row) for part in parts for row in part(event)]


Rows = Iterator[tuple[str, bytes | str, R]]


def of_framing(event: CommitEvent) -> Rows:
    sound = event.frame(7)
    payload = sound[len(HEADER) :]
    yield "nothing", b"", R.NOT_CBOR
    yield "header alone", HEADER, R.NOT_CBOR
    yield "payload cut", sound[:-1], R.NOT_CBOR
    yield "noise", bytes(Random(1).randbytes(500)), R.NOT_CBOR
    yield "break", b"\xff" * 100, R.NOT_CBOR
    yield "endless map", HEADER + b"\xbf\x63seq\x01\xff", R.NOT_CBOR
    yield "depths", HEADER + b"\x81" * 100_000, R.NOT_CBOR
    yield "33 maps", HEADER + b"\xa1\x61a" * 33 + b"\x01", R.NOT_CBOR
    yield "2^64 items", HEADER + b"\x9b" + b"\xff" * 8, R.NOT_CBOR
    yield "2^64 bytes", HEADER + b"\x5b" + b"\xff" * 8, R.NOT_CBOR
    yield "a tag", HEADER + b"\xa1\x63seq\xc1\x01", R.NOT_CBOR
    yield "a simple value", HEADER + b"\xa1\x63seq\xf8\x20", R.NOT_CBOR
    yield "a third object", sound + b"\x00", R.TRAILING_BYTES
    yield "six million bytes", sound + bytes(6_000_000), R.FRAME_TOO_LARGE
    yield "header of a list", encode([1, "#commit"]) + payload, R.BAD_HEADER
    yield "header without op", encode({"t": "#commit"}) + payload, R.BAD_HEADER
    yield "op of text", encode({"op": "1", "t": "#commit"}) + payload, R.BAD_HEADER
    yield "op of 64 bits", b"\xa2\x61t\x67#commit\x62op\x1b" + b"\xff" * 8 + payload, R.BAD_HEADER
    yield "op twice", b"\xa3\x61t\x67#commit\x62op\x01\x62op\x01" + payload, R.BAD_HEADER
    yield "no t", encode({"op": 1}) + payload, R.BAD_HEADER
    yield "t no UTF-8", b"\xa2\x61t\x62\xff\xfe\x62op\x01" + payload, R.BAD_HEADER
    yield "keys of numbers", b"\xa2\x01\x02\x62op\x01" + payload, R.BAD_HEADER
    yield "payload of a list", HEADER + encode([event.payload(7)]), R.BAD_FIELDS
    yield "payload of null", HEADER + b"\xf6", R.BAD_FIELDS


def of_json(event: CommitEvent) -> Rows:
    sound = json_frame(event)
    yield "text of noise", "]" + sound, R.NOT_JSON
    yield "text cut", sound[:-1], R.NOT_JSON
    yield "text of a list", f"[{sound}]", R.NOT_JSON
    yield "text of depths", "[" * 100_000, R.NOT_JSON
    yield "half a pair", '{"$type":"message\ud800"}', R.NOT_JSON
    yield "NaN", '{"$type":"message","payload":{"seq":NaN}}', R.NOT_JSON
    yield "text without type", '{"payload":{}}', R.BAD_HEADER
    yield "message without payload", '{"$type":"message"}', R.BAD_HEADER
    yield "payload without type", '{"$type":"message","payload":{}}', R.BAD_HEADER
    yield "text too long", json_frame(event, extra="x" * 5_000_000), R.FRAME_TOO_LARGE
    yield "text long in UTF-8", json_frame(event, extra="é" * 2_600_000), R.FRAME_TOO_LARGE
    yield "text deep", json_frame(event, extra=nested(40)), R.BAD_FIELDS
    yield "no base64", json_frame(event, blocks={"$bytes": "~~~"}), R.BAD_FIELDS
    yield "no base32", json_frame(event, commit={"$link": "bafy!"}), R.BAD_FIELDS
    yield "a fraction", json_frame(event, seq=1.5), R.BAD_FIELDS
    yield "2^70", json_frame(event, seq=1 << 70), R.BAD_FIELDS
    yield "blocks of text", json_frame(event, blocks="AAAA"), R.BAD_FIELDS


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth):
        value = [value]
    return value


def json_frame(event: CommitEvent, **fields: Any) -> str:
    payload = {"$type": "com.atproto.sync.subscribeRepos#commit", **as_json(event.payload(7))}
    body = {"$type": "message", "payload": {**payload, **fields}}
    return json.dumps(body, ensure_ascii=False)


def as_json(value: Any) -> Any:
    match value:
        case dict():
            return {name: as_json(inner) for name, inner in value.items()}
        case list():
            return [as_json(inner) for inner in value]
        case Cid():
            return {"$link": str(value)}
        case bytes():
            return {"$bytes": b64encode(value).decode().rstrip("=")}
    return value


def of_fields(event: CommitEvent) -> Rows:
    for name in ("seq", "repo", "time", "rev", "commit", "blocks", "ops"):
        yield f"no {name}", message(event, **{name: ABSENT}), R.BAD_FIELDS
        yield f"{name} null", message(event, **{name: None}), R.BAD_FIELDS
    sound = event.payload(7)
    count = bytes((0xA0 + len(sound) + 1,))
    again = count + encode(sound)[1:] + encode("seq") + b"\x08"
    yield "seq twice", HEADER + again, R.BAD_FIELDS
    yield "seq of text", message(event, seq="7"), R.BAD_FIELDS
    yield "seq of a float", message(event, seq=7.0), R.BAD_FIELDS
    yield "seq zero", message(event, seq=0), R.BAD_SEQ
    yield "seq negative", message(event, seq=-7), R.BAD_SEQ
    yield "seq 2^53", message(event, seq=1 << 53), R.BAD_SEQ
    yield "repo of bytes", message(event, repo=DID.encode()), R.BAD_FIELDS
    yield "repo of megabytes", message(event, repo=DID + "x" * 1_000_000), R.BAD_FIELDS
    yield "repo no UTF-8", HEADER + encode(sound).replace(DID.encode(), b"\xff" * 32), R.BAD_FIELDS
    yield "commit of another codec", message(event, commit=cid_of(b"x", RAW)), R.BAD_FIELDS
    yield "prevData of text", message(event, prevData="bafy"), R.BAD_FIELDS
    yield "tooBig of text", message(event, tooBig="no"), R.BAD_FIELDS
    yield "ops of a map", message(event, ops={}), R.BAD_FIELDS
    yield "no DID", message(event, repo="ewvi7nxzyoun6zhxrhs64oiz"), R.BAD_DID
    yield "no TID", message(event, rev="yesterday"), R.BAD_REV
    yield "since no TID", message(event, since=""), R.BAD_SINCE
    yield "since itself", message(event, since=event.rev), R.BAD_SINCE
    yield "since later", message(event, since=rev_at(0)), R.BAD_SINCE
    yield "six minutes ahead", message(event, rev=rev_at(360)), R.FUTURE_REV
    yield "the last TID", message(event, rev="jzzzzzzzzzzzz"), R.FUTURE_REV
    yield "too big", message(event, tooBig=True), R.LEFT_OUT
    yield "2,000,001 bytes of blocks", message(event, blocks=bytes(2_000_001)), R.TOO_LARGE


def of_ops(event: CommitEvent) -> Rows:
    def spoiled(**fields: Any) -> bytes:
        ops = [op.value() for op in event.ops]
        changed = {**ops[0], **fields}
        ops[0] = {name: value for name, value in changed.items() if value is not ABSENT}
        return message(event, ops=ops)

    ops = [op.value() for op in event.ops]
    many = [{**ops[0], "path": f"a.b.c/{n}"} for n in range(201)]
    yield "201 ops", message(event, ops=many), R.TOO_MANY_OPS
    yield "an op of a list", message(event, ops=[[]]), R.BAD_OP
    yield "unknown action", spoiled(action="rename"), R.BAD_OP
    yield "no action", spoiled(action=ABSENT), R.BAD_OP
    yield "create with prev", spoiled(prev=LEAF), R.BAD_OP
    yield "create without cid", spoiled(cid=None), R.BAD_OP
    yield "create of a blob", spoiled(cid=cid_of(b"x", RAW)), R.BAD_OP
    yield "update without prev", spoiled(action="update"), R.BAD_OP
    yield "delete with cid", spoiled(action="delete", prev=LEAF), R.BAD_OP
    yield "delete without prev", spoiled(action="delete", cid=None), R.BAD_OP
    yield "path of bytes", spoiled(path=b"a.b.c/d"), R.BAD_OP
    twice = b"\x81\xa4" + encode("path") + encode("a.b.c/d") + encode("path") + encode("a.b.c/e")
    twice += encode("action") + encode("create") + encode("cid") + encode(LEAF)
    sound = encode(event.payload(7))
    yield "path twice in an op", HEADER + sound.replace(encode(ops), twice), R.BAD_OP
    for path in ("", "like", "/like", "app.bsky/like", "app.bsky.feed.like/", "a.b.c/d/e"):
        yield f"path {path!r}", spoiled(path=path), R.BAD_PATH
    for rkey in ("..", "a\0b", "é", "a b", "x" * 513):
        yield f"rkey {rkey[:5]!r}", spoiled(path=f"a.b.c/{rkey}"), R.BAD_PATH
    yield "a path twice", message(event, ops=[*ops, ops[0]]), R.REPEATED_PATH
    deleted = {"action": "delete", "path": ops[0]["path"], "cid": None, "prev": LEAF}
    yield "created and deleted", message(event, ops=[*ops, deleted]), R.REPEATED_PATH


def of_blocks(event: CommitEvent) -> Rows:
    def car(data: bytes) -> bytes:
        return message(event, blocks=data)

    sound = write_car([event.commit], event.blocks)
    header = car_header([event.commit])
    rest = sound[len(header) :]
    yield "blocks of no bytes", car(b""), R.BAD_CAR
    yield "header cut", car(header[:20]), R.BAD_CAR
    yield "header of noise", car(b"\x03\xff\xff\xff"), R.BAD_CAR
    yield "header of depths", car(head(0, 5) + b"\x81" * 5), R.BAD_CAR
    yield "no root", car(car_header([]) + rest), R.BAD_CAR
    yield "a raw root", car(car_header([cid_of(b"x", RAW)]) + rest), R.BAD_CAR
    second = encode({"version": 2, "roots": [event.commit]})
    yield "CAR version 2", car(bytes((len(second),)) + second + rest), R.BAD_CAR
    yield "giant varint", car(header + b"\xff" * 9 + b"\x01" + rest), R.BAD_CAR
    yield "2^62 bytes", car(header + b"\xff" * 8 + b"\x3f" + rest), R.BAD_CAR
    yield "long varint", car(header + b"\x80\x00" + rest), R.BAD_CAR
    yield "empty block", car(header + b"\x00" + rest), R.BAD_CAR
    yield "block cut", car(sound[:-1]), R.BAD_CAR
    yield "CIDv0", car(header + b"\x22\x12\x20" + bytes(32) + rest), R.BAD_CAR
    yield "one bit", car(sound[:-1] + bytes((sound[-1] ^ 1,))), R.HASH_MISMATCH
    lie = car_frame(cid_of(b"one"), b"two")
    yield "a lie that nobody needs", car(sound + lie), R.HASH_MISMATCH
    raw = car_frame(cid_of(b"one", RAW), b"two")
    yield "a raw lie", car(sound + raw), R.HASH_MISMATCH
    circle = car_frame(event.commit, encode({"data": event.commit}))
    yield "a circle", car(header + circle), R.HASH_MISMATCH
    yield "another root", car(car_header([event.blocks[1].cid]) + rest), R.WRONG_ROOT
    yield "another commit", message(event, commit=event.blocks[1].cid), R.WRONG_ROOT
    yield (
        "commit not among the blocks",
        car(write_car([event.commit], event.blocks[1:])),
        R.MISSING_COMMIT,
    )
    records = {op.cid for op in event.ops if op.cid}
    some = [block for block in event.blocks if block.cid not in records]
    yield "no records", car(write_car([event.commit], some)), R.MISSING_RECORD
    large = block_of(encode({"v": bytes(1_000_000)}))
    op = LiveOp(OpAction.CREATE, "a.b.c/large", large.cid, None)
    yield (
        "a million bytes of record",
        message(replace(event, ops=(op,), blocks=(*event.blocks, large))),
        R.LARGE_RECORD,
    )


def of_commits(event: CommitEvent) -> Rows:
    root = next(block.cid for block in event.blocks[1:])  # Any link will do.
    sound: dict[str, Any] = {
        "did": DID,
        "version": 3,
        "data": root,
        "rev": event.rev,
        "prev": None,
        "sig": bytes(64),
    }

    def commit(data: bytes) -> bytes:
        return message(with_commit(event, data, []))

    def spoiled(**fields: Any) -> bytes:
        changed = {**sound, **fields}
        return commit(encode({k: v for k, v in changed.items() if v is not ABSENT}))

    yield "commit of a list", commit(encode([1, 2])), R.BAD_COMMIT
    yield "commit of noise", commit(b"\xff\xff"), R.BAD_COMMIT
    yield "commit with a tail", commit(encode(sound) + b"\0"), R.BAD_COMMIT
    yield "commit of 24 fields", spoiled(**{f"x{n}": n for n in range(18)}), R.BAD_COMMIT
    yield "commit of depths", spoiled(prev=nested(40)), R.BAD_COMMIT
    yield "version 2", spoiled(version=2), R.BAD_COMMIT
    yield "version of text", spoiled(version="3"), R.BAD_COMMIT
    for name in ("did", "version", "data", "rev", "sig"):
        yield f"commit without {name}", spoiled(**{name: ABSENT}), R.BAD_COMMIT
    yield "63 bytes of signature", spoiled(sig=bytes(63)), R.BAD_COMMIT
    yield "raw data", spoiled(data=cid_of(b"x", RAW)), R.BAD_COMMIT
    twice = b"\xa7" + encode(sound)[1:] + encode("rev") + encode(event.rev)
    yield "rev twice", commit(twice), R.BAD_COMMIT
    yield "another account's commit", spoiled(did=OTHER_DID), R.WRONG_DID
    yield "another account's frame", message(event, repo=OTHER_DID), R.WRONG_DID
    yield "another moment's commit", spoiled(rev=rev_at(-61)), R.WRONG_REV
    yield "another moment's frame", message(event, rev=rev_at(-59)), R.WRONG_REV


def keys_at(layer: int, count: int, name: str = "k") -> list[bytes]:
    """Keys of one layer, in order."""
    found: list[bytes] = []
    number = 0
    while len(found) < count:
        key = f"a.b.c/{name}{number:06}".encode()
        number += 1
        if key_layer(key) == layer:
            found.append(key)
    return found


class Entry(NamedTuple):
    key: bytes
    cid: Cid
    right: Cid | None = None


def write_node(left: Cid | None, entries: Sequence[Entry]) -> bytes:
    """Written as a sound node is, whatever its keys."""
    rows: list[NodeEntry] = []
    before = b""
    for key, cid, right in entries:
        shared = shared_prefix(before, key)
        rows.append(NodeEntry(key[shared:], shared, _digest(right), cid.raw))
        before = key
    return encode_node(_digest(left), rows)


def _digest(cid: Cid | None) -> bytes | None:
    return None if cid is None else cid.raw[4:]


def of_trees(event: CommitEvent) -> Rows:
    """Each tree is signed; an op on its first key makes it be looked at."""
    low, high = keys_at(0, 40), keys_at(1, 4)
    record = block_of(b"\xa0")

    def entry(key: bytes, right: Cid | None = None) -> Entry:
        return Entry(key, record.cid, right)

    def tree(path: bytes, *nodes: bytes) -> bytes:
        blocks = [block_of(node) for node in nodes]
        op = LiveOp(OpAction.CREATE, path.decode(), record.cid, None)
        bare = replace(event, ops=(op,), blocks=(event.blocks[0], record))
        return message(with_tree(bare, blocks[0].cid, blocks), prevData=ABSENT)

    sound = write_node(None, [entry(low[0]), entry(low[1])])
    first = low[0]
    yield "node of noise", tree(first, b"\xff\xff"), R.BAD_TREE
    yield "node of a list", tree(first, encode([])), R.BAD_TREE
    yield "node with a tail", tree(first, sound + b"\0"), R.BAD_TREE
    yield "node with more fields", tree(first, b"\xa3" + sound[1:] + b"\x61x\x01"), R.BAD_TREE
    yield "node in another order", tree(first, b"\xa2\x61l\xf6" + sound[1:-3]), R.BAD_TREE
    yield "wide count", tree(first, sound.replace(b"\x61e\x82", b"\x61e\x98\x02")), R.BAD_TREE
    yield "wide prefix", tree(first, sound.replace(b"\x61p\x00", b"\x61p\x18\x00")), R.BAD_TREE
    count_lies = sound.replace(b"\x61e\x82", b"\x61e\x9b" + b"\xff" * 8)
    yield "2^64 entries", tree(first, count_lies), R.BAD_TREE
    plain = [
        b"\xa4\x61k" + head(2, len(key)) + key + b"\x61p\x00\x61t\xf6\x61v" + encode(record.cid)
        for key in low[:2]
    ]
    yield "short prefix", tree(first, b"\xa2\x61e\x82" + b"".join(plain) + b"\x61l\xf6"), R.BAD_TREE
    long_prefix = sound.replace(b"\x61p\x00", b"\x61p\x05", 1)
    yield "prefix of nothing", tree(first, long_prefix), R.BAD_TREE
    empty_key = b"\xa2\x61e\x81\xa4\x61k\x40\x61p\x00\x61t\xf6\x61v" + encode(record.cid)
    yield "empty key", tree(first, empty_key + b"\x61l\xf6"), R.BAD_TREE
    yield "key of 2 KB", tree(first, write_node(None, [entry(b"x" * 2000)])), R.BAD_TREE
    order = [entry(low[1]), entry(low[0])]
    yield "keys out of order", tree(first, write_node(None, order)), R.BAD_TREE
    yield "a key twice", tree(first, write_node(None, [entry(first), entry(first)])), R.BAD_TREE
    layers = [entry(key) for key in sorted((first, high[0]))]
    yield "keys of two layers", tree(first, write_node(None, layers)), R.BAD_TREE
    below = block_of(sound).cid
    yield "below the lowest", tree(first, write_node(below, [entry(low[5])]), sound), R.BAD_TREE
    yield "nothing but a step", tree(first, write_node(below, []), sound), R.BAD_TREE
    empty = write_node(None, [])
    child = write_node(block_of(empty).cid, [entry(high[3])])
    yield "empty leaf", tree(first, child, empty), R.BAD_TREE
    beyond = write_node(None, [entry(keys_at(0, 1, "z")[0])])
    left = write_node(block_of(beyond).cid, [entry(high[3])])
    yield "beyond its parent", tree(first, left, beyond), R.BAD_TREE
    twins = write_node(below, [entry(high[2]), entry(high[3], below)])
    last = keys_at(0, 1, "z")[0]
    yield "a node in two places", tree(last, twins, sound), R.BAD_TREE
    yield "a link to a link", tree(first, sound.replace(b"\xd8\x2a", b"\xd8\x2b")), R.BAD_TREE
    yield "many bytes of few", tree(first, key_bomb(record.cid)), R.BAD_TREE
    yield (
        "root node overwritten",
        tree(first, sound).replace(sound, b"\xa0" * len(sound)),
        R.HASH_MISMATCH,
    )
    yield "no such key", tree(low[0], write_node(None, [entry(low[1])])), R.NOT_IN_TREE
    stub = write_node(below, [entry(high[3])])
    yield "a stub", tree(first, stub), R.PARTIAL_TREE


def key_bomb(value: Cid) -> bytes:
    """A node of less than two megabytes whose keys have thirty."""
    stem = b"a.b.c/" + b"x" * 480
    keys: list[bytes] = []
    number = 0
    while len(keys) < 28_000:
        key = stem + b"y" * 500 + b"%06d" % number
        number += 1
        if sha256(key).digest()[0] >= 64:
            keys.append(key)
    return write_node(None, [Entry(key, value) for key in keys])


def of_changes(event: CommitEvent) -> Rows:
    """Ops that are not what the two trees differ in."""
    first, second, updated, deleted = event.ops

    def ops(*changed: LiveOp) -> bytes:
        return message(replace(event, ops=changed))

    absent = replace(first, path="app.bsky.feed.like/absent")
    elsewhere = replace(deleted, path="app.bsky.feed.like/elsewhere")
    yield "a create dropped", ops(second, updated, deleted), R.WRONG_PREV_DATA
    yield "an update dropped", ops(first, second, deleted), R.WRONG_PREV_DATA
    yield "a delete dropped", ops(first, second, updated), R.WRONG_PREV_DATA
    yield "all dropped", ops(), R.WRONG_PREV_DATA
    yield "a create added", ops(*event.ops, absent), R.NOT_IN_TREE
    update = LiveOp(OpAction.UPDATE, absent.path, first.cid, LEAF)
    yield "an update added", ops(*event.ops, update), R.NOT_IN_TREE
    swapped = (replace(first, cid=second.cid), replace(second, cid=first.cid))
    yield "cids swapped", ops(*swapped, updated, deleted), R.WRONG_CID
    yield (
        "an update as create",
        ops(first, second, replace(updated, action=OpAction.CREATE, prev=None), deleted),
        R.WRONG_PREV_DATA,
    )
    yield (
        "a create as update",
        ops(LiveOp(OpAction.UPDATE, first.path, first.cid, LEAF), second, updated, deleted),
        R.WRONG_PREV_DATA,
    )
    yield (
        "another prev",
        ops(first, second, replace(updated, prev=LEAF), deleted),
        R.WRONG_PREV_DATA,
    )
    yield "another deleted", ops(first, second, updated, elsewhere), R.WRONG_PREV_DATA
    still = LiveOp(OpAction.DELETE, first.path, None, LEAF)
    yield "deleted and there", ops(still, second, updated, deleted), R.STILL_IN_TREE
    yield "another prevData", message(event, prevData=LEAF), R.WRONG_PREV_DATA
    empty = build_tree([]).root
    yield "from nothing", message(event, prevData=empty), R.WRONG_PREV_DATA
    yield from _without_a_node(event)
    commit = event.blocks[0].data
    root = Cid(commit[commit.index(b"\x64data") + 10 :][:36])
    forged = Commit(DID, root, event.rev, None, bytes(63) + b"\x01").encode()
    nodes = list(event.blocks[1:])
    yield "a forged signature", message(with_commit(event, forged, nodes)), R.BAD_SIGNATURE
    yield "another key", message(with_tree(event, root, nodes, KEYS[3])), R.BAD_SIGNATURE
    high = Commit(DID, root, event.rev).signed(KEYS[1])
    s = ORDER[Curve.K256] - int.from_bytes(high.sig[32:], "big")
    mirrored = replace(high, sig=high.sig[:32] + s.to_bytes(32, "big")).encode()
    yield "the mirrored signature", message(with_commit(event, mirrored, nodes)), R.BAD_SIGNATURE


def _without_a_node(event: CommitEvent) -> Rows:
    records = {op.cid for op in event.ops}
    nodes = [block for block in event.blocks[1:] if block.cid not in records]
    for number, node in enumerate(nodes):
        rest: list[CarBlock] = [block for block in event.blocks if block is not node]
        yield f"without node {number}", message(replace(event, blocks=tuple(rest))), R.PARTIAL_TREE
