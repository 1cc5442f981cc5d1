"""Lanes are not equally large: which buckets should change hands, so that all shards end together.

A draw shares out the buckets without regard to what is in them. A crawl that knows before it begins
is shared out by that. Others find out under way, from what waits on each lane; and to move a bucket
then takes its old and its new owner some seconds, so that it is done when it saves more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Final

from trawlnet.engine.partition import Moves, owner_of, owners

WORTH: Final = 10.0  # Seconds that moves must save; a hand-over takes about half as long.
_EVEN: Final = 0.02  # Of a shard's part: closer than that is not worth another bucket.

Loads = Mapping[int, int]  # Bucket -> tasks that wait in it.


def moves_worth_it(loads: Loads, shards: int, moved: Moves, rate: float) -> Moves | None:
    """All moves that should stand from now on, or None to leave everything where it is; `rate` is
    how many tasks a second one shard gets done."""
    wanted = balanced(loads, shards, moved)
    saved = _most(loads, shards, moved) - _most(loads, shards, wanted)
    return wanted if rate > 0.0 and saved / rate > WORTH else None


def balanced(loads: Loads, shards: int, moved: Moves) -> Moves:
    """From the shard with the most to the one with the least, the bucket that evens them out best,
    as long as that helps: a bucket with more in it than they differ by stays."""
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
