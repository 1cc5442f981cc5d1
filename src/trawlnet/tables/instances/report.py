"""What the processed instances are like, in figures; only read, so that who stores goes on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

from trawlnet.tables.relational.database import named
from trawlnet.tables.relational.open import is_there, open_relational

_FOLDER = "instances"
_ACTIVITIES = 500
_HOURS = 24 * 366
# As the statement tells them.
_TOTALS = (
    "instances",
    "players",
    "completed",
    "fresh",
    "fresh_known",
    "flawless",
    "flawless_known",
)


@dataclass(frozen=True, slots=True)
class InstanceFigures:
    instances: int = 0
    players: int = 0  # Added up over instances.
    completed: int = 0
    fresh: int = 0
    fresh_known: int = 0  # Instances of which it is known whether they were.
    flawless: int = 0
    flawless_known: int = 0
    activities: Mapping[str, int] = field(default_factory=dict)
    hours: Mapping[int, int] = field(default_factory=dict)  # Since 1970, by when they ended.


async def instance_figures(where: Path | str) -> InstanceFigures | None:
    """None where nothing was ever stored."""
    if not is_there(where):
        return None
    db = await open_relational(where, readonly=True)
    try:
        async with db.transaction() as transaction:
            totals, activities, hours = (
                named(_FOLDER, f"report_{name}", db.dialect)
                for name in ("totals", "activities", "hours")
            )
            (sums,) = await transaction.rows(totals)
            by_activity = await transaction.rows(activities, {"most": _ACTIVITIES})
            by_hour = await transaction.rows(hours, {"most": _HOURS})
    finally:
        await db.close()
    return InstanceFigures(
        **dict(zip(_TOTALS, (int(figure or 0) for figure in sums), strict=True)),
        activities={str(row[0]): int(row[1]) for row in by_activity},
        hours={_hour(text): int(times) for text, times in by_hour},
    )


def _hour(text: str) -> int:
    """Of an hour as the databases write it, like 2024-05-01T12."""
    moment = datetime.fromisoformat(f"{text}:00").replace(tzinfo=UTC)
    return int(moment.timestamp()) // 3600
