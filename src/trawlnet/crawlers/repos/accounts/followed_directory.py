"""The PLC directory while firehoses are followed: the mirror keeps up with it, and what it says
about accounts is known before their commits need it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from trawlnet.crawlers.atproto.mirror import PlcMirror
from trawlnet.crawlers.atproto.reader import Directory, MirrorCounts
from trawlnet.crawlers.errors import NotReady, Unanswered
from trawlnet.crawlers.repos.accounts.identity import RepoIdentity
from trawlnet.engine.control import Control
from trawlnet.engine.gate import LaneParked
from trawlnet.tables.clickhouse.plc_rows_plain import OperationRow
from trawlnet.tables.clickhouse.ports import Tables

log = logging.getLogger(__name__)

_LONGEST_WAIT = 60.0  # Seconds until a directory that did not answer is read again.

Learn = Callable[[Sequence[RepoIdentity]], Awaitable[None]]


@dataclass(slots=True)
class FollowedDirectory:
    """A companion of a crawl that has a mirror; without one, accounts are looked up one by one."""

    directory: Directory
    tables: Tables
    learn: Learn
    _counts: MirrorCounts = field(default_factory=MirrorCounts)  # Of the present connection.
    _trouble: str = ""

    async def run(self, control: Control) -> None:
        while True:
            try:
                await self._mirror()
            except NotReady as error:  # Asking again is no use: the tables mirror another one.
                self._trouble = str(error)
                log.warning("directory not followed", extra={"error": self._trouble})
                return
            except Unanswered as error:
                await self._pause(str(error), _LONGEST_WAIT)
            except LaneParked as parked:
                wait = min(parked.until - self.directory.clock.now(), _LONGEST_WAIT)
                await self._pause("requests to the directory are put off", max(0.0, wait))

    async def _mirror(self) -> None:
        """From where the tables are, and then on and on."""
        never = asyncio.Event()  # A crawl ends its companions itself; nothing is lost by that.
        mirror = PlcMirror(self.directory, self.tables, never, follow=True, on_news=self._tell)
        self._counts = mirror.tally

        def on_stored(counts: MirrorCounts) -> None:
            self._trouble = ""

        await mirror.run(on_stored)

    async def _tell(self, rows: Sequence[OperationRow]) -> None:
        await self.learn([RepoIdentity(row.did, row.pds, row.signing_key) for row in rows])

    async def _pause(self, why: str, seconds: float) -> None:
        if self._trouble != why:
            log.warning("directory not read", extra={"error": why, "again_in": round(seconds, 1)})
        self._trouble = why
        await self.directory.clock.sleep(seconds)

    def facts(self) -> Mapping[str, Any]:
        """For `status`."""
        return {
            "position": self._counts.position,
            "up_to_date": self._counts.caught_up and not self._trouble,
            "operations": self._counts.operations,
            "error": self._trouble,
        }
