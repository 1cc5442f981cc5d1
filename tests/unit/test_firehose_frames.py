"""Sound frames of every kind, in both framings, and commits that are odd and still sound."""

from __future__ import annotations

import json
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from tests.support.atproto.hostile_frames import json_frame, keys_at
from tests.support.atproto.made_commits import (
    ABSENT,
    DID,
    JUDGES,
    KEYS,
    NOW,
    OTHER_DID,
    Judge,
    block_of,
    made_repo,
    message,
    rev_at,
    some_changes,
    with_commit,
)
from tests.support.repos.extractors import HAS_NATIVE
from tests.support.repos.made_repos import ODD_RECORDS, make_record
from trawlnet.archive.format.content import DROP_REASONS, DropReason
from trawlnet.archive.format.record_text import record_text, record_text_plain
from trawlnet.atproto.cid import RAW, cid_of
from trawlnet.atproto.dagcbor import encode
from trawlnet.atproto.firehose.checked import (
    EMPTY_ROOT,
    CheckedCommit,
    CheckedSync,
    OpAction,
)
from trawlnet.atproto.firehose.checking import check_commit, check_signature, check_sync
from trawlnet.atproto.firehose.frame import (
    AccountFrame,
    CommitFrame,
    IdentityFrame,
    InfoFrame,
    StreamError,
    SyncFrame,
    UnknownFrame,
    read_binary_frame,
    read_frame,
)
from trawlnet.atproto.firehose.refusal import REFUSALS, FrameRefused, Refusal
from trawlnet.native.loader import native
from trawlnet.sim.repository.car import CarBlock, write_car
from trawlnet.sim.repository.live import LiveRepo, frame_of
from trawlnet.sim.repository.mst import build_tree

TIME = "2026-01-01T00:00:00.000Z"
MOMENT: dict[str, Any] = {"seq": 5, "did": DID, "time": TIME}


@pytest.fixture(params=JUDGES)
def judge(request: pytest.FixtureRequest) -> Judge:
    found: Judge = request.param
    return found


def believed(found: object) -> CheckedCommit:
    assert isinstance(found, CheckedCommit), found
    return found


# Kinds.

KINDS: list[tuple[str, dict[str, Any], object]] = [
    ("#identity", MOMENT, IdentityFrame(5, DID, TIME, None)),
    ("#identity", {**MOMENT, "handle": "a.test"}, IdentityFrame(5, DID, TIME, "a.test")),
    ("#account", {**MOMENT, "active": True}, AccountFrame(5, DID, TIME, True, None)),
    (
        "#account",
        {**MOMENT, "active": False, "status": "throttled"},
        AccountFrame(5, DID, TIME, False, "throttled"),
    ),
    ("#info", {"name": "OutdatedCursor"}, InfoFrame("OutdatedCursor", None)),
    ("#labels", {"seq": 9, "labels": []}, UnknownFrame("#labels", 9)),
    ("#labels", {"labels": []}, UnknownFrame("#labels", None)),
    ("#labels", {"seq": "nine"}, UnknownFrame("#labels", None)),
    ("#identity", {**MOMENT, "handle": 5}, Refusal.BAD_FIELDS),
    ("#identity", {**MOMENT, "seq": -1}, Refusal.BAD_SEQ),
    ("#identity", {**MOMENT, "did": "me"}, Refusal.BAD_DID),
    ("#account", MOMENT, Refusal.BAD_FIELDS),
    ("#account", {**MOMENT, "active": 1}, Refusal.BAD_FIELDS),
    ("#info", {}, Refusal.BAD_FIELDS),
    ("#sync", MOMENT, Refusal.BAD_FIELDS),
]


@pytest.mark.parametrize(("kind", "payload", "expected"), KINDS)
def test_every_kind_in_both_framings(kind: str, payload: dict[str, Any], expected: object) -> None:
    binary = frame_of(kind, {**payload, "a later field": [1, {"x": None}]})
    assert read_frame(binary) == plainly(binary) == expected
    name = "com.atproto.sync.subscribeRepos" + kind
    assert read_frame(json.dumps({"$type": "message", "payload": {"$type": name, **payload}})) == (
        expected
    )


def plainly(message: bytes) -> object:
    try:
        return read_binary_frame(message)
    except FrameRefused as refused:
        return refused.why


def test_errors_and_what_is_of_a_later_protocol() -> None:
    error = {"error": "FutureCursor", "message": "too far"}
    expected = StreamError("FutureCursor", "too far")
    assert read_frame(encode({"op": -1}) + encode(error)) == expected
    assert read_frame(json.dumps({"$type": "error", **error})) == expected
    assert read_frame(encode({"op": -1}) + encode({})) is Refusal.BAD_FIELDS
    assert read_frame(encode({"op": 2, "t": "#x"}) + encode([])) == UnknownFrame("", None)
    assert read_frame('{"$type":"ping"}') == UnknownFrame("ping", None)


def test_a_sync_says_where_a_repository_stands() -> None:
    repo = made_repo(20)
    found = read_frame(repo.sync_frame(9))
    assert isinstance(found, SyncFrame)
    checked = check_sync(found, NOW)
    assert isinstance(checked, CheckedSync)
    assert (checked.did, checked.rev, checked.data) == (DID, repo.rev, repo.tree.root.raw)
    assert check_signature(checked, KEYS[1].public) is None
    assert check_signature(checked, KEYS[3].public) is Refusal.BAD_SIGNATURE
    for changed, word in (
        (replace(found, did=OTHER_DID), Refusal.WRONG_DID),
        (replace(found, rev=rev_at(-9)), Refusal.WRONG_REV),
        (replace(found, rev=rev_at(900)), Refusal.FUTURE_REV),
        (replace(found, did="me"), Refusal.BAD_DID),
        (replace(found, rev="now"), Refusal.BAD_REV),
        (replace(found, blocks=found.blocks + bytes(10_000)), Refusal.TOO_LARGE),
        (replace(found, blocks=found.blocks[:-1]), Refusal.BAD_CAR),
        (replace(found, blocks=write_car([cid_of(b"x")], [])), Refusal.MISSING_COMMIT),
    ):
        assert check_sync(changed, NOW) is word


# Commits.


def test_a_commit_says_what_changed(judge: Judge) -> None:
    repo = made_repo()
    path = sorted(repo.records)[7]
    old, before = cid_of(repo.records[path]).raw, repo.tree.root.raw
    record = make_record(Random(1))
    event = repo.commit({"a.b.c/new": record, path: None}, rev_at(-1))
    checked = believed(judge(event.frame(3)))
    assert (checked.since, checked.rev) == (event.since, event.rev)
    assert (checked.data, checked.prev_data) == (repo.tree.root.raw, before)
    assert checked.inverts_to == before and not checked.begins_empty
    created, deleted = checked.ops
    assert (created.action, created.collection, created.rkey) == (OpAction.CREATE, "a.b.c", "new")
    assert (created.record, created.cid) == (record, cid_of(record).raw)
    assert (deleted.action, deleted.cid, deleted.prev) == (OpAction.DELETE, None, old)


def test_text_frames_come_to_the_same(judge: Judge) -> None:
    repo = made_repo(50)
    event = repo.commit(some_changes(repo, Random(2), 9), rev_at(-1))
    assert judge(json_frame(event)) == believed(judge(event.frame(7)))


def test_the_first_commit_begins_empty(judge: Judge) -> None:
    event = LiveRepo(DID, KEYS[1]).commit({"a.b.c/d": b"\xa0"}, rev_at(0))
    checked = believed(judge(event.frame(1)))
    assert checked.since is None and checked.prev_data is None
    assert checked.begins_empty and checked.inverts_to == EMPTY_ROOT == build_tree([]).root.raw


def test_a_commit_may_empty_a_repository_or_change_nothing(judge: Judge) -> None:
    repo = made_repo(30)
    empties = repo.commit(dict.fromkeys(repo.records), rev_at(-2))
    assert believed(judge(empties.frame(1))).data == EMPTY_ROOT
    assert believed(judge(repo.commit({}, rev_at(-1)).frame(2))).inverts_to == EMPTY_ROOT


def test_a_root_without_keys_of_its_own_gives_way_to_what_is_below(judge: Judge) -> None:
    """Three layers above all others stands the key that is taken back: two nodes between are
    nothing but steps."""
    repo = LiveRepo(DID, KEYS[1])
    low = {key.decode(): b"\xa0" for key in keys_at(0, 3)}
    repo.commit(low, rev_at(-2))
    before = repo.tree.root.raw
    event = repo.commit({keys_at(3, 1, "z")[0].decode(): b"\xa0"}, rev_at(-1))
    assert believed(judge(event.frame(1))).inverts_to == before
    stubs = {node.cid for node in repo.tree.nodes[:-1]}
    blocks = tuple(block for block in event.blocks if block.cid not in stubs)
    assert judge(replace(event, blocks=blocks).frame(1)) is Refusal.PARTIAL_TREE


def test_more_blocks_than_needed_and_unknown_fields_are_tolerated(judge: Judge) -> None:
    repo = made_repo(50)
    event = repo.commit(some_changes(repo, Random(4), 3), rev_at(-1))
    extra = (block_of(b"\xa0"), CarBlock(cid_of(b"raw", RAW), b"raw"), event.blocks[-1])
    odd = message(replace(event, blocks=(*extra, *event.blocks)), later=[{"a": None}])
    assert believed(judge(odd)) == believed(judge(event.frame(7)))


def test_blocks_in_any_order(judge: Judge) -> None:
    repo = made_repo(50)
    event = repo.commit(some_changes(repo, Random(4), 3), rev_at(-1))
    turned = replace(event, blocks=event.blocks[::-1])
    assert believed(judge(turned.frame(7))) == believed(judge(event.frame(7)))


def test_a_server_that_knows_no_prev_is_believed_without_inversion(judge: Judge) -> None:
    repo = made_repo()
    paths = sorted(repo.records)
    changes = {"a.b.c/new": make_record(Random(1)), paths[5]: b"\xa0", paths[9]: None}
    event = repo.commit(changes, rev_at(-1))
    old = replace(event, prev_data=None, ops=tuple(replace(op, prev=None) for op in event.ops))
    assert believed(judge(old.frame(1))).inverts_to is None
    lie = replace(old, ops=(replace(old.ops[0], path="a.b.c/other"), *old.ops[1:]))
    assert judge(lie.frame(1)) is Refusal.NOT_IN_TREE


def test_a_commit_with_more_fields_is_believed_as_signed(judge: Judge) -> None:
    repo = made_repo(5)
    event = repo.commit({"a.b.c/d": b"\xa0"}, rev_at(-1))
    fields = {"did": DID, "version": 3, "data": repo.tree.root, "rev": event.rev, "x": [1]}
    signature = KEYS[1].sign(encode(fields))
    commit = encode({**fields, "sig": signature})
    checked = believed(judge(message(with_commit(event, commit, list(event.blocks[1:])))))
    assert checked.unsigned_commit == encode(fields)


def test_prev_data_may_be_null(judge: Judge) -> None:
    event = LiveRepo(DID, KEYS[1]).commit({"a.b.c/d": b"\xa0"}, rev_at(0))
    assert believed(judge(message(event, prevData=None))).prev_data is None
    assert believed(judge(message(event, tooBig=ABSENT, blobs=ABSENT, rebase=ABSENT)))


def test_the_clock_is_passed() -> None:
    event = LiveRepo(DID, KEYS[1]).commit({"a.b.c/d": b"\xa0"}, rev_at(299))
    frame = read_frame(event.frame(1))
    assert isinstance(frame, CommitFrame)
    assert isinstance(check_commit(frame, NOW), CheckedCommit)
    assert check_commit(frame, NOW - 2) is Refusal.FUTURE_REV


# Twins.


@pytest.mark.skipif(not HAS_NATIVE, reason="the C extension is not built")
def test_the_twins_number_alike() -> None:
    assert native is not None
    assert len(REFUSALS) + 1 == native.REFUSALS
    assert len(DROP_REASONS) + 1 == native.DROP_REASONS


@pytest.mark.parametrize("path", sorted(ODD_RECORDS))
def test_records_read_as_archives_have_them(path: str) -> None:
    data = ODD_RECORDS[path]
    assert record_text(data) == record_text_plain(data)
    assert isinstance(record_text(data), DropReason) == path.startswith("org.example.odd/x-")
