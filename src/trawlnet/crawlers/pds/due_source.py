"""The registry as the source of a crawl: which PDSes are scanned next, and when."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from trawlnet.crawlers.errors import SourceUnread
from trawlnet.crawlers.pds.schedule import BatchPlan, RegistryStore
from trawlnet.engine.ports import Clock, Page, Source


class DueSource:
    """Lists a batch of due PDSes, then interrupted scans, until the next batch is due; or, with
    `once`, batch after batch until none is left."""

    def __init__(
        self,
        store: RegistryStore,
        clock: Clock,
        plan: BatchPlan,
        discovered: asyncio.Event,
        before: Callable[[], Awaitable[SourceUnread | None]],
    ) -> None:
        """`before` discovers PDSes, and returns which source was not read to its end."""
        self._store = store
        self._clock = clock
        self._plan = plan
        self._discovered = discovered  # Set when there may be new rows.
        self._before = before

    async def pages(self, after: str | None) -> AsyncIterator[Page]:
        plan = self._plan
        # Interrupted scans get the time between batches.
        fresh = plan.which if plan.once else replace(plan.which, begun=False)
        unread = await self._before()
        while True:
            begun = self._clock.now()
            self._discovered.clear()
            if tasks := await self._store.claim(plan.batch, fresh):
                # The engine pulls the next page after it has worked off this one.
                yield Page(tasks, "")
            elif plan.once:
                due = await self._store.next_begun(plan)
                if due > begun + plan.interval:
                    # All known PDSes are scanned, but that source may have more.
                    if unread:
                        raise unread
                    return
                await self._pause(due)
            if not plan.once:
                spare = len(tasks) < plan.batch
                async for page in self._going_on(begun + plan.interval, cut_short=spare):
                    yield page

    async def _going_on(self, until: float, *, cut_short: bool) -> AsyncIterator[Page]:
        """At most as many as workers at a time, so that the next batch waits for one slice at most.
        Ends early, if there was too little to do, as soon as something was discovered."""
        plan, which = self._plan, replace(self._plan.which, begun=True)
        is_over = False
        while not is_over:
            self._store.freed.clear()
            if tasks := await self._store.claim(plan.resumed, which):
                # At least once, even if batches take all the time.
                yield Page(tasks, "")
            else:
                due = await self._store.next_begun(plan)
                await self._pause(min(until, due), cut_short=cut_short)
            is_over = self._clock.now() >= until or (cut_short and self._discovered.is_set())

    async def _pause(self, until: float, *, cut_short: bool = False) -> None:
        events = [self._store.freed, *([self._discovered] if cut_short else [])]
        sleeping = asyncio.ensure_future(self._clock.sleep(until - self._clock.now()))
        waits = [sleeping, *(asyncio.ensure_future(event.wait()) for event in events)]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()


if TYPE_CHECKING:
    _SOURCE: type[Source] = DueSource
