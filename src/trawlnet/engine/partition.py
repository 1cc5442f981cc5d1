"""Maps lanes to shards when many processes share a crawl: lane to bucket, bucket to shard."""

from __future__ import annotations

from functools import lru_cache
from hashlib import blake2b, sha1

BUCKETS = 1024  # Must never change: every saved cursor and every fence depends on it.


def bucket_of(lane: str) -> int:
    """Scripts in the store and queries on tables compute the same from the lane's SHA-1."""
    digest = sha1(lane.encode("utf-8", "surrogatepass"), usedforsecurity=False).digest()
    return int.from_bytes(digest[:2], "big") % BUCKETS


def owner_of(bucket: int, shards: int) -> int:
    """Rendezvous hashing: each shard has a hash for the bucket, and the highest wins. An added
    shard takes the buckets for which its hash is the highest, and no other bucket moves."""
    return max(range(shards), key=lambda shard: _drawn(bucket, shard))


# Buckets that were moved to another shard, with that shard; in order.
Moves = tuple[tuple[int, int], ...]


@lru_cache(maxsize=64)
def owners(shards: int, moved: Moves = ()) -> tuple[int, ...]:
    """The shard of every bucket. A bucket that was moved to a removed shard is hashed again."""
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
