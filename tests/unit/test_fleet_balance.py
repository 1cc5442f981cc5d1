"""Which buckets change hands: as few as will do, and only where it helps."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from trawlnet.engine.partition import BUCKETS, Moves, owner_of, owners, share_of
from trawlnet.fleet.balance import WORTH, balanced, moves_worth_it

loads = st.dictionaries(st.integers(0, BUCKETS - 1), st.integers(0, 5000), max_size=60)


def parts(given: dict[int, int], shards: int, moved: Moves) -> list[int]:
    found: Counter[int] = Counter()
    for bucket, load in given.items():
        found[owners(shards, moved)[bucket]] += load
    return sorted(found[shard] for shard in range(shards))


@given(loads, st.integers(1, 9))
def test_the_largest_part_is_never_larger_than_before(given, shards) -> None:
    moved = balanced(given, shards, ())
    assert parts(given, shards, moved)[-1] <= parts(given, shards, ())[-1]
    assert sum(parts(given, shards, moved)) == sum(given.values())
    assert balanced(given, shards, moved) == moved, "once even, it stays"


@given(loads, st.integers(1, 9))
def test_every_bucket_has_one_owner_wherever_it_was_moved(given, shards) -> None:
    moved = balanced(given, shards, ())
    shares = [share_of(shard, shards, moved) for shard in range(shards)]
    assert sorted(bucket for share in shares for bucket in share) == list(range(BUCKETS))


def test_many_buckets_of_some_size_are_shared_out_evenly() -> None:
    given = {bucket: 1000 // (1 + bucket) for bucket in range(300)}
    least, *_, most = parts(given, 4, balanced(given, 4, ()))
    assert most - least <= 0.02 * sum(given.values()) / 4


def test_what_is_in_one_bucket_stays_together() -> None:
    assert parts({7: 10_000, 8: 1}, 2, balanced({7: 10_000, 8: 1}, 2, ())) == [1, 10_000]


def test_nothing_moves_for_less_than_a_move_takes() -> None:
    own = sorted(share_of(0, 2))[:2]
    given = dict.fromkeys(own, 1000)
    assert moves_worth_it(given, 2, (), rate=1000 / WORTH * 1.1) is None
    moved = moves_worth_it(given, 2, (), rate=1000 / WORTH * 0.9)
    assert moved == ((own[0], 1),)
    assert moves_worth_it(given, 2, (), rate=0.0) is None, "nobody knows how fast they are"


def test_a_bucket_moved_to_a_shard_that_is_no_more_goes_by_the_draw() -> None:
    moved = ((5, 3), (6, 1))
    assert owners(4, moved)[5] == 3 and owners(4, moved)[6] == 1
    for shards in (2, 3):
        assert owners(shards, moved)[5] == owner_of(5, shards) and owners(shards, moved)[6] == 1
