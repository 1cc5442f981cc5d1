"""A processed activity instance, and how it is written into a message and read back."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any

import msgspec

from trawlnet.malformed import Malformed

MAX_ID = 2**63 - 1  # Ids are 64-bit and signed in every table.
MAX_HASH = 2**32 - 1
MAX_COUNT = 2**53  # Counts come as doubles: beyond this they are no longer exact.

Id = Annotated[int, msgspec.Meta(ge=1, le=MAX_ID)]
Hash = Annotated[int, msgspec.Meta(ge=0, le=MAX_HASH)]
Count = Annotated[int, msgspec.Meta(ge=-MAX_COUNT, le=MAX_COUNT)]
Instant = Annotated[datetime, msgspec.Meta(tz=True)]


@dataclass(frozen=True, slots=True)
class Weapon:
    hash: Hash
    kills: Count
    precision_kills: Count


@dataclass(frozen=True, slots=True)
class Character:
    character_id: Id
    class_hash: Hash | None
    emblem_hash: Hash | None
    light_level: Count
    completed: bool
    score: Count
    kills: Count
    deaths: Count
    assists: Count
    precision_kills: Count
    super_kills: Count
    grenade_kills: Count
    melee_kills: Count
    start_seconds: Count  # After the start of the activity.
    time_played_seconds: Count
    weapons: tuple[Weapon, ...]


@dataclass(frozen=True, slots=True)
class Player:
    """One membership, with everything that its characters did."""

    membership_id: Id
    membership_type: Count
    display_name: str
    global_name: str
    global_code: str | None  # Four digits or more; None without a global name.
    icon_path: str
    completed: bool
    time_played_seconds: Count
    last_seen: Instant
    characters: tuple[Character, ...]


@dataclass(frozen=True, slots=True)
class Instance:
    instance_id: Id
    hash: Hash
    completed: bool
    fresh: bool | None  # None: nobody can know.
    flawless: bool | None
    player_count: Count
    date_started: Instant
    date_completed: Instant
    duration_seconds: Count
    score: Count
    platform: Count
    difficulty_tier: Count | None
    skull_hashes: tuple[Hash, ...]
    players: tuple[Player, ...]


def to_message(instance: Instance) -> dict[str, Any]:
    """Plain JSON-like data; instants are ISO 8601 in UTC."""
    message: dict[str, Any] = msgspec.to_builtins(instance)
    return message


def from_message(message: Any) -> Instance:
    """Raises Malformed when a field is missing, of another kind, or out of its range."""
    try:
        return msgspec.convert(message, Instance)
    except (msgspec.ValidationError, UnicodeEncodeError) as error:
        raise Malformed(f"not a processed instance: {error}") from None
