"""One look at a crawl: read from what it leaves in the workspace, whether it runs or not."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from trawlnet.observe.dashboard.place import Place
from trawlnet.observe.history import Sample, last_sample
from trawlnet.observe.lane_table import LaneRow, LaneTable, read_table
from trawlnet.observe.live import HISTORY, LANES, LIVE
from trawlnet.observe.progress import Phase

STATUS = "status.json"
_FRESH = 15.0  # Seconds after which figures of a crawl that runs are called old.


class Standing(StrEnum):
    """How a crawl stands, to someone outside it."""

    RUNNING = "running"
    PAUSED = "paused"
    DRAINING = "draining"
    ENDED = "ended"
    CUT_SHORT = "cut short"  # Killed, or stopped at once; it goes on when it is run again.
    NEVER = "not begun"

    @property
    def at_work(self) -> bool:
        return self in (Standing.RUNNING, Standing.PAUSED, Standing.DRAINING)


@dataclass(frozen=True, slots=True)
class Look:
    crawler: str
    now: float
    standing: Standing
    pid: int | None
    as_of: float | None  # When the figures and the lanes were taken; None if there are none.
    counts: Mapping[str, Any]  # In the shape of `status`.
    live: Mapping[str, Any]  # The last snapshot of the crawl; empty if nobody ever watched.
    figures: Mapping[str, float]  # The latest of those that are in the history.
    lanes: Sequence[LaneRow]
    lanes_left_out: int

    @property
    def is_fresh(self) -> bool:
        return self.standing.at_work and self.as_of is not None and self.now - self.as_of < _FRESH


@dataclass(frozen=True, slots=True)
class Files:
    """What was read."""

    live: Mapping[str, Any]
    status: Mapping[str, Any]
    lanes: LaneTable
    last: Sample | None
    lanes_stamp: tuple[int, ...] = ()  # Of the file: it is large, and read when it has changed.


def read_files(state: Path, before: Files | None = None) -> Files:
    stamp = _stamp(state / LANES)
    same = before is not None and stamp == before.lanes_stamp
    return Files(
        read_object(state / LIVE),
        read_object(state / STATUS),
        before.lanes if before is not None and same else _read_lanes(state / LANES),
        last_sample(state / HISTORY),
        stamp,
    )


def _stamp(path: Path) -> tuple[int, ...]:
    try:
        stat = path.stat()
    except OSError:
        return ()
    return (stat.st_ino, stat.st_mtime_ns, stat.st_size)


def _read_lanes(path: Path) -> LaneTable:
    try:
        return read_table(path.read_bytes())
    except OSError:
        return LaneTable()


def look_at(place: Place, files: Files, stored: Mapping[str, Any] | None, now: float) -> Look:
    """`stored` is what the store says; only asked for while nobody works on it."""
    pid = place.holder()
    live, last = files.live, files.last
    begun = bool(files.status) or bool(live) or last is not None
    standing = _standing(place, pid, files) if begun or pid else Standing.NEVER
    at = live.get("at")
    lives = isinstance(at, int | float) and (last is None or at >= last.at - _FRESH)
    figures = live.get("figures", {}) if lives else (last.values if last else {})
    as_of = at if lives else (last.at if last else None)
    return Look(
        crawler=place.crawler,
        now=now,
        standing=standing,
        pid=pid,
        as_of=as_of,
        counts=(files.status if pid is not None else stored) or {},
        live=live,
        figures=figures,
        lanes=files.lanes.rows,
        lanes_left_out=files.lanes.left_out,
    )


def _standing(place: Place, pid: int | None, files: Files) -> Standing:
    said = files.live.get("state")
    if pid is None:
        # A crawl that was killed has left no last word, or an earlier one has.
        same = files.live.get("pid") == files.status.get("running")
        return Standing.ENDED if said == Phase.ENDED and same else Standing.CUT_SHORT
    if place.flag("stop"):
        return Standing.DRAINING
    if place.flag("pause"):
        return Standing.PAUSED
    if files.live.get("pid") == pid and said == Phase.DRAINING:
        return Standing.DRAINING
    return Standing.RUNNING


def read_object(path: Path) -> Mapping[str, Any]:
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
