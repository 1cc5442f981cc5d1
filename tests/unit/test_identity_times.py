"""A change of an identity is published once, whoever tells of it, and no later one is hidden."""

from __future__ import annotations

from trawlnet.crawlers.repos.events.identity_times import Times, times_with
from trawlnet.sim.atproto.history import iso_time

NOW = 1_700_000_000.0


def told(*seconds: float, now: float = NOW) -> list[bool]:
    """Which of these messages, dated so many seconds ago, are published."""
    times: Times = ()
    found = []
    for ago in seconds:
        after = times_with(times, iso_time(int((NOW - ago) * 1000)), now)
        found.append(after is not None)
        times = times if after is None else after
    return found


def test_what_another_relay_tells_as_well_is_told_once() -> None:
    assert told(50, 40, 50, 30, 40, 30) == [True, True, False, True, False, False]


def test_a_server_whose_clock_is_behind_is_heard_after_a_move() -> None:
    assert told(10, 130) == [True, True]


def test_what_a_relay_tells_again_from_long_ago_is_not() -> None:
    assert told(10, 3600) == [True, False]


def test_what_is_remembered_has_a_bound_and_older_messages_are_not_told_again() -> None:
    changes = [float(ago) for ago in range(300, 0, -10)]
    assert told(*changes, *changes) == [True] * 30 + [False] * 30


def test_a_date_from_the_future_hides_nothing() -> None:
    assert told(-9e8, 10, -9e8, 9) == [True, True, True, True]


def test_what_has_no_date_is_told() -> None:
    assert times_with((NOW,), "", NOW) == (NOW,)
