"""Processed instances as rows: each counts once, however often and in whatever order it comes."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from trawlnet.tables.instances.activities import known_hashes
from trawlnet.tables.instances.instance import Character, Instance, Player
from trawlnet.tables.relational.database import (
    Dialect,
    Relational,
    Statement,
    Transaction,
    Value,
    migrate_relational,
    named,
    to_db,
)
from trawlnet.tables.relational.open import open_relational

_FOLDER = "instances"
STEPS = (
    (
        "create_activity_hash",
        "create_instance",
        "create_instance_player",
        "create_instance_character",
        "create_instance_weapon",
        "create_player",
        "create_player_stats",
        "index_instance",
        "index_instance_player",
        "create_player_first_clear",
        "create_instance_sherpa",
    ),
)
_BEYOND = 100_000_000_000  # Ids of another counter, which some reports carry, begin here.

Row = dict[str, Value]


@dataclass(frozen=True, slots=True)
class StoredCounts:
    """What became of a batch."""

    new: int
    repeated: int  # Stored before, and left as they were.


@asynccontextmanager
async def opened_instances(where: Path | str) -> AsyncIterator[Relational]:
    """The tables of processed instances, in a file or on a PostgreSQL server."""
    db = await open_relational(where)
    try:
        await migrate_relational(db, _FOLDER, STEPS)
        async with db.transaction() as transaction:
            known = [one._asdict() for one in sorted(known_hashes())]
            await transaction.run_many(_statement("note_known_hash", db.dialect), known)
        yield db
    finally:
        await db.close()


async def store_instances(db: Relational, instances: Iterable[Instance]) -> StoredCounts:
    """All of them or none, durable on return. Two processes may store at once: rows are locked in
    one order, and of two that bring the same instance the second finds it there."""
    batch = list(instances)
    unique = sorted({one.instance_id: one for one in reversed(batch)}.items())
    async with db.transaction() as transaction:
        work = _InstanceWrite(transaction, db.dialect)
        await work.many(
            "note_seen_hash", ({"hash": h} for h in sorted({i.hash for _, i in unique}))
        )
        added = await work.new_ids([_instance_row(one, work) for _, one in unique])
        new = [one for number, one in unique if number in added]
        await _insert_parts(work, new)
    return StoredCounts(len(new), len(batch) - len(new))


async def latest_stored(db: Relational) -> int | None:
    """The highest instance id there."""
    statement = _statement("latest_instance", db.dialect)
    ((latest,),) = await db.rows(statement, {"beyond": _BEYOND})
    return None if latest is None else int(latest)


async def unknown_hashes(db: Relational, most: int) -> list[int]:
    """Activity hashes of instances that this program does not know."""
    rows = await db.rows(_statement("unknown_hashes", db.dialect), {"most": most})
    return [hash_ for (hash_,) in rows]


@dataclass(frozen=True, slots=True)
class _InstanceWrite:
    transaction: Transaction
    dialect: Dialect

    async def many(self, name: str, rows: Iterable[Row]) -> None:
        await self.transaction.run_many(_statement(name, self.dialect), list(rows))

    async def new_ids(self, rows: Sequence[Row]) -> set[int]:
        """Insert instances; returns which were not there before."""
        insert = _statement("insert_instance", self.dialect)
        if self.dialect == "postgresql":
            answers = await self.transaction.rows(insert, _document(rows))
        else:
            answers = [one for row in rows for one in await self.transaction.rows(insert, row)]
        return {number for (number,) in answers}

    async def parts(self, name: str, rows: Sequence[Row]) -> None:
        """Insert what belongs to new instances."""
        insert = _statement(name, self.dialect)
        if self.dialect == "postgresql":
            await self.transaction.run(insert, _document(rows))
        else:
            await self.transaction.run_many(insert, rows)

    def instant(self, moment: datetime | None) -> Value:
        return None if moment is None else to_db(self.dialect, moment.timestamp())


def _document(rows: Sequence[Row]) -> Row:
    """PostgreSQL gets all rows at once: a round trip for each would take most of the time."""
    return {"rows": json.dumps(rows, default=str)}


async def _insert_parts(work: _InstanceWrite, instances: Sequence[Instance]) -> None:
    took_part = [(one, player) for one in instances for player in one.players]
    await work.parts("insert_instance_player", [_taking_part(*pair) for pair in took_part])
    characters = [(*pair, character) for pair in took_part for character in pair[1].characters]
    await work.parts("insert_instance_character", [_character_row(*each) for each in characters])
    await work.parts("insert_instance_weapon", list(_weapon_rows(characters)))
    # In the order of their keys: two transactions that wait for each other would be none.
    took_part.sort(key=lambda pair: (pair[1].membership_id, pair[0].hash))
    await work.many("save_player", (_player_row(*pair, work) for pair in took_part))
    await work.many("add_player_stats", (_stats_row(*pair, work) for pair in took_part))


_INSTANCE_COLUMNS = (
    *("instance_id", "hash", "completed", "fresh", "flawless", "player_count"),
    *("duration_seconds", "score", "platform", "difficulty_tier"),
)


def _instance_row(instance: Instance, work: _InstanceWrite) -> Row:
    row: Row = {name: getattr(instance, name) for name in _INSTANCE_COLUMNS}
    return row | {
        "date_started": work.instant(instance.date_started),
        "date_completed": work.instant(instance.date_completed),
        "skull_hashes": json.dumps(instance.skull_hashes),
    }


def _taking_part(instance: Instance, player: Player) -> Row:
    return {
        "instance_id": instance.instance_id,
        "membership_id": player.membership_id,
        "completed": player.completed,
        "time_played_seconds": player.time_played_seconds,
    }


_CHARACTER_COLUMNS = (
    *("character_id", "class_hash", "emblem_hash", "light_level", "completed", "score", "kills"),
    *("deaths", "assists", "precision_kills", "super_kills", "grenade_kills", "melee_kills"),
    *("start_seconds", "time_played_seconds"),
)


def _character_row(instance: Instance, player: Player, character: Character) -> Row:
    row: Row = {name: getattr(character, name) for name in _CHARACTER_COLUMNS}
    return row | {"instance_id": instance.instance_id, "membership_id": player.membership_id}


def _weapon_rows(characters: Iterable[tuple[Instance, Player, Character]]) -> Iterator[Row]:
    for instance, player, character in characters:
        for weapon in character.weapons:
            yield {
                "instance_id": instance.instance_id,
                "membership_id": player.membership_id,
                "character_id": character.character_id,
                "weapon_hash": weapon.hash,
                "kills": weapon.kills,
                "precision_kills": weapon.precision_kills,
            }


def _player_row(instance: Instance, player: Player, work: _InstanceWrite) -> Row:
    return {
        "membership_id": player.membership_id,
        "membership_type": player.membership_type,
        "display_name": storable(player.display_name),
        "global_name": storable(player.global_name),
        "global_code": player.global_code,
        "icon_path": storable(player.icon_path),
        "last_seen": work.instant(player.last_seen),
        "instance_id": instance.instance_id,
    }


def _stats_row(instance: Instance, player: Player, work: _InstanceWrite) -> Row:
    cleared, fresh = player.completed, player.completed and instance.fresh is True
    return {
        "membership_id": player.membership_id,
        "hash": instance.hash,
        "clears": int(cleared),
        "fresh_clears": int(fresh),
        "time_played_seconds": player.time_played_seconds,
        "first_clear_at": work.instant(instance.date_completed if cleared else None),
        "first_clear_instance_id": instance.instance_id if cleared else None,
        "fastest_fresh_seconds": instance.duration_seconds if fresh else None,
        "fastest_fresh_instance_id": instance.instance_id if fresh else None,
    }


def storable(text: str) -> str:
    """PostgreSQL's text cannot hold U+0000, and no UTF-8 a lone surrogate: text with one of them is
    written as JSON, and so is what begins with a quote, to tell the two apart."""
    if text.startswith('"') or any(c == "\0" or "\ud800" <= c <= "\udfff" for c in text):
        return json.dumps(text)
    return text


def original(text: str) -> str:
    """The inverse of `storable`."""
    return str(json.loads(text)) if text.startswith('"') else text


def _statement(name: str, dialect: Dialect) -> Statement:
    return named(_FOLDER, name, dialect)
