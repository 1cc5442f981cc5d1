"""Balances a fleet: moves buckets between shards, so that all shards end together.

Hashing distributes the buckets without regard to their contents. A crawl that knows the contents
before it begins is distributed by them. Others learn them while they run, from the open tasks of
each lane; moving a bucket then takes its old and its new owner some seconds, so it must save more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final

from trawlnet.engine.partition import Moves, owner_of, owners

WORTH: Final = 10.0  # Seconds that moves must save; a hand-over takes about half as long.
_EVEN: Final = 0.02  # Share of a shard's load: a smaller difference is not worth a move.

Loads = Mapping[int, int]  # Bucket -> tasks that wait in it.


def moves_worth_it(loads: Loads, shards: int, moved: Moves, rate: float) -> Moves | None:
    """All moves for the plan, or None to change nothing; `rate` is the number of tasks that one
    shard does in a second."""
    wanted = balanced(loads, shards, moved)
    saved = _most(loads, shards, moved) - _most(loads, shards, wanted)
    return wanted if rate > 0.0 and saved / rate > WORTH else None


def balanced(loads: Loads, shards: int, moved: Moves) -> Moves:
    """Repeatedly move the best bucket from the shard with the most tasks to the one with the least,
    while that helps: a bucket with more tasks than their difference stays."""
    owner = list(owners(shards, moved))
    parts = _parts(loads, owner, shards)
    least_spread = _EVEN * sum(parts.values()) / shards
    while True:
        top, low = max(parts, key=parts.__getitem__), min(parts, key=parts.__getitem__)
        spread = parts[top] - parts[low]
        fits = [n for n, load in loads.items() if owner[n] == top and 0 < load < spread]
        if spread <= least_spread or not fits:
            break
        bucket = min(fits, key=lambda n: (abs(2 * loads[n] - spread), n))
        owner[bucket] = low
        parts[top] -= loads[bucket]
        parts[low] += loads[bucket]
    return tuple((n, shard) for n, shard in enumerate(owner) if shard != owner_of(n, shards))


def _most(loads: Loads, shards: int, moved: Moves) -> int:
    return max(_parts(loads, owners(shards, moved), shards).values())


def _parts(loads: Loads, owner: list[int] | tuple[int, ...], shards: int) -> Counter[int]:
    parts = Counter(dict.fromkeys(range(shards), 0))
    for bucket, load in loads.items():
        parts[owner[bucket]] += load
    return parts
