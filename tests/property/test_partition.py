"""Lanes are shared out: each has one owner, and a change of shards moves only what must move."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trawlnet.engine.partition import BUCKETS, bucket_of, owner_of, share_of


@given(st.text(), st.integers(1, 16))
@settings(deadline=None, max_examples=30)
def test_every_lane_has_one_owner(lane: str, count: int) -> None:
    bucket = bucket_of(lane)
    assert 0 <= bucket < BUCKETS
    owners = [shard for shard in range(count) if bucket in share_of(shard, count)]
    assert owners == [owner_of(bucket, count)]


@given(st.integers(1, 64))
@settings(deadline=None, max_examples=20)
def test_a_further_shard_takes_buckets_and_no_other_bucket_moves(count: int) -> None:
    for bucket in range(BUCKETS):
        before, after = owner_of(bucket, count), owner_of(bucket, count + 1)
        assert after in (before, count)


@pytest.mark.parametrize("count", [1, 2, 3, 4, 8, 16, 32])
def test_a_further_shard_takes_about_its_share(count: int) -> None:
    fair = BUCKETS / (count + 1)
    assert abs(len(share_of(count, count + 1)) - fair) < 4 * fair**0.5


def test_lanes_spread_evenly_over_the_buckets() -> None:
    filled = [0] * BUCKETS
    for number in range(100 * BUCKETS):
        filled[bucket_of(f"pds{number}.example")] += 1
    assert min(filled) > 50 and max(filled) < 160


def test_buckets_stay_where_they_were() -> None:
    """Fences and cursors of running crawls name buckets: what a lane's is must never change."""
    lanes = ("", "pds.example", "127.0.0.1:2583")
    # The first two bytes of what `sha1sum` says of each.
    assert [bucket_of(lane) for lane in lanes] == [n % 1024 for n in (0xDA39, 0x5505, 0x93A6)]
    assert [owner_of(bucket, 8) for bucket in range(12)] == [3, 3, 0, 7, 1, 1, 7, 3, 4, 1, 1, 1]


def test_there_is_no_such_shard() -> None:
    with pytest.raises(ValueError, match="shard 4 of 4"):
        share_of(4, 4)
