"""The cache that all viewers share: each crawl is read once a second, for any number of them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from trawlnet.engine.ports import Clock
from trawlnet.observe.dashboard.charts import POINTS, SPANS
from trawlnet.observe.dashboard.place import (
    ActionOrder,
    CrawlCondition,
    CrawlerFacts,
    CrawlPlace,
    CrawlView,
    Unreadable,
)
from trawlnet.observe.history import Sample
from trawlnet.observe.lane_table import LaneTable

log = logging.getLogger(__name__)

_LOOK_EVERY = 0.9  # Seconds; a little less than the interval of the viewers.
_HISTORY_EVERY = 5.0
_COST = 20.0  # Slow facts are read less often: reading may take one twentieth of the time.
_NOTHING = CrawlerFacts({}, ())
_FEW = 6  # Samples that are too few for a chart.


@dataclass(slots=True)
class _CrawlCache:
    """The last data of one crawl, and when they become stale."""

    look: CrawlView | None = None
    looked_until: float = 0.0
    facts: CrawlerFacts = _NOTHING
    facts_until: float = 0.0
    samples: dict[str, tuple[float, Sequence[Sample]]] = field(default_factory=dict)
    looking: asyncio.Lock = field(default_factory=asyncio.Lock)
    reading: asyncio.Lock = field(default_factory=asyncio.Lock)


class Board:
    def __init__(self, find: Callable[[], Sequence[CrawlPlace]], clock: Clock) -> None:
        self.clock = clock
        self.places: dict[str, CrawlPlace] = {}
        self._find = find
        self._caches: dict[str, _CrawlCache] = {}
        self.look_around()

    def look_around(self) -> None:
        """Find crawls that have started while the page is open."""
        self.places = {
            place.crawler: self.places.get(place.crawler, place) for place in self._find()
        }
        for crawler in self.places:
            self._caches.setdefault(crawler, _CrawlCache())

    async def look(self, crawler: str) -> CrawlView:
        """At most a second old. Tells the crawl that a dashboard watches."""
        cache, place = self._caches[crawler], self.places[crawler]
        async with cache.looking:
            now = self.clock.now()
            if cache.look is None or now >= cache.looked_until:
                try:
                    cache.look = await place.look(now)
                except Unreadable as error:
                    log.warning("figures not read", extra={"crawler": crawler, "error": str(error)})
                    cache.look = cache.look or _nothing_of(crawler, now)
                    cache.look = replace(cache.look, now=now)
                cache.looked_until = now + _LOOK_EVERY
            return cache.look

    async def facts(self, crawler: str) -> CrawlerFacts:
        """While one viewer waits for fresh facts, the others get the old ones."""
        cache, place = self._caches[crawler], self.places[crawler]
        if cache.reading.locked() and cache.facts_until:
            return cache.facts
        async with cache.reading:
            now = self.clock.now()
            if now >= cache.facts_until:
                try:
                    cache.facts = await place.facts()
                except Unreadable as error:
                    log.warning("facts not read", extra={"crawler": crawler, "error": str(error)})
                took = self.clock.now() - now
                cache.facts_until = self.clock.now() + max(cache.facts.keeps, _COST * took)
            return cache.facts

    async def history(self, look: CrawlView, span: str) -> Sequence[Sample]:
        """The span before now, or before the end of a crawl that has ended."""
        crawler, now = look.crawler, self.clock.now()
        cache = self._caches[crawler]
        until, samples = cache.samples.get(span, (0.0, ()))
        if now >= until:
            end = now if look.standing.at_work or look.as_of is None else look.as_of
            try:
                samples = await self.places[crawler].history(end - SPANS[span][1], POINTS)
            except Unreadable as error:
                log.warning("history not read", extra={"crawler": crawler, "error": str(error)})
            cache.samples[span] = (now + _HISTORY_EVERY, samples)
        return _with_now(samples, look) if len(samples) < _FEW else samples

    async def obey(self, order: ActionOrder) -> str:
        reply = await self.places[order.crawler].obey(order)
        # Drop the cache, so that the viewer sees the effect of the command.
        self._caches[order.crawler] = _CrawlCache()
        return reply


def _nothing_of(crawler: str, now: float) -> CrawlView:
    return CrawlView(crawler, now, CrawlCondition.NEVER, "", None, {}, {}, LaneTable(), {})


def _with_now(samples: Sequence[Sample], look: CrawlView) -> Sequence[Sample]:
    """Add the present figures: a crawl that has just begun has little history."""
    last = samples[-1].at if samples else 0.0
    if look.as_of is None or look.as_of <= last + 1.0:
        return samples
    return [*samples, Sample(look.as_of, look.figures)]
