"""Repeats discovery at an interval; of all processes that share a registry, one does it."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Sequence
from dataclasses import dataclass

from trawlnet.crawlers.errors import NotReady, PartlyRead, SourceUnread
from trawlnet.crawlers.pds.discovery.cycle import DiscoverySources, discover
from trawlnet.crawlers.pds.discovery.finding import DiscoveryCounts, Finder
from trawlnet.engine.control import Control
from trawlnet.tables.errors import TablesError

log = logging.getLogger(__name__)

_AFTER_TROUBLE = 60.0  # Seconds until a round that could not begin is tried again.
_UNFINISHED = 120.0  # Seconds after which the round of a dead process is begun again.
_FRESH = 10.0  # Seconds for which another process's round counts as our own.
_LOOK_EVERY = 2.0  # Seconds between two checks while another process runs a round.


@dataclass(frozen=True, slots=True)
class _LastRound:
    """The registry's note on the last round: when it ended, or who runs it and until when."""

    text: str | None = None
    at: float = 0.0
    by: str = ""

    @staticmethod
    def read(text: str | None) -> _LastRound:
        at, _, by = (text or "0").partition(" ")
        return _LastRound(text, float(at), by)

    def is_worked_on(self, now: float) -> bool:
        return bool(self.by) and now < self.at

    def is_fresh(self, now: float) -> bool:
        return self.text is not None and not self.by and now < self.at + _FRESH

    def due(self, interval: float) -> float:
        if self.text is None:
            return 0.0
        return self.at if self.by else self.at + interval


class Rounds:
    """Restarts do not shorten the interval; the round of a dead process is repeated soon."""

    def __init__(
        self, finder: Finder, sources: DiscoverySources, interval: float, discovered: asyncio.Event
    ) -> None:
        self._finder = finder
        self._sources = sources
        self._interval = interval
        self._discovered = discovered  # Set after each round.
        self._note = ""  # Our last note during a round.
        self._unread: SourceUnread | None = None  # What our last round has not read.
        self._me = f"{socket.gethostname()}:{os.getpid()}:{id(self)}"

    async def run(self, control: Control) -> None:
        """Run beside a crawl."""
        clock = self._finder.clock
        while True:
            try:
                last = await self._last_round()
                wait = last.due(self._interval) - clock.now()
                if wait > 0.0:
                    await clock.sleep(wait)  # Then check again: another process may have run it.
                else:
                    await self._round(last)
            except (TablesError, NotReady) as error:
                log.warning("discovery failed", extra={"error": str(error)})
                await clock.sleep(_AFTER_TROUBLE)

    async def once(self) -> SourceUnread | None:
        """Run a round now, or wait for the one that another process runs: processes that start
        together run one. Returns which source was not read to its end, if we read it."""
        clock, is_done = self._finder.clock, not self._sources.any
        while not is_done:
            last = await self._last_round()
            if last.is_worked_on(clock.now()):
                log.warning("another process discovers PDSes; waiting", extra={"who": last.by})
                ended = await self._ended(last)
                is_done = ended.text is not None and not ended.by
            else:
                is_done = last.is_fresh(clock.now()) or await self._round(last)
        return self._unread

    async def _ended(self, last: _LastRound) -> _LastRound:
        """Wait until no other process runs a round."""
        clock = self._finder.clock
        while last.is_worked_on(clock.now()):
            await clock.sleep(_LOOK_EVERY)
            last = await self._last_round()
        return last

    async def _round(self, before: _LastRound) -> bool:
        """Returns False if another process was faster."""
        if not await self._put(before.text, self._at_work()):
            return False
        working = asyncio.ensure_future(discover(self._finder, self._sources))
        beating = asyncio.ensure_future(self._beat())
        try:
            await asyncio.wait((working, beating), return_when=asyncio.FIRST_COMPLETED)
            if not working.done():
                beating.result()  # Raises the error of the registry.
                log.warning("discovery taken over", extra={"sources": self._sources.name})
                return True
            tallies = working.result()
        except BaseException:
            # Release the round, so that nobody waits for the end of its lease.
            await self._put(self._note, before.text or "0 nobody")
            raise
        finally:
            for task in (working, beating):
                task.cancel()
            await asyncio.gather(working, beating, return_exceptions=True)
        await self._put(self._note, f"{self._finder.clock.now()}")
        for source, tally in tallies.items():
            log.info("discovered", extra={"source": source, **tally.row()})
        self._unread = _unread(list(tallies.values()))
        self._discovered.set()
        return True

    async def _beat(self) -> None:
        """Ends when another process has taken over, because we were frozen or cut off."""
        is_ours = True
        while is_ours:
            await self._finder.clock.sleep(_UNFINISHED / 3)
            is_ours = await self._put(self._note, self._at_work())

    def _at_work(self) -> str:
        return f"{self._finder.clock.now() + _UNFINISHED} {self._me}"

    async def _put(self, before: str | None, note: str) -> bool:
        is_put = await self._finder.registry.notes.swap(self._sources.name, before, note)
        if is_put:
            self._note = note
        return is_put

    async def _last_round(self) -> _LastRound:
        return _LastRound.read(await self._finder.registry.notes.get(self._sources.name))


def _unread(tallies: Sequence[DiscoveryCounts]) -> SourceUnread | None:
    why = "; ".join(tally.error for tally in tallies if tally.error)
    if not why:
        return None
    kind = PartlyRead if any(tally.read for tally in tallies) else SourceUnread
    return kind(
        f"discovery did not finish reading a source: {why}",
        "check its address, then run the same command again",
    )
