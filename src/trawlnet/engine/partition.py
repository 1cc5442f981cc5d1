"""Who owns a lane when many processes share a crawl: lane to bucket, bucket to shard."""

from __future__ import annotations

from functools import lru_cache
from hashlib import blake2b, sha1

BUCKETS = 1024  # Fixed for good: it is written down with every cursor and every fence.


def bucket_of(lane: str) -> int:
    """Scripts in the store and queries on tables compute the same from the lane's SHA-1."""
    digest = sha1(lane.encode("utf-8", "surrogatepass"), usedforsecurity=False).digest()
    return int.from_bytes(digest[:2], "big") % BUCKETS


def owner_of(bucket: int, shards: int) -> int:
    """Rendezvous: every shard draws a number for the bucket, the highest has it. A further shard
    takes the buckets for which it draws the highest, and no other bucket moves."""
    return max(range(shards), key=lambda shard: _drawn(bucket, shard))


# Buckets that a shard has by another rule, with that shard; in order.
Moves = tuple[tuple[int, int], ...]


@lru_cache(maxsize=64)
def owners(shards: int, moved: Moves = ()) -> tuple[int, ...]:
    """The shard of every bucket. What was moved to a shard that is no more goes by the draw."""
    drawn = [owner_of(bucket, shards) for bucket in range(BUCKETS)]
    for bucket, shard in moved:
        if shard < shards:
            drawn[bucket] = shard
    return tuple(drawn)


@lru_cache(maxsize=256)
def share_of(shard: int, shards: int, moved: Moves = ()) -> frozenset[int]:
    """The buckets of one of so many shards."""
    if not 0 <= shard < shards:
        raise ValueError(f"shard {shard} of {shards}")
    return frozenset(n for n, owner in enumerate(owners(shards, moved)) if owner == shard)


@lru_cache(maxsize=1 << 18)
def _drawn(bucket: int, shard: int) -> bytes:
    return blake2b(f"{bucket} {shard}".encode(), digest_size=8).digest()
