"""Scraping: fetches every URL of the discovery spool again, and advances the bookmark."""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from trawlnet.crawlers.web.admission.policy import PER_DEPTH
from trawlnet.crawlers.web.unscraped import Unscraped, UnscrapedFile
from trawlnet.crawlers.web.work import PageVisit, read_task
from trawlnet.engine.outcome import Reason, Receipt
from trawlnet.engine.ports import Clock, Counts, Frontier, LaneWork, Lease, Page, Store, Work
from trawlnet.engine.task import Task
from trawlnet.malformed import Malformed
from trawlnet.net.lane import lane_of
from trawlnet.queues.queue import Delivery, Queue
from trawlnet.webpage.url import request_url

_MOST_DEPTH = 1_000_000
_LOOK_EVERY = 0.5  # Seconds between two reads of a spool that a crawl writes.


class SpoolSource:
    """Lists deliveries as tasks, one for each: a URL that is announced twice is visited twice. It
    ends with the spool, but not before the crawl that writes it."""

    def __init__(
        self,
        queue: Queue,
        wanted: Callable[[str], bool],
        prefetch: int,
        clock: Clock,
        is_crawling: Callable[[], bool] = lambda: False,
    ) -> None:
        self._queue = queue
        self._wanted = wanted
        self._prefetch = prefetch
        self._clock = clock
        self._is_crawling = is_crawling
        self._open: dict[str, tuple[Task, Delivery]] = {}  # By key.
        self.skipped = 0

    async def pages(self, after: str | None) -> AsyncIterator[Page]:
        while True:
            # Checked before the read, so that the last lines of a crawl are read.
            more = self._is_crawling()
            async with aclosing(self._drained()) as pages:
                async for page in pages:
                    yield page
            if not more:
                return
            await self._clock.sleep(_LOOK_EVERY)

    async def _drained(self) -> AsyncGenerator[Page]:
        deliveries = self._queue.consume(self._prefetch, drain=True)
        async with aclosing(deliveries):
            async for delivery in deliveries:
                task = read_discovery(delivery)
                if isinstance(task, str):
                    await delivery.put_aside(task)
                elif not self._wanted(read_url(task)):
                    self.skipped += 1
                    await delivery.ack()
                else:
                    self._open[task.key] = (task, delivery)
                    yield Page([task], delivery.place)

    async def done(self, key: str) -> None:
        if found := self._open.pop(key, None):
            await found[1].ack()

    def waiting_for(self, lane: str) -> list[Task]:
        return [task for task, _ in self._open.values() if task.lane == lane]


def read_discovery(delivery: Delivery) -> Task | str:
    """The task of one discovery, or its defect. Other programs may have written it."""
    body = delivery.body
    try:
        url = request_url(_text(body, "url"))
        depth = int(body.get("depth") or 0)
    except (Malformed, TypeError, ValueError) as error:
        return f"not a discovery: {error}"
    page_type, referrer = _text(body, "page_type")[:40], _text(body, "referrer")[:2048]
    visit = PageVisit(url, page_type, min(max(depth, 0), _MOST_DEPTH), referrer)
    return visit.task(f"{url}#{delivery.place}", visit.depth * PER_DEPTH, lane_of(url))


def read_url(task: Task) -> str:
    return task.key.partition("#")[0]


def _text(body: Mapping[str, Any], name: str) -> str:
    value = body.get(name)
    return value.encode("utf-8", "replace").decode() if isinstance(value, str) else ""


class AckingStore:
    """A store that acknowledges deliveries to the spool after settling them.

    A given-up visit is written to a file first, so that it is recorded before the spool forgets."""

    def __init__(
        self, store: Store, source: SpoolSource, failed: UnscrapedFile, clock: Clock
    ) -> None:
        self._store = store
        self._source = source
        self._failed = failed
        self._clock = clock
        self._blocked: set[str] = set()

    async def settle(self, receipts: Sequence[Receipt]) -> None:
        await self._store.settle(receipts)
        over = [one for one in receipts if one.next is None or one.reason.success]
        self._failed.add([_unscraped(one) for one in over if not one.reason.success])
        for receipt in over:
            await self._source.done(receipt.task.key)

    async def feed(self, page: Page) -> int:
        fed = await self._store.feed(page)
        await self._give_up([task for task in page.tasks if task.lane in self._blocked])
        return fed

    async def hold(self, lane: str, until: float) -> None:
        await self._store.hold(lane, until)
        if until == math.inf:
            self._blocked.add(lane)
            await self._give_up(self._source.waiting_for(lane))

    async def holds(self, now: float) -> Mapping[str, float]:
        return await self._store.holds(now)

    async def _give_up(self, tasks: Sequence[Task]) -> None:
        """Give up tasks of a blocked lane, so that the spool does not wait for them."""
        now = self._clock.now()
        receipts = [Receipt(task, Reason.BLOCKED, at=now) for task in tasks]
        self._failed.add([_unscraped(receipt) for receipt in receipts])
        for task in tasks:
            await self._source.done(task.key)

    async def cursor(self) -> str | None:
        return await self._store.cursor()

    async def lanes(self, after: str | None, limit: int) -> Sequence[LaneWork]:
        return await self._store.lanes(after, limit)

    async def lease(self, wants: Mapping[str, int], now: float, ttl: float) -> Lease:
        return await self._store.lease(wants, now, ttl)

    async def renew(self, keys: Sequence[str], now: float, ttl: float) -> None:
        await self._store.renew(keys, now, ttl)

    async def counts(self) -> Counts:
        return await self._store.counts()


def _unscraped(receipt: Receipt) -> Unscraped:
    visit = read_task(receipt.task)
    assert isinstance(visit, PageVisit)
    return Unscraped.of(visit, receipt.task.lane, receipt)


if TYPE_CHECKING:
    _FRONTIER: type[Frontier] = AckingStore
    _WORK: type[Work] = AckingStore
