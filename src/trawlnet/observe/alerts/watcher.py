"""Checks a running crawl from time to time, and raises alerts."""

from __future__ import annotations

import math
import shutil
from collections import Counter, deque
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from trawlnet.engine.control import Control
from trawlnet.engine.crawl import Parts
from trawlnet.engine.figures import Figures
from trawlnet.engine.outcome import Reason
from trawlnet.observe.alerts.rules import CrawlState, Disk, alerts_between, judged
from trawlnet.observe.alerts.shapes import Alert
from trawlnet.observe.metrics.crawl import CrawlMetrics

LOOK_EVERY = 10.0
_SPAN = 300.0  # Seconds over which attempts are counted.
_LANES_PER_SECOND = 5_000


class Watcher:
    """Works with every crawler: it uses only what all of them have."""

    def __init__(
        self,
        metrics: CrawlMetrics,
        parts: Parts[Any],
        control: Control,
        tell: Callable[[Alert], None],
    ) -> None:
        self._crawler = metrics.crawler
        self._folder = metrics.folder
        self._parts = parts
        self._control = control
        self._tell = tell
        self._moved_at = parts.clock.now()
        self._past: deque[tuple[float, Mapping[Reason, int]]] = deque([(self._moved_at, {})])
        self._tally: Mapping[Reason, int] = {}
        self._lanes = 0
        self._last = CrawlState(self._crawler, self._moved_at)

    async def run(self) -> None:
        while True:
            # A check costs time for each lane, so it runs less often if there are many.
            await self._parts.clock.sleep(max(LOOK_EVERY, self._lanes / _LANES_PER_SECOND))
            await self.look()

    async def look(self) -> None:
        now = judged(await self._take(), self._last.troubles)
        for alert in alerts_between(self._last, now):
            self._tell(alert)
        self._last = now

    async def _take(self) -> CrawlState:
        parts, control = self._parts, self._control
        counts, now = await parts.store.counts(), parts.clock.now()
        running = not control.paused and control.ending is None
        tally = dict(control.figures.tally)
        if tally != self._tally or not running:
            self._tally, self._moved_at = tally, now
        words = _words(control.figures)
        self._past.append((now, words))
        while len(self._past) > 1 and self._past[1][0] <= now - _SPAN:
            self._past.popleft()
        states = parts.gate.states()
        self._lanes = len(states)
        return CrawlState(
            self._crawler,
            now,
            running,
            tries=dict(Counter(words) - Counter(self._past[0][1])),
            idle=now - self._moved_at,
            workable=counts.open - counts.blocked,
            parked=sum(now < state.parked < math.inf for state in states),
            blocked=frozenset(state.lane for state in states if state.parked == math.inf),
            blocked_tasks=counts.blocked,
            disk=_disk(self._folder),
        )


def _words(figures: Figures) -> Mapping[Reason, int]:
    """The counts that show whether most of a crawl fails: attempts, or settled keys if tasks have
    many steps. The steps of one large server would hide a hundred dead ones, and those of one
    failing server would look like all of them."""
    return dict(figures.settled if figures.steps else figures.tally)


def _disk(folder: Path | None) -> Disk | None:
    if folder is None:
        return None
    try:
        usage = shutil.disk_usage(folder)
    except OSError:
        return None
    return Disk(usage.free, usage.total)
