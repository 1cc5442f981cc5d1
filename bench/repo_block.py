"""CAR to archive block: ours, the libraries a Python user would take, and zstd alone, in one run.

    .venv/bin/python bench/repo_block.py [--rounds 5] [--sizes 10,100,1000,10000]

The peer is libipld + orjson + zstandard with zlib's CRC, writing the same block. CPU time, one
thread; contestants take turns within each round, and the median of the rounds counts.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

sys.path[:0] = [str(Path(__file__).parents[1] / "src"), str(Path(__file__).parent)]

import zstandard

from repo_block_peer import CRAWLED_AT_US, LEVEL, PDS, peer_block
from trawlnet.archive.format import rca, repoblock
from trawlnet.archive.format.content import ExtractOptions, Packed, PackJob
from trawlnet.atproto.cid import RAW, cid_of
from trawlnet.atproto.dagcbor import encode
from trawlnet.atproto.tid import tid
from trawlnet.sim.repository.repo import build_repo_of_blocks

DID = "did:plc:ewvi7nxzyoun6zhxrhs64oiz"
FIXTURES = Path(__file__).parents[2] / "shared" / "fixtures" / "car"
RECORDS_PER_ROUND = 100_000  # Each round repeats a repo until about this many records went through.
BASE32 = "abcdefghijklmnopqrstuvwxyz234567"
UNVERIFIED = ExtractOptions(verify_hashes=False)
VERIFIED = ExtractOptions(verify_hashes=True)


# A repository in the proportions of the network: mostly likes, then posts, follows, reposts.


def made_repo(size: int) -> bytes:
    rng = random.Random(size)
    records: dict[str, bytes] = {}
    for n in range(size):
        collection, value = made_record(rng, n)
        records[f"{collection}/{tid(CRAWLED_AT_US - n * 977_131)}"] = encode(value)
    rev = tid(CRAWLED_AT_US)
    return build_repo_of_blocks(DID, records, ZeroSigner(), rev).car(rng)


class ZeroSigner:
    def sign(self, message: bytes) -> bytes:
        return bytes(64)


def made_record(rng: random.Random, n: int) -> tuple[str, dict[str, Any]]:
    day, second, millisecond = n % 28 + 1, n % 59, n % 1000
    created = f"2025-07-{day:02d}T{n % 24:02d}:{n % 60:02d}:{second:02d}.{millisecond:03d}Z"
    match rng.choices(("like", "post", "follow", "repost"), (60, 18, 13, 9))[0]:
        case "like":
            return "app.bsky.feed.like", {
                "$type": "app.bsky.feed.like",
                "subject": strong_ref(rng),
                "createdAt": created,
            }
        case "repost":
            return "app.bsky.feed.repost", {
                "$type": "app.bsky.feed.repost",
                "subject": strong_ref(rng),
                "createdAt": created,
            }
        case "follow":
            return "app.bsky.graph.follow", {
                "$type": "app.bsky.graph.follow",
                "subject": some_did(rng),
                "createdAt": created,
            }
        case _:
            return "app.bsky.feed.post", made_post(rng, created)


def made_post(rng: random.Random, created: str) -> dict[str, Any]:
    post: dict[str, Any] = {
        "$type": "app.bsky.feed.post",
        "text": sentence(rng),
        "langs": ["en"],
        "createdAt": created,
    }
    if rng.random() < 0.4:
        post["reply"] = {"root": strong_ref(rng), "parent": strong_ref(rng)}
    if rng.random() < 0.2:
        image = {
            "$type": "blob",
            "ref": cid_of(rng.randbytes(8), RAW),
            "size": rng.randrange(10**6),
            "mimeType": "image/jpeg",
        }
        post["embed"] = {
            "$type": "app.bsky.embed.images",
            "images": [
                {"alt": sentence(rng), "image": image, "aspectRatio": {"width": 4, "height": 3}}
            ],
        }
    return post


def sentence(rng: random.Random) -> str:
    # Words with a Zipf-like law, so that zstd finds about as much to do as in real text.
    return " ".join(
        WORDS[int(rng.paretovariate(0.7)) % len(WORDS)] for _ in range(rng.randrange(3, 40))
    )


def strong_ref(rng: random.Random) -> dict[str, str]:
    key = tid(CRAWLED_AT_US - rng.randrange(10**14))
    uri = f"at://{some_did(rng)}/app.bsky.feed.post/{key}"
    return {"cid": str(cid_of(rng.randbytes(8))), "uri": uri}


def some_did(rng: random.Random) -> str:
    return "did:plc:" + "".join(rng.choices(BASE32, k=24))


_word_rng = random.Random(0)
WORDS = [
    "".join(_word_rng.choices("etaoinshrdlucmé", k=_word_rng.randrange(2, 9))) for _ in range(4000)
]


# The contest.


def our_block(car: bytes, options: ExtractOptions) -> bytes:
    job = PackJob(car, options.memory_limit, PDS, CRAWLED_AT_US)
    (packed,) = repoblock.pack([job], options, LEVEL)
    assert isinstance(packed, Packed)
    return packed.block


@dataclass(frozen=True)
class Contest:
    car: bytes
    records: int
    seconds: dict[str, float]  # Median CPU time per repository, by contestant.

    def rate(self, name: str) -> float:
        return self.records / self.seconds[name] / 1000

    def ratio(self, slower: str, faster: str) -> float:
        return self.seconds[slower] / self.seconds[faster]


def contents_of(block: bytes) -> tuple[object, ...]:
    """What a block holds: the peer may have another version of zstd, whose bytes differ."""
    head = rca.check_block(block)
    runs = [(one.name, one.records, rca.decompress(block, one)) for one in head.collections]
    return head.did, head.pds, head.rev, runs


def contest(car: bytes, rounds: int, keep_cids: bool) -> Contest:
    compressor = zstandard.ZstdCompressor(level=LEVEL)
    unverified = ExtractOptions(verify_hashes=False, keep_cids=keep_cids)
    verified = ExtractOptions(verify_hashes=True, keep_cids=keep_cids)
    content = repoblock.extract(car, unverified)
    runs = [bytes(collection.data) for collection in content.collections]

    def peer(verify: bool) -> bytes:
        return peer_block(car, compressor, verify=verify, keep_cids=keep_cids)

    if contents_of(peer(verify=True)) != contents_of(our_block(car, verified)):
        raise SystemExit("the peer's block differs from ours: the contest would not be fair")
    contestants: dict[str, Callable[[], object]] = {
        "ours": lambda: our_block(car, unverified),
        "peer": lambda: peer(verify=False),
        "ours hashed": lambda: our_block(car, verified),
        "peer hashed": lambda: peer(verify=True),
        "zstd alone": lambda: [compressor.compress(run) for run in runs],
    }
    repeats = max(1, RECORDS_PER_ROUND // content.records)
    times: dict[str, list[float]] = {name: [] for name in contestants}
    for _ in range(rounds):
        for name, run in contestants.items():
            start = time.process_time()
            for _ in range(repeats):
                run()
            times[name].append((time.process_time() - start) / repeats)
    return Contest(car, content.records, {name: median(taken) for name, taken in times.items()})


def report(what: str, done: Contest) -> None:
    print(
        f"{what:<16} {done.records:7d} |"
        f" {done.rate('ours'):7.0f} {done.rate('peer'):6.0f} {done.ratio('peer', 'ours'):5.1f}x |"
        f" {done.rate('ours hashed'):7.0f} {done.rate('peer hashed'):6.0f}"
        f" {done.ratio('peer hashed', 'ours hashed'):5.1f}x |"
        f" {done.rate('zstd alone'):7.0f} {done.ratio('zstd alone', 'ours'):6.2f}"
        f" {done.ratio('zstd alone', 'ours hashed'):6.2f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--sizes", default="10,100,1000,10000")
    arguments = parser.parse_args()
    print(f"backend {repoblock.backend()}, zstd level {LEVEL}, median of {arguments.rounds} rounds")
    print("Thousands of records per CPU second; share is zstd's own part of our time.")
    print(f"{'':24} |     unverified        |    hashes verified    |   zstd  share  share")
    print(f"{'repository':<16} records |{'    ours   peer        |' * 2}  alone        hashed")
    for size in map(int, arguments.sizes.split(",")):
        car = made_repo(size)
        for keep_cids in (False, True):
            what = "made, cids kept" if keep_cids else "made"
            report(what, contest(car, arguments.rounds, keep_cids))
    for path in sorted(FIXTURES.glob("rs_little.car")):
        report(path.stem, contest(path.read_bytes(), arguments.rounds, keep_cids=False))


if __name__ == "__main__":
    main()
