"""Commits of a firehose: checked by us in all respects, beside the Python SDK that checks none.

    .venv/bin/python bench/follow.py [--rounds 5] [--frames 1500] [--sdk SITE_PACKAGES]

Frames lie in memory: one to three ops on repositories of some hundred records, 2 to 3 KB each,
signed on k256. Ours is frame, check, inversion and signature. The peer (`atproto` from PyPI, in the
folder that --sdk names) does two kinds of work: it parses the frame and reads its CAR; and, as its
documentation advises for a feed, it also makes a model of each record, which is held against ours
with the JSON of each record. Without --sdk libipld stands in for the first, which is what the SDK
is made of. CPU time, one thread; contestants take turns within each round, and the median of the
rounds counts.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median, quantiles
from typing import Any

sys.path[:0] = [str(Path(__file__).parents[1] / "src"), str(Path(__file__).parent)]

import libipld

from record import record
from repo_block import made_record
from trawlnet.archive.format.record_text import record_text
from trawlnet.atproto.dagcbor import encode
from trawlnet.atproto.firehose.checked import CheckedCommit
from trawlnet.atproto.firehose.checking import check_commit, check_signature
from trawlnet.atproto.firehose.frame import CommitFrame, read_frame
from trawlnet.atproto.identity.keys import Curve, PublicKey
from trawlnet.atproto.tid import tid
from trawlnet.sim.atproto.keyring import QuickKey, make_keyring
from trawlnet.sim.repository.live import LiveRepo

NOW = 1_767_225_600
REPOS, RECORDS = 12, 400
CHECKED = "frame, check, inversion"
VERIFIED = "and signature"
WITH_RECORDS = "and JSON of records"

Step = Callable[[bytes], object]


def made_frames(count: int) -> tuple[list[bytes], dict[str, PublicKey]]:
    keys = [key for key in make_keyring(1) if key.public.curve is Curve.K256]
    repos = [made_repo(number, keys[number]) for number in range(REPOS)]
    rng = random.Random(2)
    frames = []
    for number in range(count):
        repo = repos[number % REPOS]
        changes = made_changes(rng, repo, number)
        event = repo.commit(changes, tid((NOW - 100_000 + number) * 1_000_000))
        frames.append(event.frame(number + 1))
    return frames, {repo.did: key.public for repo, key in zip(repos, keys, strict=False)}


def made_repo(number: int, key: QuickKey) -> LiveRepo:
    rng = random.Random(number)
    repo = LiveRepo(f"did:plc:{'abcdefghijklmnopqrstuvwx'[number:]}{'2' * number}", key)
    records = dict(made_path(rng, n) for n in range(RECORDS))
    repo.commit(records, tid((NOW - 10_000_000) * 1_000_000))
    return repo


def made_path(rng: random.Random, number: int) -> tuple[str, bytes | None]:
    collection, value = made_record(rng, number)
    return f"{collection}/{tid(NOW * 1_000_000 - rng.randrange(10**14))}", encode(value)


def made_changes(rng: random.Random, repo: LiveRepo, number: int) -> dict[str, bytes | None]:
    """Nine in ten are creates, as on the network."""
    changes: dict[str, bytes | None] = {}
    for _ in range(rng.choices((1, 2, 3), (85, 10, 5))[0]):
        path, data = made_path(rng, number)
        if rng.random() < 0.1:
            path = rng.choice(list(repo.records))
            data = None if rng.random() < 0.8 else data
        changes[path] = data
    return changes


def peer_steps(folder: str | None) -> dict[str, Step]:
    """By what they are called: the one without records first."""
    if folder is None:
        return {"libipld alone": by_libipld}
    sys.path.append(folder)
    from atproto import CAR, AtUri, models, parse_subscribe_repos_message
    from atproto_subscription.frames import Frame

    def parsed(message: bytes) -> tuple[Any, Any]:
        commit = parse_subscribe_repos_message(Frame.from_bytes(message))
        return commit, CAR.from_bytes(commit.blocks).blocks

    def with_models(message: bytes) -> object:
        commit, blocks = parsed(message)
        return [
            (
                AtUri.from_str(f"at://{commit.repo}/{op.path}"),
                models.get_or_create(blocks.get(op.cid), strict=False) if op.cid else None,
            )
            for op in commit.ops
        ]

    return {"SDK, no checks": parsed, "SDK, no checks, records": with_models}


def by_libipld(message: bytes) -> object:
    _, commit = libipld.decode_dag_cbor_multi(message)
    return libipld.decode_car(commit["blocks"])


def frame_only(message: bytes) -> CommitFrame:
    frame = read_frame(message)
    assert isinstance(frame, CommitFrame)
    return frame


def checked_only(message: bytes) -> CheckedCommit:
    checked = check_commit(frame_only(message), NOW)
    assert isinstance(checked, CheckedCommit), checked
    return checked


def our_step(keys: dict[str, PublicKey]) -> Step:
    def verified(message: bytes) -> object:
        checked = checked_only(message)
        assert check_signature(checked, keys[checked.did]) is None
        return checked

    return verified


def with_json(verified: Step) -> Step:
    def written(message: bytes) -> object:
        checked = verified(message)
        assert isinstance(checked, CheckedCommit)
        return [record_text(op.record) for op in checked.ops if op.record is not None]

    return written


def cpu_per_frame(step: Step, frames: Sequence[bytes]) -> float:
    start = time.process_time()
    for message in frames:
        step(message)
    return (time.process_time() - start) / len(frames)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--frames", type=int, default=1500)
    parser.add_argument("--sdk")
    args = parser.parse_args()
    frames, keys = made_frames(args.frames)
    sizes = quantiles(map(len, frames), n=100)
    print(f"{len(frames)} frames, p50 {sizes[49]:.0f} bytes, p99 {sizes[98]:.0f} bytes")
    peers = peer_steps(args.sdk)
    verified = our_step(keys)
    steps = {
        "frame": frame_only,
        CHECKED: checked_only,
        VERIFIED: verified,
        WITH_RECORDS: with_json(verified),
        **peers,
    }
    seconds: dict[str, list[float]] = {name: [] for name in steps}
    for _ in range(args.rounds):
        for name, step in steps.items():
            seconds[name].append(cpu_per_frame(step, frames))
    middle = {name: median(found) for name, found in seconds.items()}
    for name, found in middle.items():
        print(f"{name:26} {found * 1e6:8.1f} us of CPU {1 / found:10,.0f} commits per CPU second")
    ratios = {}
    for peer, ours in zip(peers, (VERIFIED, WITH_RECORDS), strict=False):
        ratios[f"CPU of {peer} / ours, all checked"] = middle[peer] / middle[ours]
    peer = next(iter(peers))
    ratios[f"CPU of {peer} / ours, all but the signature"] = middle[peer] / middle[CHECKED]
    for what, ratio in ratios.items():
        print(f"{what}: {ratio:.2f}")
    record("follow", ratios)


if __name__ == "__main__":
    main()
