"""A follower that is killed between any two of its durable steps, before a stream that has gone on
meanwhile and no longer tells what was missed."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from tests.random_worlds.follow_laws import consumed
from tests.random_worlds.follow_runs import Following, Kill, Plan
from tests.random_worlds.follow_world import Act, Firehose, FollowSpec, LivingWorld
from tests.random_worlds.test_follow import PLAIN, STEPS, written
from trawlnet.crawlers.repos.following.live_store import look_at_live

pytestmark = pytest.mark.slow
DOWN = 4000.0  # Seconds: longer than everything that happens.
SHORT = Firehose(window=12)
MOMENTS = [
    *STEPS,
    *(f"{step} done" for step in STEPS),
    "events half",
]
FIRST, COME, TWO, BOTH = 0.0, 24.0, 44.0, 64.0  # Seconds: what then happens is told below.


def passing() -> tuple[Act, ...]:
    """Accounts are heard of; records come, in one commit, in one of two of a batch, and in one that
    goes again at once; they go; and then so much happens that the stream forgets all that."""
    come = Act("post", 0, 20.0, 1), Act("post", 3, 0.0, 9)
    come += Act("post", 1, 20.0, 2), Act("write", 1, 0.0, 3)
    both = Act("post", 2, 20.0, 4), Act("unpost", 2, 0.0, 5), Act("write", 2, 0.0, 6)
    go = Act("unpost", 0, 20.0, 7), Act("unpost", 1, 0.0, 8), Act("unpost", 3, 0.0, 10)
    return (*written(0, 1, 2, 3), *come, *both, *go, *written(*(3,) * 40, pause=0.0))


def follow_to_the_end(folder: Path, *kills: Kill, config: Mapping[str, Any] = PLAIN) -> Following:
    world = LivingWorld(FollowSpec(9, 1, 4, passing(), SHORT))
    plan = Plan("follow", "relay", False, False, dict(config), kills)
    following = Following(world, folder, plan)
    following.judge()
    return following


@pytest.mark.parametrize(
    ("moment", "after"), [*product(MOMENTS, (FIRST, COME, TWO, BOTH)), ("deltas half", COME)]
)
def test_a_kill_between_two_steps_loses_nothing(moment: str, after: float, tmp_path: Path) -> None:
    following = follow_to_the_end(tmp_path, Kill(moment, 1, DOWN, after=after))
    assert consumed(following.place).odd == []
    assert following.world.run == 2, "it was killed"


@pytest.mark.parametrize("after", [COME, BOTH])
@pytest.mark.parametrize("moment", ["events", "events half", "events done", "blocks done"])
def test_nor_does_compacting_what_the_kill_has_left(
    moment: str, after: float, tmp_path: Path
) -> None:
    """The archive then no longer has what was published."""
    follow_to_the_end(tmp_path, Kill(moment, 1, DOWN, is_compacted=True, after=after))


@pytest.mark.parametrize("after", [COME, TWO, BOTH])
@pytest.mark.parametrize("moment", ["events", "events half", "events done", "deltas done"])
def test_nor_where_the_archive_does_not_tell_the_tree(
    moment: str, after: float, tmp_path: Path
) -> None:
    some = {**PLAIN, "collections": ("app.bsky.feed.*",)}
    following = follow_to_the_end(tmp_path, Kill(moment, 1, DOWN, after=after), config=some)
    assert consumed(following.place).odd == []
    look = look_at_live(following.place / "state" / "repos")
    assert look is not None and not look.figures.desynchronized, "nobody stays out of step"


@pytest.mark.parametrize("again", ["events", "events half", "events done", "states", "states done"])
def test_nor_a_second_kill_that_interrupts_the_repair(again: str, tmp_path: Path) -> None:
    kills = Kill("events half", 1, DOWN, after=COME), Kill(again, 1, 1.0), Kill(again, 2, 1.0)
    following = follow_to_the_end(tmp_path, *kills)
    assert consumed(following.place).odd == []
    assert following.world.run == 4
