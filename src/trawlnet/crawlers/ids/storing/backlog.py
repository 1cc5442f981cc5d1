"""The backlog of storing: its figures, and its alerts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trawlnet.crawlers.ids.alerts import CRAWLER
from trawlnet.crawlers.ids.storing.workers import StoringCounts
from trawlnet.engine.ports import Clock
from trawlnet.observe.alerts.rules import OVER
from trawlnet.observe.alerts.sender import Alerts
from trawlnet.observe.alerts.shapes import Alert, Level
from trawlnet.observe.metrics.ids import StoreFigures
from trawlnet.queues.queue import Queue

STORE_BEHIND, PUT_ASIDE = "store behind", "messages put aside"
_LOOK_EVERY = 5.0
_BEHIND, _BEHIND_OVER = 600.0, 60.0  # Seconds.


@dataclass(slots=True)
class Backlog:
    """No message is older than the time at which the queue was last empty."""

    queue: Queue
    tally: StoringCounts
    alerts: Alerts
    clock: Clock
    path: Path  # The file of the figures, for `status`.
    depth: int = 0
    empty_at: float = field(default=0.0)
    _behind: bool = False
    _put_aside: int = 0

    def __post_init__(self) -> None:
        self.empty_at = read_backlog(self.path).get("empty_at", self.clock.now())

    async def watch(self) -> None:
        """Runs beside the storing."""
        while True:
            await self.look()
            await self.clock.sleep(_LOOK_EVERY)

    async def look(self) -> None:
        self.depth, now = await self.queue.depth(), self.clock.now()
        if self.depth == 0:
            self.empty_at = now
        for alert in self.judged(now):
            self.alerts.tell(alert)
        row = {"queue_depth": self.depth, "empty_at": self.empty_at, "at": now}
        fresh = self.path.with_name(self.path.name + ".tmp")
        fresh.write_text(json.dumps(row), "utf-8")
        fresh.replace(self.path)

    def judged(self, now: float) -> list[Alert]:
        alerts, behind = [], now - self.empty_at
        if behind >= _BEHIND and not self._behind:
            self._behind = True
            text = f"{self.depth:,} messages wait, for up to {behind / 60:.0f} minutes"
            alerts.append(Alert(CRAWLER, STORE_BEHIND, text, now, Level.WARNING))
        elif self._behind and behind < _BEHIND_OVER:
            self._behind = False
            alerts.append(Alert(CRAWLER, STORE_BEHIND + OVER, "the queue is empty again", now))
        if self.tally.put_aside > self._put_aside:
            self._put_aside = self.tally.put_aside
            text = f"{self._put_aside:,} messages could not be stored; they are in the poison queue"
            alerts.append(Alert(CRAWLER, PUT_ASIDE, text, now, Level.ERROR))
        return alerts

    def figures(self) -> StoreFigures:
        behind = max(0.0, self.clock.now() - self.empty_at)
        return StoreFigures(self.tally.stored, self.tally.put_aside, self.depth, behind)


def read_backlog(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_bytes())
    except (FileNotFoundError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def backlog_row(found: Mapping[str, Any], depth: int | None, now: float) -> dict[str, Any]:
    """The rows of `status`. `depth` is the measured depth of the queue, if it is known."""
    known = found.get("queue_depth") if depth is None else depth
    behind = None if "empty_at" not in found else max(0.0, now - found["empty_at"])
    return {
        "queue_depth": known,
        "seconds_behind": 0.0 if known == 0 else None if behind is None else round(behind, 1),
    }
