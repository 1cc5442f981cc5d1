"""The web crawl as one of many shards: fenced state in Redis, captures in a shared archive."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial

from trawlnet.captures.parts import Writing, capture_form
from trawlnet.crawlers.errors import NotReady
from trawlnet.crawlers.share import Opened, Share, check_places
from trawlnet.crawlers.web.admission.budget import Budget
from trawlnet.crawlers.web.admission.left_out import LeftOut
from trawlnet.crawlers.web.admission.policy import Policy
from trawlnet.crawlers.web.admission.shared_caps import SharedCaps, budgets_of
from trawlnet.crawlers.web.build import about_of, hosts_of
from trawlnet.crawlers.web.config import WebConfig
from trawlnet.crawlers.web.ledger import redis_url
from trawlnet.crawlers.web.plan import engine_limits, manners_of
from trawlnet.crawlers.web.source import SeedSource
from trawlnet.crawlers.web.visiting.handler import brings_page
from trawlnet.crawlers.web.visiting.known import NoPageIndex
from trawlnet.crawlers.web.visiting.shared_turns import turns_of
from trawlnet.crawlers.web.visiting.site import Deployment, RobotsPlaces, open_site
from trawlnet.engine.control import Control
from trawlnet.engine.crawl import Feed, Limits, Parts
from trawlnet.engine.gate import Gate, LaneParked
from trawlnet.engine.outcome import Outcome
from trawlnet.engine.ports import Clock, Handler, Page, Source
from trawlnet.engine.task import Task
from trawlnet.observe.metrics.crawl import CrawlMetrics
from trawlnet.storage.objects import open_objects
from trawlnet.storage.part_sink import PartLimits, PartSink
from trawlnet.stores.errors import Fenced, StoreUnreachable
from trawlnet.stores.fence import CounterDelta, Fence
from trawlnet.stores.open import open_store
from trawlnet.stores.redis.fleet.share import ShareKeys

_UNSETTLED = 20_000  # Captures that wait for their part; their memory is bounded separately,
_PARTS_IN_MEMORY = 4  # by this many parts, or
_MEMORY = 256 << 20  # this many bytes, whichever is more.
_IDLE_LOOK = 0.5  # Seconds.
_SERVER_PAUSE = 1.0  # Seconds that a page is delayed when Redis does not answer.


@dataclass(frozen=True, slots=True)
class SharedSeeds:
    """The seeds on our lanes, listed again in each term: there are few, and known ones stay."""

    source: Source
    owns: Callable[[str], bool]

    async def pages(self, after: str | None) -> AsyncIterator[Page]:
        async for page in self.source.pages(None):
            yield Page([task for task in page.tasks if self.owns(task.lane)], page.cursor)


@dataclass(frozen=True, slots=True)
class SharedHandler:
    """A visit, with the counts that its settlement adds to the fleet's counters."""

    handler: Handler
    sink: PartSink
    caps: SharedCaps
    received: Callable[[], int]  # Bytes since the last call.
    left_out: LeftOut
    bytes_counter: str
    clock: Clock

    async def __call__(self, task: Task) -> Outcome[CounterDelta]:
        await self.sink.room()
        try:
            outcome: Outcome[CounterDelta] = await self.handler(task)
        except (StoreUnreachable, Fenced) as error:
            # Not the page's fault: it uses no attempt, even if the lane has a new owner by then.
            raise LaneParked(task.lane, self.clock.now() + _SERVER_PAUSE) from error
        return replace(outcome, news=CounterDelta(self._counts(outcome), self.left_out.take()))

    def _counts(self, outcome: Outcome[CounterDelta]) -> dict[str, int]:
        counts: dict[str, int] = {}
        if brings_page(outcome):
            for capture in outcome.items:
                counts |= self.caps.counts(capture.url, capture.page_type)
        if received := self.received():
            counts[self.bytes_counter] = received
        return counts


@asynccontextmanager
async def open_shard(
    config: WebConfig, share: Share, clock: Clock, metrics: CrawlMetrics
) -> AsyncIterator[Opened]:
    """Yields the parts of one shard, and closes them. Raises NotReady."""
    check_shareable(config)
    url = redis_url(config)
    async with AsyncExitStack() as stack:
        sink = _sink(config, share, clock)
        stack.push_async_callback(sink.close)
        fence = Fence(share.token, share.buckets, sink)
        store = await open_store(url, owner=share.token, fence=fence)
        stack.push_async_callback(store.close)
        keys = ShareKeys.open(url, share.token)
        stack.push_async_callback(keys.close)
        policy = Policy(config, () if config.scope.allowed_hosts else hosts_of(config.seeds))
        budgets = budgets_of(config, share.run)
        caps = SharedCaps(policy.cap_keys, keys, clock, budgets, sink.hurry)
        gate = Gate(clock, manners_of(config), barred_until=share.barred_until)
        standing = Deployment(
            gate,
            NoPageIndex(),
            caps,
            Budget(None, None, lambda: 0),  # The command of the fleet checks the budget.
            RobotsPlaces(share.scratch / "robots.jsonl"),
            lambda turns: turns_of(config, turns, gate, keys, clock, share.owns),
        )
        site = await open_site(stack, _recorded(config), clock, metrics, policy, standing)
        source = SeedSource(config.seeds, config.sitemaps.urls, site.linker)
        received = _Received(lambda: metrics.http.wire)
        visit = site.handler(follow=True)
        parts = Parts(
            Feed(SharedSeeds(source, share.owns), store),
            store,
            SharedHandler(visit, sink, caps, received, standing.left_out, budgets.bytes, clock),
            sink,
            gate,
            clock,
            owns=share.owns,
            companions=(partial(_hurry_when_idle, sink, clock),),
        )
        yield Opened(
            parts,
            _limits(config, share.shards),
            config.limits.global_concurrency,
            sink.hurry,
            lambda: {"parts": sink.parts_put, "bytes": sink.bytes_put},
        )


def check_shareable(config: WebConfig) -> None:
    """Raises NotReady for settings that a fleet does not support."""
    check_places(config.redis_address, config.archive)
    if config.revisit.enabled:
        raise NotReady(
            "revisit.enabled needs the page index beside the crawl: a fleet visits a page once",
            "leave it out, or crawl on one machine",
        )
    if config.store.near_duplicates != "off":
        raise NotReady(
            "store.near_duplicates compares pages of one machine: a fleet cannot do it",
            "leave it out, or crawl on one machine",
        )
    if config.metrics_address:
        raise NotReady(
            "--metrics-address serves the figures of one process: a fleet has many",
            "leave it out, and look at: trawlnet fleet status --json",
        )


def _sink(config: WebConfig, share: Share, clock: Clock) -> PartSink:
    level = config.store.level if config.warc.compress == "zstd" else None
    writing = Writing(f"fleet-{share.run:04d}", about_of(config), level)
    memory = max(_MEMORY, _PARTS_IN_MEMORY * config.part_size)
    return PartSink(
        open_objects(config.archive, share.s3),
        share.token,
        clock,
        PartLimits(config.part_size, config.part_seconds, memory),
        share.may_put,
        capture_form(writing),
    )


def _recorded(config: WebConfig) -> WebConfig:
    """With all headers, which the WARC files need."""
    return config.model_copy(update={"warc": config.warc.model_copy(update={"enabled": True})})


def _limits(config: WebConfig, shards: int) -> Limits:
    """Open tasks and their limits count over all shards. Only the fleet's command knows whether the
    crawl is done or has taken long enough, so each shard keeps running."""
    one = engine_limits(config)
    return replace(
        one,
        follow=True,
        most_seconds=None,
        unsettled=_UNSETTLED,
        high_water=one.high_water * shards,
        highest_water=one.highest_water * shards,
    )


class _Received:
    """The bytes received since the last call."""

    def __init__(self, total: Callable[[], int]) -> None:
        self._total = total
        self._counted = total()

    def __call__(self) -> int:
        before, self._counted = self._counted, self._total()
        return self._counted - before


async def _hurry_when_idle(sink: PartSink, clock: Clock, control: Control) -> None:
    """Upload the gathered captures of an idle shard: settling them may yield new links."""
    while True:
        await clock.sleep(_IDLE_LOOK)
        if sink.gathering and not control.figures.lanes.with_work():
            sink.hurry()
