"""Commits of a small repository for tests, and the two ways to judge a frame of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from tests.support.repos.made_repos import make_record
from trawlnet.atproto.cid import Cid, cid_of
from trawlnet.atproto.dagcbor import encode
from trawlnet.atproto.firehose import checking, checking_plain
from trawlnet.atproto.firehose.checked import CheckedCommit
from trawlnet.atproto.firehose.frame import CommitFrame, Frame, read_binary_frame, read_frame
from trawlnet.atproto.firehose.refusal import FrameRefused, Refusal
from trawlnet.atproto.tid import tid
from trawlnet.native.loader import native
from trawlnet.sim.atproto.keyring import QuickKey, make_keyring
from trawlnet.sim.repository.car import CarBlock
from trawlnet.sim.repository.commit import Commit
from trawlnet.sim.repository.live import CommitEvent, LiveRepo

DID = "did:plc:ewvi7nxzyoun6zhxrhs64oiz"
OTHER_DID = "did:plc:oisofpd7lj26yvgiivf3lxsi"
NOW = 1_767_225_600.0  # The first second of 2026.
KEYS = make_keyring(7)

Judge = Callable[[bytes | str], CheckedCommit | Frame | Refusal]


def rev_at(second: float) -> str:
    """Of so many seconds after NOW."""
    return tid(int((NOW + second) * 1_000_000))


def made_repo(size: int = 300, seed: int = 1, key: QuickKey = KEYS[1]) -> LiveRepo:
    """Of likes and posts, an hour before NOW."""
    rng = Random(seed)
    repo = LiveRepo(DID, key)
    repo.commit({some_path(rng): make_record(rng) for _ in range(size)}, rev_at(-3600))
    return repo


def some_path(rng: Random) -> str:
    rkey = tid(int(NOW * 1_000_000) - rng.randrange(10**13))
    return f"app.bsky.feed.{rng.choice(('like', 'post'))}/{rkey}"


def some_changes(repo: LiveRepo, rng: Random, count: int) -> dict[str, bytes | None]:
    """Creates, updates and deletes, about as many of each."""
    there = rng.sample(sorted(repo.records), min(len(repo.records), count))
    changes: dict[str, bytes | None] = {}
    for number in range(count):
        kind = rng.randrange(3)
        if kind == 0 or number >= len(there):
            changes[some_path(rng)] = make_record(rng)
        else:
            changes[there[number]] = make_record(rng) if kind == 1 else None
    return changes


def with_tree(
    event: CommitEvent, root: Cid, nodes: list[CarBlock], key: QuickKey = KEYS[1]
) -> CommitEvent:
    """The same change, of a commit that is signed over another tree."""
    return with_commit(event, Commit(event.did, root, event.rev).signed(key).encode(), nodes)


def with_commit(event: CommitEvent, commit: bytes, nodes: list[CarBlock]) -> CommitEvent:
    block = CarBlock(cid_of(commit), commit)
    return replace(event, commit=block.cid, blocks=(block, *nodes, *event.blocks[1:]))


def block_of(data: bytes) -> CarBlock:
    return CarBlock(cid_of(data), data)


def message(event: CommitEvent, **fields: Any) -> bytes:
    """The frame of an event, some fields of its payload replaced; None leaves one out."""
    payload = {**event.payload(7), **fields}
    return frame({name: value for name, value in payload.items() if value is not ABSENT})


def frame(payload: Any) -> bytes:
    return encode({"op": 1, "t": "#commit"}) + encode(payload)


ABSENT = object()


def judge_natively(message: bytes | str) -> CheckedCommit | Frame | Refusal:
    found = read_frame(message)
    if not isinstance(found, CommitFrame):
        return found
    return _judge_signature(checking.check_commit(found, NOW))


def judge_plainly(message: bytes | str) -> CheckedCommit | Frame | Refusal:
    if isinstance(message, str):
        found: Frame | Refusal = read_frame(message)
    else:
        try:
            found = read_binary_frame(message)
        except FrameRefused as refused:
            found = refused.why
    if not isinstance(found, CommitFrame):
        return found
    return _judge_signature(checking_plain.check_payload(found.payload, int(NOW * 1_000_000)))


def _judge_signature(found: CheckedCommit | Refusal) -> CheckedCommit | Refusal:
    if isinstance(found, Refusal):
        return found
    return checking.check_signature(found, KEYS[1].public) or found


JUDGES = [pytest.param(judge_plainly, id="plain")]
if native is not None:
    JUDGES.append(pytest.param(judge_natively, id="native"))
