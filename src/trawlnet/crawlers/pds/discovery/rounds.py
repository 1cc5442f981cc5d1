"""Discovery on an interval of its own: of all that share a registry, one process is at it."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from dataclasses import dataclass

from trawlnet.crawlers.errors import NotReady
from trawlnet.crawlers.pds.discovery.cycle import DiscoverySources, discover
from trawlnet.crawlers.pds.discovery.finding import Finder
from trawlnet.engine.control import Control
from trawlnet.tables.errors import TablesError

log = logging.getLogger(__name__)

_AFTER_TROUBLE = 60.0  # Seconds until a round that could not begin is tried again.
_UNFINISHED = 120.0  # Seconds after which a round that nobody works on is begun again.
_FRESH = 10.0  # Seconds in which what another process has found is as good as our own round.
_LOOK_EVERY = 2.0  # Seconds, while another process is at it.


@dataclass(frozen=True, slots=True)
class _Told:
    """What the registry says of the last round: when it ended, or who is at it until when."""

    text: str | None = None
    at: float = 0.0
    by: str = ""

    @staticmethod
    def read(text: str | None) -> _Told:
        at, _, by = (text or "0").partition(" ")
        return _Told(text, float(at), by)

    def is_worked_on(self, now: float) -> bool:
        return bool(self.by) and now < self.at

    def is_fresh(self, now: float) -> bool:
        return self.text is not None and not self.by and now < self.at + _FRESH

    def due(self, interval: float) -> float:
        if self.text is None:
            return 0.0
        return self.at if self.by else self.at + interval


class Rounds:
    """Restarts do not shorten the interval, and a round whose process died is taken up soon."""

    def __init__(
        self, finder: Finder, sources: DiscoverySources, interval: float, discovered: asyncio.Event
    ) -> None:
        self._finder = finder
        self._sources = sources
        self._interval = interval
        self._discovered = discovered  # Set after each round.
        self._note = ""  # What we wrote last while at work.
        self._unread = ""  # Why a source of our last round was not read to its end.
        self._me = f"{socket.gethostname()}:{os.getpid()}:{id(self)}"

    async def run(self, control: Control) -> None:
        """Beside a crawl."""
        clock = self._finder.clock
        while True:
            try:
                told = await self._told()
                wait = told.due(self._interval) - clock.now()
                if wait > 0.0:
                    await clock.sleep(wait)  # And look again: others may have been at work.
                else:
                    await self._round(told)
            except (TablesError, NotReady) as error:
                log.warning("discovery failed", extra={"error": str(error)})
                await clock.sleep(_AFTER_TROUBLE)

    async def once(self) -> str:
        """Now; or, if another process is at it, when that has ended. Those that are started
        together do it once. Gives why a source was not read to its end, if we have asked it."""
        clock, is_done = self._finder.clock, not self._sources.any
        while not is_done:
            told = await self._told()
            if told.is_worked_on(clock.now()):
                log.warning("another process looks for PDSes; waiting", extra={"who": told.by})
                ended = await self._ended(told)
                is_done = ended.text is not None and not ended.by
            else:
                is_done = told.is_fresh(clock.now()) or await self._round(told)
        return self._unread

    async def _ended(self, told: _Told) -> _Told:
        """Wait until whoever is at it is no more."""
        clock = self._finder.clock
        while told.is_worked_on(clock.now()):
            await clock.sleep(_LOOK_EVERY)
            told = await self._told()
        return told

    async def _round(self, before: _Told) -> bool:
        """False if another process was faster."""
        if not await self._put(before.text, self._at_work()):
            return False
        working = asyncio.ensure_future(discover(self._finder, self._sources))
        beating = asyncio.ensure_future(self._beat())
        try:
            await asyncio.wait((working, beating), return_when=asyncio.FIRST_COMPLETED)
            if not working.done():
                beating.result()  # Raises what the registry did.
                log.warning("discovery taken over", extra={"sources": self._sources.name})
                return True
            tallies = working.result()
        except BaseException:
            # Nobody need wait until our time is over.
            await self._put(self._note, before.text or "0 nobody")
            raise
        finally:
            for task in (working, beating):
                task.cancel()
            await asyncio.gather(working, beating, return_exceptions=True)
        await self._put(self._note, f"{self._finder.clock.now()}")
        for source, tally in tallies.items():
            log.info("discovered", extra={"source": source, **tally.row()})
        self._unread = "; ".join(tally.error for tally in tallies.values() if tally.error)
        self._discovered.set()
        return True

    async def _beat(self) -> None:
        """Ends when another process has taken it over: we were frozen, or cut off."""
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

    async def _told(self) -> _Told:
        return _Told.read(await self._finder.registry.notes.get(self._sources.name))
