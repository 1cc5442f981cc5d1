"""A crawl of a workspace, running or not: reads the files that it writes, and steers it by control
files."""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trawlnet.engine.outcome import Reason
from trawlnet.engine.ports import Clock
from trawlnet.observe.dashboard.place import (
    Action,
    ActionOrder,
    CrawlCondition,
    CrawlerFacts,
    CrawlView,
    NotDone,
    Unreadable,
)
from trawlnet.observe.history import Sample, last_sample, read_history
from trawlnet.observe.lane_table import LaneTable, read_table
from trawlnet.observe.live import HISTORY, LANES, LIVE, WATCHED, give_order
from trawlnet.observe.progress import Phase

log = logging.getLogger(__name__)

STATUS = "status.json"
_LATELY = 15.0  # Seconds; figures older than the history by more belong to another run.
_COUNT_EVERY = 5.0
_OURS = "The dashboard asked for this, and removes the file when the crawl has ended.\n"


@dataclass(frozen=True, slots=True)
class WorkspaceSource:
    """Functions that read the state of one crawler in a workspace; all of them may be slow."""

    crawler: str
    workspace: Path
    folder: Callable[[], Path]  # The folder of the running process's figures.
    holder: Callable[[], int | None]  # The pid of the running crawl.
    flag: Callable[[str], Path | None]  # The control file for a word, if it exists.
    counts: Callable[[], Awaitable[Mapping[str, Any]]]  # From the store, in the shape of `status`.
    facts: Callable[[], Awaitable[CrawlerFacts]]
    retry: Callable[[Reason | None], Awaitable[int]]  # For a crawl that does not run.


class WorkspacePlace:
    def __init__(self, asked: WorkspaceSource, clock: Clock) -> None:
        self.crawler = asked.crawler
        self.can = frozenset(Action) - {Action.STOP}  # A drain stops it, too, and repeats no task.
        self._asked = asked
        self._clock = clock
        self._files: Files | None = None
        self._stored: Mapping[str, Any] = {}
        self._stored_until = 0.0

    async def look(self, now: float) -> CrawlView:
        if self._asked.holder() is not None:
            self._touch()
            self._stored_until = 0.0
        elif now >= self._stored_until:
            await self._count(now)
        self._files = await asyncio.to_thread(read_files, self._asked.folder(), self._files)
        return look_at(self._asked, self._files, self._stored, now)

    async def _count(self, now: float) -> None:
        try:
            self._stored = await self._asked.counts()
        except Unreadable as error:  # For example, a crawl has just opened the store.
            log.warning("store not read", extra={"crawler": self.crawler, "error": str(error)})
        # Slow figures are read less often: reading may take one twentieth of the time.
        took = self._clock.now() - now
        self._stored_until = self._clock.now() + max(_COUNT_EVERY, 20.0 * took)

    def _touch(self) -> None:
        try:
            (self._asked.folder() / WATCHED).touch()
        except OSError as error:
            log.warning("viewers not announced", extra={"error": str(error)})

    async def facts(self) -> CrawlerFacts:
        return await self._asked.facts()

    async def history(self, since: float, most: int) -> Sequence[Sample]:
        return await asyncio.to_thread(read_history, self._asked.folder() / HISTORY, since, most)

    async def obey(self, order: ActionOrder) -> str:
        asked, self._stored_until = self._asked, 0.0
        match order.action:
            case Action.PAUSE:
                _put(asked, "pause")
                return "Paused: tasks in flight finish, no new task starts."
            case Action.RESUME:
                _take_away(asked, "pause")
                return "Resumed."
            case Action.DRAIN:
                _put(asked, "stop")
                _take_away(asked, "pause")
                return "The crawl finishes the tasks in flight, saves, and exits."
            case Action.STOP:
                raise NotDone("Nothing was done: a crawl of a workspace can only be drained.")
            case Action.RETRY:
                return await self._retry(order.reason)

    async def _retry(self, reason: Reason | None) -> str:
        what = "what failed" if reason is None else f"what ended in {reason}"
        if self._asked.holder() is not None:
            give_order(self._asked.folder(), secrets.token_hex(8), reason)
            return f"The crawl tries {what} again."
        try:
            count = await self._asked.retry(reason)
        except Unreadable as error:
            raise NotDone(f"Nothing was reopened: {error}.") from error
        return f"{count:,} keys reopened; the next crawl tries them again."

    def sweep(self) -> None:
        """Remove the control file of a drained crawl that has ended, so that the next may begin."""
        if self._asked.holder() is None and _is_ours(self._asked, "stop"):
            _control_file(self._asked, "stop").unlink(missing_ok=True)


def _control_file(asked: WorkspaceSource, word: str) -> Path:
    return asked.workspace / f"{word}.{asked.crawler}"


def _put(asked: WorkspaceSource, word: str) -> None:
    _control_file(asked, word).write_text(_OURS, "utf-8")


def _take_away(asked: WorkspaceSource, word: str) -> None:
    """Remove every control file for the word; bounded, in case a program keeps creating them."""
    for _ in range(8):
        if (path := asked.flag(word)) is None:
            return
        path.unlink(missing_ok=True)


def _is_ours(asked: WorkspaceSource, word: str) -> bool:
    try:
        return _control_file(asked, word).read_text("utf-8") == _OURS
    except (OSError, ValueError):
        return False


@dataclass(frozen=True, slots=True)
class Files:
    """The data of the files."""

    live: Mapping[str, Any]  # The last snapshot of the crawl; empty if none was ever watched.
    status: Mapping[str, Any]
    lanes: LaneTable
    last: Sample | None
    lanes_stamp: tuple[int, ...] = ()  # The file is large, so it is read only when this changes.


def read_files(state: Path, before: Files | None = None) -> Files:
    stamp = _stamp(state / LANES)
    same = before is not None and stamp == before.lanes_stamp
    return Files(
        _read_object(state / LIVE),
        _read_object(state / STATUS),
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


def _read_object(path: Path) -> Mapping[str, Any]:
    try:
        found = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def look_at(
    asked: WorkspaceSource, files: Files, stored: Mapping[str, Any], now: float
) -> CrawlView:
    """`stored` are the counts of the store, which is read only while no crawl runs."""
    pid = asked.holder()
    live, last = files.live, files.last
    begun = bool(files.status) or bool(live) or last is not None
    standing = _standing(asked, pid, files) if begun or pid else CrawlCondition.NEVER
    at = live.get("at")
    lives = isinstance(at, int | float) and (last is None or at >= last.at - _LATELY)
    figures = live.get("figures", {}) if lives else (last.values if last else {})
    as_of = at if lives else (last.at if last else None)
    return CrawlView(
        crawler=asked.crawler,
        now=now,
        standing=standing,
        who=f"pid {pid}",
        as_of=as_of,
        counts=files.status if pid is not None else stored,
        figures=figures,
        lanes=files.lanes,
        yields=live.get("yields", {}),
        eta=live.get("eta_s"),
        actions=_possible(standing),
    )


def _standing(asked: WorkspaceSource, pid: int | None, files: Files) -> CrawlCondition:
    said = files.live.get("state")
    if pid is None:
        # A killed crawl has not written a final state, or an earlier one has.
        same = files.live.get("pid") == files.status.get("running")
        return CrawlCondition.ENDED if said == Phase.ENDED and same else CrawlCondition.CUT_SHORT
    if asked.flag("stop"):
        return CrawlCondition.DRAINING
    if asked.flag("pause"):
        return CrawlCondition.PAUSED
    if files.live.get("pid") == pid and said == Phase.DRAINING:
        return CrawlCondition.DRAINING
    return CrawlCondition.RUNNING


def _possible(standing: CrawlCondition) -> tuple[Action, ...]:
    match standing:
        case CrawlCondition.RUNNING:
            return (Action.PAUSE, Action.DRAIN)
        case CrawlCondition.PAUSED:
            return (Action.RESUME, Action.DRAIN)
        case _:
            return ()
