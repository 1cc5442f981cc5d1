"""What a byte of a repository can cost at most: records drawn at random, against ordinary ones.

    .venv/bin/python bench/repo_cost.py [--draws 60] [--seed 1]

Each draw is a repository of about a megabyte whose records repeat one odd habit, or mix several:
numbers that are hard to write, maps out of order, long keys with one prefix, nothing but escapes,
one block under many keys. CPU time from CAR to block, per byte of the CAR, the better of two runs.
Exit 1 if one of them costs more than BOUND times what an ordinary byte does.
"""

from __future__ import annotations

import argparse
import random
import struct
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[1] / "src"), str(Path(__file__).parents[1])]

from tests.support.repos.made_repos import DID, SOME_CID, make_car, make_record
from trawlnet.atproto.dagcbor import link
from trawlnet.crawlers.repos.config import ReposConfig
from trawlnet.crawlers.repos.visiting.packing import (
    CarReading,
    PackRefused,
    RepoBlock,
    RepoOwner,
    most_room,
    pack_options,
    read_car,
)

BOUND = 40.0  # Times the cost of an ordinary byte; subnormal doubles once cost 400 times as much.
CAR = 1 << 20  # Bytes, about.
RECORD = 60_000  # Bytes of the longest record, about.
WHOSE = RepoOwner(DID, "https://pds.example", "", 0)
PACKING = pack_options(ReposConfig(verify="hashes"))  # type: ignore[arg-type]

Draw = Callable[[random.Random], bytes]


def head(major: int, count: int) -> bytes:
    return bytes((major << 5 | 26,)) + count.to_bytes(4, "big")


def text(raw: bytes) -> bytes:
    return head(3, len(raw)) + raw


def double(bits: int) -> bytes:
    return b"\xfb" + struct.pack(">Q", bits)


def shuffled_map(rng: random.Random) -> bytes:
    width, count = rng.choice((1, 4, 8, 30, 300)), rng.choice((2, 12, 13, 200, 5000))
    keys = [b"%0*x" % (width, number) for number in range(count)]
    rng.shuffle(keys)
    return head(5, count) + b"".join(text(key) + b"\x01" for key in keys)


def strong_reference(rng: random.Random) -> bytes:
    size = rng.choice((0, 10, 3000))
    return b"\xa3\x63cid" + text(b"c" * size) + b"\x61v\x01\x63uri" + text(b"u")


LEAVES: dict[str, Draw] = {
    "subnormal": lambda rng: double(rng.getrandbits(52)),
    "double": lambda rng: double(rng.getrandbits(62)),
    "power of two": lambda rng: double(rng.randrange(1, 2046) << 52),
    "half": lambda rng: b"\xf9" + rng.randrange(0x7C00).to_bytes(2, "big"),
    "long integer": lambda rng: b"\x3b" + rng.getrandbits(63).to_bytes(8, "big"),
    "short integer": lambda rng: b"\x00",
    "empty map": lambda rng: b"\xa0",
    "escapes": lambda rng: text(bytes(rng.choices(range(32), k=rng.randrange(1, 3000)))),
    "quotes": lambda rng: text(b'"x' * rng.randrange(1, 1500)),
    "sea": lambda rng: text("é海🌊a".encode() * rng.randrange(1, 300)),
    "bytes": lambda rng: head(2, 300) + rng.randbytes(300),
    "link": lambda rng: link(SOME_CID.raw),
    "shuffled map": shuffled_map,
    "strong reference": strong_reference,
    "deep": lambda rng: b"\x81" * 28 + b"\x01",
}


def record(rng: random.Random, kinds: list[str], size: int) -> bytes:
    items: list[bytes] = []
    length = 0
    while length < size:
        items.append(LEAVES[rng.choice(kinds)](rng))
        length += len(items[-1])
    return b"\xa1\x61v" + head(4, len(items)) + b"".join(items)


def path(rng: random.Random, prefix: int, number: int) -> str:
    return f"org.example.odd/{'p' * prefix}{number:07d}{rng.randrange(10)}"


def drawn(rng: random.Random) -> tuple[str, bytes]:
    kinds = rng.sample(sorted(LEAVES), rng.choice((1, 1, 1, 2, 4)))
    size, times = rng.choice((20, 300, 5000, RECORD)), rng.choice((1, 1, 3, 40))
    prefix = rng.choice((0, 0, 480))
    records: dict[str, bytes] = {}
    length = 0
    while length < CAR:
        data = record(rng, kinds, size)
        for _ in range(times):
            records[path(rng, prefix, len(records))] = data
        length += len(data) + times * (60 + prefix // 8)
    name = f"{' + '.join(kinds)}; records of {size}, each {times} times, prefix {prefix}"
    return name, make_car(records)


def cost(car: bytes) -> tuple[float, str]:
    """Nanoseconds for each byte, and what came of it."""
    taken = []
    for _ in range(2):
        begun = time.process_time()
        made = read_car(CarReading(car, WHOSE, PACKING, most_room(car, PACKING)))
        taken.append(time.process_time() - begun)
    match made:
        case RepoBlock(records=records):
            fate = f"{records} records"
        case PackRefused(reason=reason):
            fate = str(reason)
        case _:
            fate = "doubted"
    return min(taken) / len(car) * 1e9, fate


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    rng = random.Random(args.seed)
    ordinary, _ = cost(
        make_car({f"app.bsky.feed.post/3k{n:011d}": make_record(rng) for n in range(3000)})
    )
    print(f"an ordinary repository: {ordinary:.1f} ns for each byte")
    found = []
    for _ in range(args.draws):
        name, car = drawn(rng)
        found.append((cost(car), len(car), name))
    found.sort(reverse=True)
    for (nanoseconds, fate), size, name in found[:10]:
        print(
            f"{nanoseconds / ordinary:5.1f} times: {nanoseconds:6.1f} ns, "
            f"CAR of {size / 1e6:.1f} MB, {fate}: {name}"
        )
    worst = found[0][0][0] / ordinary
    print(f"worst of {args.draws}: {worst:.1f} times an ordinary byte (bound: {BOUND:g})")
    return int(worst > BOUND)


if __name__ == "__main__":
    sys.exit(main())
