"""Reports become instances: every shape that the game has handed out over the years."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.support.ids.made_reports import (
    CHARACTER,
    MEMBER,
    entry,
    flat,
    report,
    value,
    weapon,
    wrapped,
)
from trawlnet.crawlers.ids.pgcr import eras
from trawlnet.crawlers.ids.pgcr.processor import Malformed, is_raid, process, store_message
from trawlnet.tables.instances.instance import Instance, from_message

FIXTURES = Path(__file__).parents[3] / "shared" / "fixtures" / "pgcr"
SCOURGE, LEVIATHAN, LAST_WISH = 548750096, 2693136601, 2122313384


def at(moment: datetime) -> str:
    return moment.isoformat().replace("+00:00", "Z")


def test_a_whole_run_of_two_is_told_in_full() -> None:
    raw = report(
        entry(1, kills=40, assists=7, score=9, teamScore=120, startSeconds=5, timePlayedSeconds=90),
        entry(2),
        selectedSkullHashes=[5, 0, 9, 5],
        activityDifficultyTier=2,
    )
    made = process(wrapped(raw))
    assert made.instance_id == 12_345_678_901
    assert made.hash == 1374392663
    assert (made.completed, made.fresh, made.flawless) == (True, True, True)
    assert made.player_count == 2
    assert made.date_started == datetime(2024, 4, 27, 18, 58, 46, tzinfo=UTC)
    assert made.date_completed - made.date_started == timedelta(hours=1)
    assert (made.duration_seconds, made.score, made.platform) == (3600, 120, 3)
    assert (made.difficulty_tier, made.skull_hashes) == (2, (5, 9))
    first = made.players[0]
    assert (first.membership_id, first.membership_type) == (MEMBER + 1, 3)
    assert (first.display_name, first.global_name) == ("someone-1", "Someone 1")
    assert first.global_code == "0001"
    assert (first.completed, first.time_played_seconds) == (True, 90)
    assert first.last_seen == made.date_started + timedelta(seconds=95)
    character = first.characters[0]
    assert (character.character_id, character.class_hash) == (CHARACTER + 3, 671679327)
    assert character.emblem_hash is None
    assert (character.kills, character.deaths, character.assists) == (40, 0, 7)
    assert (character.precision_kills, character.super_kills) == (3, 2)
    assert (character.grenade_kills, character.melee_kills) == (1, 0)
    assert [(w.hash, w.kills, w.precision_kills) for w in character.weapons] == [(77, 8, 2)]


def test_what_the_queue_carries_is_read_back_as_it_was() -> None:
    raw = report(entry(1), entry(2))
    message = json.loads(json.dumps(store_message(raw)))
    assert message["pgcr"] == raw
    assert from_message(message["instance"]) == process(raw)


def test_raids_are_told_by_their_mode_and_not_by_their_hash() -> None:
    assert is_raid(report(activity=99))
    assert not is_raid(wrapped(report(mode=2)))


@pytest.mark.parametrize("people", [1, 2, 3, 6])
def test_small_teams_are_as_good_as_full_ones(people: int) -> None:
    made = process(report(*(entry(n) for n in range(1, people + 1))))
    assert (made.player_count, made.flawless) == (people, True)


def test_one_death_anywhere_ends_a_flawless_run() -> None:
    made = process(report(entry(1), entry(2, deaths=1)))
    assert (made.completed, made.flawless) == (True, False)


def test_a_run_that_was_given_up_is_completed_by_nobody() -> None:
    made = process(report(entry(1, completionReason=255), entry(2, completionReason=0)))
    assert (made.completed, made.fresh, made.flawless) == (False, True, False)
    assert [player.completed for player in made.players] == [False, False]


def test_who_left_before_the_end_has_not_completed_it() -> None:
    made = process(report(entry(1), entry(2, completed=0)))
    assert [player.completed for player in made.players] == [True, False]
    assert made.completed


def test_characters_of_one_membership_are_one_player() -> None:
    made = process(
        report(
            entry(1, 0, completed=0, startSeconds=0, timePlayedSeconds=1000),
            entry(2),
            entry(1, 1, completed=1, startSeconds=900, timePlayedSeconds=5000),
        )
    )
    assert made.player_count == 2
    one = made.players[0]
    assert [c.character_id - CHARACTER for c in one.characters] == [3, 4]
    assert one.completed
    assert one.time_played_seconds == 3600, "overlap counts once, and nothing after the end"
    assert one.last_seen == made.date_started + timedelta(seconds=1000)


def test_a_character_that_came_back_is_one_row_with_both_stays() -> None:
    away = entry(1, 0, kills=4, startSeconds=0, timePlayedSeconds=100, completed=0)
    back = entry(1, 0, kills=6, startSeconds=2000, timePlayedSeconds=300)
    back["extended"]["weapons"] = [weapon(77, 1, 1), weapon(78, 2, 0)]
    (one,) = process(report(away, back)).players
    (character,) = one.characters
    assert (character.kills, character.start_seconds, character.completed) == (10, 0, True)
    assert character.time_played_seconds == one.time_played_seconds == 400
    weapons = [(w.hash, w.kills, w.precision_kills) for w in character.weapons]
    assert weapons == [(77, 9, 3), (78, 2, 0)]


def test_a_long_run_of_the_silent_years_is_whole_but_its_beginning_unknown() -> None:
    people = [entry(n, activityDurationSeconds=77_731) for n in range(1, 11)]
    made = process(report(*people, period="2020-11-21T20:00:00Z"))
    assert (made.player_count, made.fresh, made.flawless) == (10, None, None)
    assert made.date_completed - made.date_started == timedelta(seconds=77_731)


@pytest.mark.parametrize(
    ("activity", "phase", "fresh"),
    [
        (LAST_WISH, 0, True),
        (LAST_WISH, 1, False),
        (LAST_WISH, 2, False),
        (SCOURGE, 0, True),
        (SCOURGE, 1, True),
        (SCOURGE, 2, False),
        (SCOURGE, 6, False),
        (2812525063, 1, True),
        (LEVIATHAN, 0, True),
        (LEVIATHAN, 1, False),
        (LEVIATHAN, 2, True),
        (4206123728, 2, True),
    ],
)
def test_early_reports_tell_the_beginning_by_a_phase(
    activity: int, phase: int, fresh: bool
) -> None:
    raw = report(activity=activity, period="2019-03-01T00:00:00Z", startingPhaseIndex=phase)
    del raw["activityWasStartedFromBeginning"]
    assert process(raw).fresh is fresh


@pytest.mark.parametrize(
    ("flag", "deaths", "fresh", "flawless"),
    [
        (True, 3, True, False),
        (True, 0, True, True),
        (False, 0, False, False),
        (False, 3, None, False),
    ],
)
def test_the_flag_is_trusted_in_part_in_its_first_months(
    flag: bool, deaths: int, fresh: bool | None, flawless: bool | None
) -> None:
    made = process(
        report(
            entry(deaths=deaths),
            period="2022-04-19T12:00:00Z",
            activityWasStartedFromBeginning=flag,
        )
    )
    assert (made.fresh, made.flawless) == (fresh, flawless)


# At each boundary, a run with deaths whose flag says no and whose phase says yes.
@pytest.mark.parametrize(
    ("moment", "before", "after"),
    [
        (eras.BEYOND_LIGHT, True, None),
        (eras.WITCH_QUEEN, None, None),
        (eras.HAUNTED, None, False),
    ],
)
def test_an_era_begins_at_its_very_instant(
    moment: datetime, before: bool | None, after: bool | None
) -> None:
    def fresh(period: datetime) -> bool | None:
        raw = report(entry(deaths=1), period=at(period), activityWasStartedFromBeginning=False)
        return process(raw).fresh

    assert fresh(moment - timedelta(microseconds=1)) is before
    assert fresh(moment) is after


def test_the_boundaries_are_the_resets_of_those_days() -> None:
    assert at(eras.BEYOND_LIGHT) == "2020-11-10T17:00:00Z"
    assert at(eras.WITCH_QUEEN) == "2022-02-22T17:00:00Z"
    assert at(eras.HAUNTED) == "2022-05-24T17:00:00Z"
    assert (len(eras.LEVIATHAN), len(eras.SCOURGE)) == (24, 2)


def test_a_phase_is_required_before_the_flag_came_and_the_flag_from_then_on() -> None:
    early, late = (
        at(eras.WITCH_QUEEN - timedelta(seconds=1)),
        at(eras.WITCH_QUEEN),
    )
    no_flag, no_phase = report(period=early), report(period=late)
    del no_flag["activityWasStartedFromBeginning"], no_phase["startingPhaseIndex"]
    assert process(no_flag).fresh is None
    assert process(no_phase).fresh is True
    no_flag["period"], no_phase["period"] = late, early
    with pytest.raises(Malformed, match="activityWasStartedFromBeginning is missing"):
        process(no_flag)
    with pytest.raises(Malformed, match="startingPhaseIndex is missing"):
        process(no_phase)


def test_a_data_set_without_wrapping_is_read_too() -> None:
    assert process(flat(report(entry(1), entry(2)))) == process(report(entry(1), entry(2)))
    assert not is_raid(flat(report(mode=2, instance=15_780_000_000)))


def broken(change: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
    raw = report(entry(1), entry(2), entry(3))
    change(raw)
    return raw


def user(raw: dict[str, Any], number: int) -> dict[str, Any]:
    found: dict[str, Any] = raw["entries"][number]["player"]["destinyUserInfo"]
    return found


MALFORMED: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    "miscounted": (lambda r: r["entries"].pop(), "playerCount is 3, but 2 are listed"),
    "nobody": (lambda r: r.update(entries=[]), "no player is listed"),
    "no entries": (lambda r: r.pop("entries"), "no player is listed"),
    "no time": (
        lambda r: [e["values"].pop("activityDurationSeconds") for e in r["entries"]],
        "no player has played",
    ),
    "a year too long": (
        lambda r: r["entries"][0]["values"].update(activityDurationSeconds=value(1e9)),
        "activityDurationSeconds is 1000000000",
    ),
    "last not extended": (lambda r: r["entries"][2].pop("extended"), "entry 2 has no extended"),
    "last nobody": (lambda r: user(r, 2).update(membershipId="0"), "membershipId is not a 64-bit"),
    "no membership": (lambda r: user(r, 1).pop("membershipId"), "membershipId .* missing"),
    "membership a double": (
        lambda r: user(r, 0).update(membershipId=4.6e18),
        "membershipId is not a 64-bit id",
    ),
    "membership too wide": (lambda r: user(r, 0).update(membershipId="9" * 19), "not a 64-bit id"),
    "membership signed": (lambda r: user(r, 0).update(membershipId="-5"), "not a 64-bit id"),
    "other digits": (lambda r: user(r, 0).update(membershipId="٣"), "not a 64-bit id"),
    "no period": (lambda r: r.pop("period"), "period is not an ISO 8601 time: missing"),
    "no zone": (
        lambda r: r.update(period="2024-01-01T00:00:00"),
        "a time at which this game existed",
    ),
    "far future": (
        lambda r: r.update(period="9999-12-31T23:59:59Z"),
        "a time at which this game existed",
    ),
    "odd flag": (lambda r: r.update(activityWasStartedFromBeginning="yes"), "true or false"),
    "no details": (lambda r: r.pop("activityDetails"), "activityDetails is missing"),
    "wide hash": (
        lambda r: r["activityDetails"].update(directorActivityHash=2**32),
        "directorActivityHash is not a 32-bit hash",
    ),
    "text for a number": (
        lambda r: r["entries"][1]["values"].update(kills={"basic": {"value": "many"}}),
        "kills is not a number",
    ),
    "beyond all counts": (
        lambda r: r["entries"][1]["values"].update(kills=value(1e300)),
        "kills is out of range",
    ),
    "entry is a list": (lambda r: r["entries"].__setitem__(0, []), "an entry is list"),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_a_report_that_is_not_whole_is_refused_with_its_reason(name: str) -> None:
    change, reason = MALFORMED[name]
    with pytest.raises(Malformed, match=reason):
        process(broken(change))


def test_an_empty_envelope_is_malformed() -> None:
    with pytest.raises(Malformed, match="Response is missing"):
        process({"Response": None, "ErrorCode": 1})
    with pytest.raises(Malformed):
        process({})


def test_the_first_entry_that_stayed_empty_does_not_shorten_the_run() -> None:
    empty = entry(1, activityDurationSeconds=0, timePlayedSeconds=0, completed=0)
    made = process(report(empty, entry(2)))
    assert made.duration_seconds == 3600
    assert [player.time_played_seconds for player in made.players] == [0, 3600]


def test_names_that_are_missing_odd_or_endless_stop_nobody() -> None:
    odd = entry(1)
    odd["player"]["destinyUserInfo"] |= {
        "displayName": "a\0b\ud800" + "x" * 10_000,
        "bungieGlobalDisplayName": None,
        "bungieGlobalDisplayNameCode": None,
    }
    plain = entry(2)
    plain["player"]["destinyUserInfo"]["bungieGlobalDisplayNameCode"] = 12345
    first, second = process(report(odd, plain)).players
    assert first.display_name.startswith("a\0b\ud800x") and len(first.display_name) == 256
    assert (first.global_name, first.global_code, second.global_code) == ("", None, "12345")


@pytest.mark.parametrize(
    ("name", "completed", "fresh", "flawless", "players"),
    [("duo_flawless_pgcr", True, True, True, 2), ("not_completed_pgcr", False, True, False, 6)],
)
def test_reports_that_the_game_has_handed_out(
    name: str, completed: bool, fresh: bool, flawless: bool, players: int
) -> None:
    file = FIXTURES / f"{name}.json"
    if not file.exists():
        pytest.skip(f"no shared fixtures: {file.name} is not there")
    raw = json.loads(file.read_bytes())
    made: Instance = process(raw)
    assert is_raid(raw)
    assert (made.completed, made.fresh, made.flawless) == (completed, fresh, flawless)
    assert made.player_count == players == len(made.players)
    told = {e["player"]["destinyUserInfo"]["membershipId"] for e in raw["Response"]["entries"]}
    assert {str(player.membership_id) for player in made.players} == told
