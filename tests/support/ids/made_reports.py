"""Carnage reports made by hand, whole unless a test breaks them."""

from __future__ import annotations

from typing import Any

MEMBER = 4_611_686_018_400_000_000  # A double would round this away.
CHARACTER = 2_305_843_009_200_000_000
KINGS_FALL = 1374392663


def value(number: float) -> dict[str, Any]:
    return {"basic": {"value": float(number), "displayValue": f"{number:g}"}}


def entry(member: int = 1, character: int = 0, **given: Any) -> dict[str, Any]:
    """One line of a report; `given` are its values, the rest are those of a quiet hour."""
    usual = {
        "activityDurationSeconds": 3600,
        "startSeconds": 0,
        "timePlayedSeconds": 3600,
        "completed": 1,
        "completionReason": 0,
        "playerCount": 1,
        "teamScore": 0,
        "kills": 10,
        "deaths": 0,
        "assists": 2,
        "score": 5,
    }
    extended = {"precisionKills": 3, "weaponKillsSuper": 2, "weaponKillsGrenade": 1}
    return {
        "player": {
            "destinyUserInfo": {
                "membershipType": 3,
                "membershipId": str(MEMBER + member),
                "displayName": f"someone-{member}",
                "bungieGlobalDisplayName": f"Someone {member}",
                "bungieGlobalDisplayNameCode": member,
                "iconPath": "/icon.jpg",
            },
            "classHash": 671679327,
            "emblemHash": 0,
            "lightLevel": 1800,
        },
        "characterId": str(CHARACTER + member * 3 + character),
        "values": {name: value(number) for name, number in (usual | given).items()},
        "extended": {
            "weapons": [weapon(77, 8, 2)],
            "values": {name: value(number) for name, number in extended.items()},
        },
    }


def weapon(name: int, kills: int, precise: int) -> dict[str, Any]:
    counted = {"uniqueWeaponKills": kills, "uniqueWeaponPrecisionKills": precise}
    return {"referenceId": name, "values": {key: value(n) for key, n in counted.items()}}


def report(
    *entries: dict[str, Any],
    instance: int = 12_345_678_901,
    activity: int = KINGS_FALL,
    period: str = "2024-04-27T18:58:46Z",
    mode: int = 4,
    **given: Any,
) -> dict[str, Any]:
    """A report of these entries, which agree on how many they are."""
    listed = list(entries or (entry(),))
    for one in listed:
        one["values"]["playerCount"] = value(len(listed))
    return {
        "period": period,
        "startingPhaseIndex": 0,
        "activityWasStartedFromBeginning": True,
        "activityDetails": {
            "referenceId": 1,  # Never the one to go by.
            "directorActivityHash": activity,
            "instanceId": str(instance),
            "mode": mode,
            "modes": [7, mode],
            "membershipType": 3,
        },
        "entries": listed,
        "teams": [],
    } | given


def flat(whole: Any) -> Any:
    """As data sets made from reports have it: numbers without their wrapping."""
    if isinstance(whole, dict):
        if "basic" in whole:
            return whole["basic"]["value"]
        return {key: flat(part) for key, part in whole.items()}
    return [flat(part) for part in whole] if isinstance(whole, list) else whole


def wrapped(inner: dict[str, Any]) -> dict[str, Any]:
    return {"Response": inner, "ErrorCode": 1, "ThrottleSeconds": 0, "ErrorStatus": "Success"}
