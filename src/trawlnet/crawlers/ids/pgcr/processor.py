"""Turns a carnage report into an instance: players, times, result. Pure functions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from trawlnet.crawlers.ids.pgcr.eras import is_flawless, is_fresh, require_beginning
from trawlnet.crawlers.ids.pgcr.fields import (
    hash32,
    id64,
    instant,
    mapping,
    optional_flag,
    optional_hash,
    optional_whole,
    sequence,
    stat,
    text,
    whole,
)
from trawlnet.malformed import Malformed
from trawlnet.tables.instances.instance import Character, Instance, Player, Weapon, to_message

__all__ = ["Malformed", "is_raid", "process", "store_message"]

_RAID_MODE = 4
_LONGEST_SECONDS = 366 * 86_400  # Reports of runs that were left open for days are real.
_CODE_DIGITS = 4

Entry = Mapping[str, Any]


def is_raid(raw: Mapping[str, Any]) -> bool:
    """By the mode: lists of hashes are outdated on the first day of a new raid."""
    details = mapping(_report(raw).get("activityDetails"), "activityDetails")
    return whole(details.get("mode"), "mode") == _RAID_MODE


def store_message(raw: Mapping[str, Any]) -> dict[str, Any]:
    """A message of the queue `instance_store`."""
    return {"instance": to_message(process(raw)), "pgcr": raw}


def process(raw: Mapping[str, Any]) -> Instance:
    """Process a report, with or without its envelope. Raises Malformed: the API sometimes returns
    incomplete reports, most of which are complete when requested again."""
    report = _report(raw)
    details = mapping(report.get("activityDetails"), "activityDetails")
    entries = [mapping(entry, "an entry") for entry in sequence(report.get("entries"), "entries")]
    started = instant(report.get("period"), "period")
    phase = optional_whole(report.get("startingPhaseIndex"), "startingPhaseIndex")
    flag = optional_flag(
        report.get("activityWasStartedFromBeginning"), "activityWasStartedFromBeginning"
    )
    _require_whole(entries)
    require_beginning(started, phase, flag)

    run = _PlayedRun(
        started, _duration(entries), stat(_values(entries[0]), "completionReason") == 0
    )
    players = tuple(_player(of_one, run) for of_one in _by_membership(entries))
    activity = hash32(details.get("directorActivityHash"), "directorActivityHash")
    completed = any(player.completed for player in players)
    deathless = not any(stat(_values(entry), "deaths") for entry in entries)
    fresh = is_fresh(started, activity, phase, flag, deathless)
    return Instance(
        instance_id=id64(details.get("instanceId"), "instanceId"),
        hash=activity,
        completed=completed,
        fresh=fresh,
        flawless=is_flawless(completed, deathless, fresh),
        player_count=len(players),
        date_started=started,
        date_completed=started + timedelta(seconds=run.duration),
        duration_seconds=run.duration,
        score=stat(_values(entries[0]), "teamScore"),
        platform=whole(details.get("membershipType"), "membershipType"),
        difficulty_tier=optional_whole(report.get("activityDifficultyTier"), "difficulty tier"),
        skull_hashes=_skulls(report),
        players=players,
    )


@dataclass(frozen=True, slots=True)
class _PlayedRun:
    started: datetime
    duration: int  # Seconds.
    finished: bool  # The run was completed; a player may still have left before.


def _report(raw: Mapping[str, Any]) -> Mapping[str, Any]:
    return mapping(raw["Response"], "Response") if "Response" in raw else raw


def _require_whole(entries: Sequence[Entry]) -> None:
    """Check every entry: an incomplete report would give wrong figures for all its players."""
    if not entries:
        raise Malformed("no player is listed")
    count = stat(_values(entries[0]), "playerCount")
    if count != len(entries):
        raise Malformed(f"playerCount is {count}, but {len(entries)} are listed")
    for number, entry in enumerate(entries):
        if entry.get("extended") is None:
            raise Malformed(f"entry {number} has no extended values")
        _membership(entry)
    if not any(stat(_values(entry), "activityDurationSeconds") > 0 for entry in entries):
        raise Malformed("no player has played for any time")


def _duration(entries: Sequence[Entry]) -> int:
    """From the first entry that has one."""
    durations = (stat(_values(entry), "activityDurationSeconds") for entry in entries)
    duration = next(seconds for seconds in durations if seconds > 0)
    if duration > _LONGEST_SECONDS:
        raise Malformed(f"activityDurationSeconds is {duration}")
    return duration


def _by_membership(entries: Iterable[Entry]) -> Iterable[Sequence[Entry]]:
    """The entries of each player, who may have changed characters."""
    grouped: dict[int, list[Entry]] = {}
    for entry in entries:
        grouped.setdefault(_membership(entry), []).append(entry)
    return grouped.values()


def _membership(entry: Entry) -> int:
    return id64(_user(entry).get("membershipId"), "membershipId")


def _player(entries: Sequence[Entry], run: _PlayedRun) -> Player:
    user = _user(entries[0])
    name, code = text(user.get("bungieGlobalDisplayName")), user.get("bungieGlobalDisplayNameCode")
    first_left = sum(_stay(entries[0]))
    characters = tuple(_character(of_one, run.duration) for of_one in _by_character(entries))
    return Player(
        membership_id=_membership(entries[0]),
        membership_type=whole(user.get("membershipType", 0), "membershipType"),
        display_name=text(user.get("displayName")),
        global_name=name,
        global_code=_code(code) if name else None,
        icon_path=text(user.get("iconPath")),
        completed=run.finished and any(character.completed for character in characters),
        time_played_seconds=time_played(map(_stay, entries), run.duration),
        # Limited to the end of the run, which counters may exceed.
        last_seen=run.started + timedelta(seconds=max(0, min(first_left, run.duration))),
        characters=characters,
    )


def _code(code: Any) -> str | None:
    return None if code is None else str(whole(code, "display name code")).zfill(_CODE_DIGITS)


def time_played(stays: Iterable[tuple[int, int]], duration: int) -> int:
    """How much of [0, duration) these stays cover; each is its start and its length. Two
    characters of one player overlap where the game changed over slowly."""
    covered = until = 0
    for start, length in sorted(stays):
        begin, end = max(start, until), min(start + length, duration)
        if end > begin:
            covered += end - begin
            until = end
    return covered


def _stay(entry: Entry) -> tuple[int, int]:
    values = _values(entry)
    return stat(values, "startSeconds"), stat(values, "timePlayedSeconds")


def _by_character(entries: Iterable[Entry]) -> Iterable[Sequence[Entry]]:
    """The entries of each character: one that left and returned is listed twice."""
    grouped: dict[int, list[Entry]] = {}
    for entry in entries:
        grouped.setdefault(id64(entry.get("characterId"), "characterId"), []).append(entry)
    return grouped.values()


def _character(entries: Sequence[Entry], duration: int) -> Character:
    who = mapping(entries[0].get("player"), "player")
    usual, extended = [_values(e) for e in entries], [_extended(e).get("values") for e in entries]
    return Character(
        character_id=id64(entries[0].get("characterId"), "characterId"),
        class_hash=optional_hash(who.get("classHash"), "classHash"),
        emblem_hash=optional_hash(who.get("emblemHash"), "emblemHash"),
        light_level=whole(who.get("lightLevel", 0), "lightLevel"),
        completed=any(stat(values, "completed") == 1 for values in usual),
        score=_total(usual, "score"),
        kills=_total(usual, "kills"),
        deaths=_total(usual, "deaths"),
        assists=_total(usual, "assists"),
        precision_kills=_total(extended, "precisionKills"),
        super_kills=_total(extended, "weaponKillsSuper"),
        grenade_kills=_total(extended, "weaponKillsGrenade"),
        melee_kills=_total(extended, "weaponKillsMelee"),
        start_seconds=min(stat(values, "startSeconds") for values in usual),
        time_played_seconds=time_played(map(_stay, entries), duration),
        weapons=_weapons(entries),
    )


def _total(values: Iterable[Any], name: str) -> int:
    return sum(stat(one, name) for one in values if one is not None)


def _weapons(entries: Iterable[Entry]) -> tuple[Weapon, ...]:
    tally: dict[int, tuple[int, int]] = {}
    for entry in entries:
        for weapon in sequence(_extended(entry).get("weapons"), "weapons"):
            used = mapping(weapon, "a weapon")
            name, values = hash32(used.get("referenceId"), "referenceId"), used.get("values", {})
            kills, precise = tally.get(name, (0, 0))
            kills += stat(values, "uniqueWeaponKills")
            precise += stat(values, "uniqueWeaponPrecisionKills")
            tally[name] = kills, precise
    return tuple(Weapon(name, *counts) for name, counts in tally.items())


def _skulls(report: Mapping[str, Any]) -> tuple[int, ...]:
    """Each once, in their order; zero is a slot that stayed empty."""
    hashes = sequence(report.get("selectedSkullHashes"), "selectedSkullHashes")
    return tuple(dict.fromkeys(hash32(one, "a skull hash") for one in hashes if one != 0))


def _values(entry: Entry) -> Any:
    return entry.get("values", {})


def _extended(entry: Entry) -> Mapping[str, Any]:
    return mapping(entry.get("extended"), "extended")


def _user(entry: Entry) -> Mapping[str, Any]:
    return mapping(mapping(entry.get("player"), "player").get("destinyUserInfo"), "destinyUserInfo")
