"""Figures of a running crawl for dashboards: written beside the state while one watches.

A dashboard touches the file `watched` every few seconds; otherwise the crawl pays one `stat` a
second. Commands for the crawl are files in the folder `orders`, which it carries out in turn.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import shutil
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

import orjson

from trawlnet.engine.durable import make_directory
from trawlnet.engine.gate import Gate
from trawlnet.engine.outcome import Reason
from trawlnet.engine.ports import Clock
from trawlnet.observe.history import History
from trawlnet.observe.lane_table import MOST_LANES, LaneWriter
from trawlnet.observe.progress import Snapshot
from trawlnet.observe.terminal.render import as_object

log = logging.getLogger(__name__)

LIVE, LANES, WATCHED = "live.json", "lanes.json", "watched"
ORDERS, HISTORY = "orders", "history"
WATCH_SECONDS = 10.0  # Seconds after a touch for which a dashboard counts as watching.
_LOOK_EVERY = 1.0
_SAMPLE_EVERY = 10.0
_LANES_PER_SECOND = 1500  # More lanes are written less often.
# The terminal shows these; a dashboard has the table of all lanes.
_OF_LANES = ("lanes", "held", "slow")

Take = Callable[[], Awaitable[Snapshot]]
Extras = Callable[[], Mapping[str, float]]
Retry = Callable[[Reason | None], Awaitable[int]]


class Live:
    def __init__(
        self,
        folder: Path,
        clock: Clock,
        take: Take,
        gate: Gate,
        retry: Retry,
        extras: Extras = dict,
    ) -> None:
        self._folder = folder
        self._clock = clock
        self._take = take
        self._gate = gate
        self._retry = retry
        self._extras = extras
        self._history = History(folder / HISTORY)
        self._sample_at = 0.0
        self._writer = LaneWriter()
        self._lanes_until = 0.0

    async def run(self) -> None:
        """Run while the crawl lasts. The sink reports errors of the disk."""
        while True:
            try:
                await self.look()
            except OSError as error:
                log.warning("dashboard not served", extra={"error": str(error)})
            await self._clock.sleep(_LOOK_EVERY)

    async def look(self, *, last: bool = False) -> None:
        now = self._clock.now()
        await self._obey()
        watched, sample = self._watched(now), now >= self._sample_at or last
        if not watched and not sample:
            return
        snap = await self._take()
        if sample:
            self._sample_at = now + _SAMPLE_EVERY
            self._history.add(now, self._figures(snap))
        if watched or last:
            files = {LIVE: self._row(snap, now)}
            if now >= self._lanes_until or last:
                files[LANES] = self._table(now)
            await asyncio.to_thread(_put, self._folder, files)

    def _figures(self, snap: Snapshot) -> dict[str, float]:
        figures: dict[str, float] = {
            "done": snap.done,
            "open": snap.open,
            "blocked": snap.blocked,
            "rate": round(snap.rate, 2),
            "attempts": snap.attempts,
            "errors": sum(snap.errors.values()),
            "in_flight": snap.in_flight,
            "workers": snap.workers,
            "memory": snap.memory,
            "disk_free": shutil.disk_usage(self._folder).free,
        }
        return figures | dict(snap.yields) | dict(self._extras())

    def _row(self, snap: Snapshot, now: float) -> bytes:
        row = {key: value for key, value in as_object(snap).items() if key not in _OF_LANES}
        row |= {"at": now, "pid": os.getpid(), "figures": self._figures(snap)}
        return orjson.dumps(row, option=orjson.OPT_NON_STR_KEYS)

    def _table(self, now: float) -> bytes:
        columns = self._gate.columns(MOST_LANES)
        self._lanes_until = now + len(columns.lane) / _LANES_PER_SECOND
        return self._writer.table(columns, self._gate.remembered, now)

    def _watched(self, now: float) -> bool:
        try:
            touched = (self._folder / WATCHED).stat().st_mtime
        except OSError:
            return False
        return now - touched < WATCH_SECONDS

    async def _obey(self) -> None:
        folder = self._folder / ORDERS
        if not folder.is_dir():
            return
        for path in sorted(folder.glob("*.json")):
            order = _order(path)
            path.unlink(missing_ok=True)
            if order is None:
                log.warning("unknown order", extra={"file": path.name})
            else:
                reopened = await self._retry(order.reason)
                log.info("retried", extra={"reason": order.reason or "any", "keys": reopened})


class RetryOrder:
    """Reopen the failures of one reason, or all."""

    __slots__ = ("reason",)

    def __init__(self, reason: Reason | None) -> None:
        self.reason = reason


def give_order(folder: Path, name: str, reason: Reason | None) -> None:
    """Write an order for the crawl of this state folder, which obeys within about a second."""
    orders = folder / ORDERS
    make_directory(orders)
    text = json.dumps({"order": "retry", "reason": reason})
    fresh = orders / f"{name}.tmp"
    fresh.write_text(text, "utf-8")
    fresh.replace(orders / f"{name}.json")


def _order(path: Path) -> RetryOrder | None:
    try:
        fields = json.loads(path.read_bytes())
        reason = fields["reason"]
        if fields["order"] != "retry":
            return None
        return RetryOrder(None if reason is None else Reason(reason))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _put(folder: Path, files: Mapping[str, bytes]) -> None:
    for name, content in files.items():
        fresh = (folder / name).with_suffix(".tmp")
        fresh.write_bytes(content)
        fresh.replace(folder / name)
