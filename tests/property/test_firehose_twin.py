"""Random commits over random trees: the old root comes out, every lie is noticed, and the C code
says what its plain twin says, also of frames that are damaged."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from random import Random

import pytest

from tests.support.atproto.hostile_frames import HostileFrame, hostile_frames
from tests.support.atproto.made_commits import (
    DID,
    KEYS,
    block_of,
    judge_natively,
    judge_plainly,
    made_repo,
    message,
    rev_at,
    some_changes,
    with_tree,
)
from tests.support.repos.extractors import needs_native
from tests.support.repos.made_repos import make_record
from trawlnet.atproto.cid import cid_of
from trawlnet.atproto.firehose.checked import CheckedCommit, OpAction
from trawlnet.atproto.firehose.refusal import Refusal
from trawlnet.atproto.repository.node_plain import key_layer
from trawlnet.sim.repository.live import CommitEvent, LiveOp, LiveRepo

# More rounds for a long run: TRAWLNET_TWIN_ROUNDS=100000 pytest tests/property -k firehose
ROUNDS = int(os.environ.get("TRAWLNET_TWIN_ROUNDS", "4000"))

pytestmark = needs_native


def agree(frame: bytes) -> object:
    native = judge_natively(frame)
    assert native == judge_plainly(frame)
    return native


@cache
def paths_by_layer() -> list[list[str]]:
    """Forty paths of each of seven layers: with few keys of many layers, trees have gaps."""
    found: list[list[str]] = [[] for _ in range(7)]
    number = 0
    while min(map(len, found)) < 40:
        path = f"a.b.c/{number * 7919 % 1_000_003}-{number}"
        number += 1
        layer = key_layer(path.encode())
        if layer < len(found) and len(found[layer]) < 40:
            found[layer].append(path)
    return found


def draw_path(rng: Random) -> str:
    return rng.choice(paths_by_layer()[min(6, int(rng.expovariate(0.5)))])


def gappy_events(rng: Random, commits: int) -> Iterator[tuple[bytes, CommitEvent, LiveRepo]]:
    """Commits on a small tree with wide gaps between layers, each with the root before it."""
    for number in range(commits):
        if number % 20 == 0:  # Small trees again: in these, a root may lose all of its keys.
            repo = LiveRepo(DID, KEYS[1])
        changes: dict[str, bytes | None] = {}
        for _ in range(rng.choice((1, 1, 1, 2, 3, 6, 20))):
            path = draw_path(rng)
            is_deleted = path in repo.records and rng.random() < 0.6
            changes[path] = None if is_deleted else make_record(rng)
        before = repo.tree.root.raw
        yield before, repo.commit(changes, rev_at(number - 10_000)), repo


@pytest.mark.parametrize("seed", range(4))
def test_trees_with_gaps_invert_to_what_they_were(seed: int) -> None:
    for before, event, _ in gappy_events(Random(seed), ROUNDS // 150):
        found = agree(event.frame(1))
        assert isinstance(found, CheckedCommit), found
        assert found.inverts_to == before


@pytest.mark.parametrize("count", [1, 2, 3, 10, 50, 200])
def test_large_trees_invert_to_what_they_were(count: int) -> None:
    rng = Random(count)
    repo = made_repo(800, seed=count)
    for number in range(4):
        before = repo.tree.root.raw
        event = repo.commit(some_changes(repo, rng, count), rev_at(number - 100))
        found = agree(event.frame(1))
        assert isinstance(found, CheckedCommit), found
        assert found.inverts_to == before and len(found.ops) == count


# Lies.


def lies(event: CommitEvent, rng: Random) -> Iterator[CommitEvent]:
    """Each says something else than what happened."""
    ops = list(event.ops)
    at = rng.randrange(len(ops))
    some = ops[at]
    other = cid_of(rng.randbytes(9))
    yield replace(event, ops=tuple(ops[:at] + ops[at + 1 :]))
    yield replace(event, prev_data=other)
    invented = LiveOp(OpAction.DELETE, f"a.b.c/invented{rng.random()}", None, other)
    yield replace(event, ops=(*ops, invented))
    if some.prev is not None:
        yield replace(event, ops=(*ops[:at], replace(some, prev=other), *ops[at + 1 :]))
    if some.cid is not None:
        yield replace(event, ops=(*ops[:at], replace(some, path="a.b.c/moved"), *ops[at + 1 :]))
    if some.action is OpAction.UPDATE:
        created = replace(some, action=OpAction.CREATE, prev=None)
        yield replace(event, ops=(*ops[:at], created, *ops[at + 1 :]))


@pytest.mark.parametrize("seed", range(4))
def test_every_lie_is_noticed(seed: int) -> None:
    rng = Random(seed)
    for _, event, _ in gappy_events(rng, ROUNDS // 200):
        if event.prev_data is None:
            continue
        for lie in lies(event, rng):
            assert isinstance(agree(lie.frame(1)), Refusal)


def test_no_block_is_sent_in_vain_and_none_is_missed() -> None:
    """Without any one of a commit's blocks, it is not believed: the slice holds no more than what
    the inversion needs."""
    rng = Random(9)
    for _, event, _ in gappy_events(rng, 40):
        for gone in event.blocks:
            rest = tuple(block for block in event.blocks if block is not gone)
            found = agree(replace(event, blocks=rest).frame(1))
            # New nodes that no op's way leads to are sent as well, as servers do.
            assert isinstance(found, Refusal) or found == agree(event.frame(1))


# Damage.


def damaged(data: bytes, rng: Random) -> bytes:
    body = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 4))):
        at = rng.randrange(len(body))
        match rng.randrange(6):
            case 0:
                body[at] ^= 1 << rng.randrange(8)
            case 1:
                body[at] = rng.choice(
                    b"\x00\x01\x18\x1b\x40\x58\x5f\x60\x7f\x80\x9f\xa0\xbf\xd8\xf6\xff"
                )
            case 2:
                del body[at : at + rng.randrange(1, 9)]
            case 3:
                body[at:at] = rng.randbytes(rng.randrange(1, 9))
            case 4:
                body[at] = (body[at] + rng.choice((-1, 1))) % 256
            case _:
                source = rng.randrange(len(body))
                body[at : at + 8] = body[source : source + 8]
        if not body:
            body = bytearray(b"\0")
    return bytes(body)


def test_the_twins_agree_on_damaged_frames() -> None:
    rng = Random(5)
    repo = made_repo(60)
    frames = [
        repo.commit(some_changes(repo, rng, count), rev_at(count - 100)).frame(1)
        for count in (1, 2, 3, 9)
    ]
    for _ in range(ROUNDS // 3):
        agree(damaged(rng.choice(frames), rng))


def test_the_twins_agree_on_damaged_trees() -> None:
    """The hash of what is damaged is right, so that it is looked into."""
    rng = Random(6)
    repo = made_repo(60)
    words = set()
    for number in range(ROUNDS // 4):
        if number % 50 == 0:
            event = repo.commit(some_changes(repo, rng, 4), rev_at(number / 50 - 5000))
            nodes = [node for node in repo.tree.nodes if node in event.blocks]
            root = repo.tree.nodes[-1].data
        bad = block_of(damaged(root, rng))
        frame = message(with_tree(event, bad.cid, [bad, *nodes]))
        words.add(str(agree(frame))[:20])
    assert len(words) > 3


HOSTILE = [frame for frame in hostile_frames() if len(frame.message) < 10_000]


@pytest.mark.parametrize("frame", HOSTILE, ids=[frame.name for frame in HOSTILE])
def test_the_twins_agree_around_hostile_frames(frame: HostileFrame) -> None:
    rng = Random(frame.name)
    if isinstance(frame.message, bytes) and frame.message:
        for _ in range(ROUNDS // 1200):
            agree(damaged(frame.message, rng))
