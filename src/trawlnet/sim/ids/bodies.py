"""Bodies of a simulated id API: carnage reports, error envelopes, proxy pages, plain items."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

_CLASSES = (("Titan", 1000000001), ("Hunter", 1000000002), ("Warlock", 1000000003))
_RAIDS = tuple(2_000_000_000 + n * 7919 for n in range(12))
_OTHERS = tuple(3_000_000_000 + n * 104_729 for n in range(40))
_RAID_MODE = 4
_OTHER_MODES = (2, 3, 5, 6, 46, 82)
_FIRST_MEMBER = 4_611_686_018_400_000_000  # Beyond what a double can hold exactly.
_FIRST_CHARACTER = 2_305_843_009_200_000_000
_PLAYERS = 50_000  # So that the same people turn up again.
_GAVE_UP = 255


@dataclass(frozen=True, slots=True)
class SimReport:
    """What a carnage report is about; everything else in it is drawn from the seed."""

    seed: int
    instance: int
    ended: float  # Unix seconds.
    raid: bool


def pgcr(report: SimReport, *, miscounted: bool = False) -> bytes:
    """A report in its envelope; a miscounted one names more players than it lists."""
    rng = random.Random(report.seed << 64 | report.instance)
    duration = rng.randint(900, 7200) if report.raid else rng.randint(120, 1500)
    people = rng.randint(1, 6) if report.raid else rng.choice((1, 1, 1, 2))
    completed = rng.random() < 0.7
    activity = rng.choice(_RAIDS if report.raid else _OTHERS)
    mode = _RAID_MODE if report.raid else rng.choice(_OTHER_MODES)
    members = rng.sample(range(_PLAYERS), people)
    if report.raid and people > 1 and rng.random() < 0.2:
        members.append(members[0])  # Somebody changed the character half-way.
    shared = _Shared(duration, completed, len(members) + miscounted, rng.randint(0, 9))
    starts = datetime.fromtimestamp(int(report.ended) - duration, UTC)
    response = {
        "period": starts.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "startingPhaseIndex": 0,
        "activityWasStartedFromBeginning": rng.random() < 0.6,
        "activityDetails": {
            "referenceId": activity,
            "directorActivityHash": activity,
            "instanceId": str(report.instance),
            "mode": mode,
            "modes": [7, mode],
            "isPrivate": False,
            "membershipType": rng.randint(1, 3),
        },
        "entries": [_entry(rng, member, shared) for member in members],
        "teams": [],
    }
    return _dump({"Response": response, **_envelope(1, "Success", "Ok")})


@dataclass(frozen=True, slots=True)
class _Shared:
    duration: int
    completed: bool
    players: int
    team_score: int


def _entry(rng: random.Random, member: int, shared: _Shared) -> dict[str, Any]:
    name, class_hash = _CLASSES[rng.randrange(3)]
    kills, deaths, assists = rng.randint(0, 400), rng.randint(0, 12), rng.randint(0, 90)
    joined = rng.choice((0, 0, 0, shared.duration // 3))
    platform = 1 + member % 3
    return {
        "standing": 0,
        "score": _value(0),
        "player": {
            "destinyUserInfo": {
                "iconPath": "",
                "crossSaveOverride": 0,
                "applicableMembershipTypes": [platform],
                "isPublic": True,
                "membershipType": platform,
                "membershipId": str(_FIRST_MEMBER + member),
                "displayName": f"guardian-{member}",
                "bungieGlobalDisplayName": f"guardian-{member}",
                "bungieGlobalDisplayNameCode": member % 10_000,
            },
            "characterClass": name,
            "classHash": class_hash,
            "raceHash": 1000000011,
            "genderHash": 1000000021,
            "characterLevel": 50,
            "lightLevel": 1500 + member % 500,
            "emblemHash": 0,
        },
        "characterId": str(_FIRST_CHARACTER + member * 3 + class_hash % 3),
        "values": {
            "assists": _value(assists),
            "completed": _value(int(shared.completed), "Yes" if shared.completed else "No"),
            "deaths": _value(deaths),
            "kills": _value(kills),
            "opponentsDefeated": _value(kills + assists),
            "efficiency": _value((kills + assists) / max(1, deaths)),
            "killsDeathsRatio": _value(kills / max(1, deaths)),
            "killsDeathsAssists": _value((kills + assists / 2) / max(1, deaths)),
            "score": _value(0),
            "activityDurationSeconds": _value(shared.duration),
            "completionReason": _value(0 if shared.completed else _GAVE_UP),
            "fireteamId": _value(rng.randrange(1 << 60)),
            "startSeconds": _value(joined),
            "timePlayedSeconds": _value(shared.duration - joined),
            "playerCount": _value(shared.players),
            "teamScore": _value(shared.team_score),
        },
        "extended": {
            "weapons": [_weapon(rng)],
            "values": {
                "precisionKills": _value(kills // 3),
                "weaponKillsGrenade": _value(kills // 9),
                "weaponKillsMelee": _value(kills // 11),
                "weaponKillsSuper": _value(kills // 7),
                "weaponKillsAbility": _value(0),
            },
        },
    }


def _weapon(rng: random.Random) -> dict[str, Any]:
    kills = rng.randint(1, 200)
    exact = rng.randint(0, kills)
    return {
        "referenceId": rng.randint(1, 0xFFFFFFFF),
        "values": {
            "uniqueWeaponKills": _value(kills),
            "uniqueWeaponPrecisionKills": _value(exact),
            "uniqueWeaponKillsPrecisionKills": _value(exact / kills, f"{100 * exact // kills}%"),
        },
    }


def _value(number: float, shown: str | None = None) -> dict[str, Any]:
    return {"basic": {"value": float(number), "displayValue": shown or f"{number:g}"}}


def error(code: int, name: str, *, throttle_seconds: int = 0) -> bytes:
    """An envelope without a response."""
    message = f"simulated: {name}"
    return _dump(_envelope(code, name, message, throttle_seconds))


def _envelope(code: int, name: str, message: str, throttle_seconds: int = 0) -> dict[str, Any]:
    return {
        "ErrorCode": code,
        "ThrottleSeconds": throttle_seconds,
        "ErrorStatus": name,
        "Message": message,
        "MessageData": {},
    }


def proxy_page(status: int) -> bytes:
    """What a proxy in front of the API says when it has had enough."""
    return (
        f"<!DOCTYPE html>\n<html>\n<head><title>{status} | Attention required</title></head>\n"
        "<body><h1>One more step</h1><p>This request was stopped by the proxy.</p></body>\n"
        "</html>\n"
    ).encode()


def item(instance: int, ended: float, seed: int) -> bytes:
    """One item of a plain JSON API."""
    rng = random.Random(seed << 64 | instance)
    row = {
        "by": f"user{rng.randrange(5000)}",
        "id": instance,
        "parent": instance - rng.randint(1, 500),
        "text": " ".join(rng.choices(("one", "two", "three", "four", "five"), k=30)),
        "time": int(ended),
        "type": rng.choice(("story", "comment", "comment", "comment")),
    }
    return _dump(row)


def _dump(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
