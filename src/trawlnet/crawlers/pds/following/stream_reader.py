"""Reads firehoses for a crawl of PDSes: hints and the position behind them are saved together.

Nothing that a stream says is written into the tables of records. It says where to look, and the
look, which asks the account's own server, brings the evidence.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from trawlnet.crawlers.atproto.streams.host_cursor import HostCursor
from trawlnet.crawlers.atproto.streams.subscription import FUTURE, StreamReader
from trawlnet.crawlers.atproto.streams.upstream import Upstream
from trawlnet.crawlers.pds.following.hints import HintBatch, hints_in
from trawlnet.crawlers.pds.scanning.ending import TablesAway
from trawlnet.engine.control import Control
from trawlnet.engine.ports import Clock
from trawlnet.tables.registry.looks import RegistryLooks, SavedStream, StreamNews

log = logging.getLogger(__name__)

_AWAY = 2.0  # Seconds until a registry that is away is tried again.
_SAVE_EVERY = 5.0  # Seconds, while messages ask for nothing: reading them again does no harm.


@dataclass(slots=True)
class HintFigures:
    """Counted in this run."""

    commits: int = 0
    looks_asked: int = 0
    overflowed: int = 0
    gaps: int = 0
    refused: Counter[str] = field(default_factory=Counter)


class HintReader:
    def __init__(
        self, looks: RegistryLooks, is_wanted: Callable[[str], bool], clock: Clock
    ) -> None:
        self._looks = looks
        self._is_wanted = is_wanted
        self._clock = clock
        self._cursors: dict[str, HostCursor] = {}
        self._saved_at: dict[str, float] = {}
        self.figures = HintFigures()
        self.on_looks: Callable[[], None] = lambda: None  # Called when there are more to make.

    async def open(self) -> None:
        for one in await self._looks.streams():
            cursor = HostCursor(one.seq, one.time, one.looks_back, one.saved_at)
            self._cursors[one.host] = cursor

    async def save_positions(self, before: float = math.inf) -> None:
        """Those that were not worth a transaction so far, if they were saved last before then."""
        for host, cursor in list(self._cursors.items()):
            saved_at = self._saved_at.get(host, cursor.at)
            if cursor.at > saved_at and saved_at <= before:
                await self._looks.save(_row(host, cursor), StreamNews(), cursor.at)
                self._saved_at[host] = self._clock.now()

    async def run(self, control: Control) -> None:
        """A companion of the crawl: positions are saved in quiet times, too."""
        while True:
            await self._clock.sleep(_SAVE_EVERY)
            with suppress(*TablesAway):
                await self.save_positions(self._clock.now() - _SAVE_EVERY)

    @property
    def cursors(self) -> dict[str, HostCursor]:
        return self._cursors

    def cursor(self, upstream: Upstream) -> HostCursor | None:
        return self._cursors.get(upstream.host)

    async def begin(self, upstream: Upstream) -> None:
        """What changed before, since the last scan, nobody has heard of."""
        await self._patiently(
            upstream,
            HostCursor(at=self._clock.now()),
            StreamNews(is_gap=True, home=_home(upstream)),
        )

    async def rewind(self, upstream: Upstream) -> None:
        await self.begin(upstream)

    async def check(
        self, upstream: Upstream, messages: Sequence[bytes | str], seen: int
    ) -> HintBatch:
        now = self._clock.now()
        return await asyncio.to_thread(hints_in, upstream, messages, now, self._is_wanted, seen)

    async def publish(self, batch: HintBatch) -> None:
        """The hints are durable before, or with, the position behind them."""
        upstream, notice = batch.upstream, batch.notice
        now, saved = self._clock.now(), self._cursors.get(upstream.host, HostCursor())
        cursor = HostCursor(
            max(saved.seq, batch.seq),
            batch.time or saved.time,
            saved.looks_back or batch.position.is_out_of_order,
            now,
        )
        news = StreamNews(
            batch.changed,
            batch.touched,
            batch.moved,
            _home(upstream),
            is_gap=notice.is_gap,
            # Its numbers began anew. Whatever was missed, scans find; it is joined where it is now.
            is_anew=notice.error is not None and notice.error.error == FUTURE,
        )
        self.figures.commits += batch.commits
        self.figures.refused += batch.refused
        if news.is_empty and now < self._saved_at.get(upstream.host, 0.0) + _SAVE_EVERY:
            self._cursors[upstream.host] = cursor
            return
        await self._patiently(upstream, cursor, news)

    async def _patiently(self, upstream: Upstream, cursor: HostCursor, news: StreamNews) -> None:
        host = upstream.host
        while True:
            try:
                asked = await self._looks.save(_row(host, cursor), news, self._clock.now())
            except TablesAway as away:
                log.warning("registry unreachable; waiting", extra={"error": str(away)})
                await self._clock.sleep(_AWAY)
                continue
            break
        if news.is_anew:
            self._cursors.pop(host, None)
        else:
            self._cursors[host] = cursor
        self._saved_at[host] = self._clock.now()
        self.figures.looks_asked += asked.looks
        self.figures.overflowed += asked.overflowed
        self.figures.gaps += news.is_gap or news.is_anew
        if asked.looks:
            self.on_looks()


def _home(upstream: Upstream) -> str:
    return upstream.url if upstream.is_pds else ""


def _row(host: str, cursor: HostCursor) -> SavedStream:
    return SavedStream(host, cursor.seq, cursor.time, cursor.looks_back, cursor.at)


if TYPE_CHECKING:
    _READER: type[StreamReader[HintBatch]] = HintReader
