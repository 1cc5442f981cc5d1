"""What holds for any report, and for anything that claims to be one."""

from __future__ import annotations

import copy
import json
import random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.ids.made_reports import entry, report
from trawlnet.crawlers.ids.pgcr.processor import (
    Malformed,
    is_raid,
    process,
    store_message,
    time_played,
)
from trawlnet.crawlers.ids.storing.messages import read_report
from trawlnet.storage.errors import SinkError
from trawlnet.tables.instances.instance import MAX_ID, Instance, from_message, to_message
from trawlnet.tables.instances.instances import original, storable

stays = st.lists(st.tuples(st.integers(-50, 120), st.integers(-20, 150)), max_size=8)
odd_text = st.text(max_size=5) | st.sampled_from(["\ud800", "\0", "2024-01-01T00:00:00", "12"])
scalars = st.none() | st.booleans() | st.integers() | st.floats() | odd_text
anything = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
)
people = st.lists(
    st.tuples(st.integers(1, 4), st.integers(0, 2), st.integers(0, 4000), st.integers(0, 4000)),
    min_size=1,
    max_size=9,
)


@given(stays, st.integers(0, 100))
def test_time_played_is_the_number_of_seconds_that_some_stay_covers(
    spans: list[tuple[int, int]], duration: int
) -> None:
    covered = {second for start, length in spans for second in range(start, start + length)}
    assert time_played(spans, duration) == len(covered & set(range(duration)))


def made(who: list[tuple[int, int, int, int]]) -> dict[str, Any]:
    return report(
        *(
            entry(member, character, startSeconds=start, timePlayedSeconds=played, kills=start % 7)
            for member, character, start, played in who
        )
    )


@given(people)
def test_players_are_the_memberships_and_nothing_is_counted_twice(
    who: list[tuple[int, int, int, int]],
) -> None:
    raw = made(who)
    instance = process(raw)
    assert instance.player_count == len({member for member, *_ in who})
    characters = [c for player in instance.players for c in player.characters]
    assert len(characters) == len({(member, character) for member, character, *_ in who})
    assert sum(c.kills for c in characters) == sum(start % 7 for _, _, start, _ in who)
    for player in instance.players:
        longest = max(c.time_played_seconds for c in player.characters)
        total = sum(c.time_played_seconds for c in player.characters)
        assert longest <= player.time_played_seconds <= min(total, instance.duration_seconds)


@given(people, st.randoms(use_true_random=False))
def test_the_order_of_the_entries_changes_no_figure(
    who: list[tuple[int, int, int, int]], dice: random.Random
) -> None:
    raw = made(who)
    shuffled = copy.deepcopy(raw)
    dice.shuffle(shuffled["entries"])

    def figures(instance: Instance) -> Any:
        return (
            instance.completed,
            instance.fresh,
            sorted((p.membership_id, p.time_played_seconds) for p in instance.players),
        )

    assert figures(process(raw)) == figures(process(shuffled))


@given(st.integers(1, MAX_ID), st.integers(1, MAX_ID))
def test_ids_are_exact_to_the_last_digit(instance: int, member: int) -> None:
    raw = report(instance=instance)
    raw["entries"][0]["player"]["destinyUserInfo"]["membershipId"] = str(member)
    message = json.loads(json.dumps(store_message(raw)))
    read = from_message(message["instance"])
    assert (read.instance_id, read.players[0].membership_id) == (instance, member)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The way to each part of a JSON value."""
    parts: Any = value.items() if isinstance(value, dict) else ()
    if isinstance(value, list):
        parts = enumerate(value)
    return [path, *(place for key, part in parts for place in places(part, (*path, key)))]


PLACES = [place for place in places(report(entry(1), entry(2))) if place]


def spoilt(whole: Any, place: tuple[Any, ...], rubbish: Any) -> Any:
    at = whole
    for key in place[:-1]:
        at = at[key]
    at[place[-1]] = rubbish
    return whole


@settings(max_examples=300)
@given(st.sampled_from(PLACES), anything)
def test_a_report_with_anything_anywhere_is_processed_or_refused(
    place: tuple[Any, ...], rubbish: Any
) -> None:
    raw = spoilt(report(entry(1), entry(2)), place, rubbish)
    try:
        is_raid(raw)
        instance = process(raw)
    except Malformed as error:
        assert str(error) and len(str(error)) < 200
    else:
        assert from_message(to_message(instance)) == instance


MESSAGE_PLACES = [place for place in places(store_message(report(entry(1), entry(2)))) if place]


@settings(max_examples=300)
@given(st.sampled_from(MESSAGE_PLACES), anything)
def test_a_message_with_anything_anywhere_is_read_or_refused(
    place: tuple[Any, ...], rubbish: Any
) -> None:
    whole = json.loads(json.dumps(store_message(report(entry(1), entry(2)))))
    try:
        read = read_report(spoilt(whole, place, rubbish))
    except Malformed as error:
        assert str(error)
    except SinkError:
        assert place[0] == "pgcr", "only what no queue can carry"
    else:
        assert read.instance is not None and read.number == read.instance.instance_id


@given(st.dictionaries(st.text(), anything, max_size=4))
def test_any_object_is_processed_or_refused(raw: dict[str, Any]) -> None:
    try:
        process(raw)
    except Malformed:
        return
    raise AssertionError("nothing that small is a report")


@given(st.text(st.characters() | st.sampled_from('"\0\ud800\\')))
def test_any_name_is_storable_and_comes_back(name: str) -> None:
    stored = storable(name)
    stored.encode()
    assert "\0" not in stored
    assert original(stored) == name
