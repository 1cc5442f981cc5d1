"""From config and workspace to the parts of a crawl, or of a scrape."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from trawlnet.crawlers.errors import NotReady
from trawlnet.crawlers.metered import MeteredHttp
from trawlnet.crawlers.web.budget import Budget
from trawlnet.crawlers.web.caps import Caps
from trawlnet.crawlers.web.config import WebConfig, keys_of
from trawlnet.crawlers.web.counting import CountingSink
from trawlnet.crawlers.web.handler import WebHandler, is_page
from trawlnet.crawlers.web.linking import Linker
from trawlnet.crawlers.web.plan import manners_of, reading_of, request_limits, retry_of
from trawlnet.crawlers.web.policy import Policy
from trawlnet.crawlers.web.proxies import Proxies
from trawlnet.crawlers.web.robots import RobotsCache
from trawlnet.crawlers.web.robots_file import RobotsFile
from trawlnet.crawlers.web.scrape import AckingStore, SpoolSource
from trawlnet.crawlers.web.sitemaps import SitemapReader
from trawlnet.crawlers.web.source import SeedSource, read_seeds, remember_seeds
from trawlnet.crawlers.web.work import may_be_conditional
from trawlnet.engine.crawl import Parts
from trawlnet.engine.gate import Gate
from trawlnet.engine.ports import Clock, Ledger
from trawlnet.engine.task import Task
from trawlnet.formats.robots import product_token
from trawlnet.formats.url import split
from trawlnet.net.address import AddressTurns
from trawlnet.net.dial import GuardedResolver, Pools
from trawlnet.net.guard import Guard
from trawlnet.net.http import Http
from trawlnet.net.robots import RobotsPolicy
from trawlnet.observe.metrics import Metrics
from trawlnet.sink.capture_files import CaptureOptions
from trawlnet.sink.capture_sink import CaptureSink
from trawlnet.sink.counters import CounterCsv
from trawlnet.sink.discovery import BOOKMARK, NAME
from trawlnet.sink.lmdb_pages import PageIndex
from trawlnet.sink.queue import Queue, QueueOptions
from trawlnet.sink.spool import Spool
from trawlnet.store.memory import MemoryStore
from trawlnet.store.open import open_store

_STATE = Path("state", "web")
_ROBOTS = _STATE / "robots.jsonl"
_PREFETCH = 1000  # Discoveries in hand at a time.


@dataclass(frozen=True, slots=True)
class Order:
    """What a run was asked to do besides its config."""

    run: str  # Names the run's files.
    seeds: tuple[str, ...] = ()


@asynccontextmanager
async def open_crawl(
    config: WebConfig, workspace: Path, clock: Clock, metrics: Metrics, order: Order
) -> AsyncIterator[Parts]:
    """Everything that a crawl needs, let go of at the end. Raises NotReady."""
    seeds = read_seeds(workspace, (*order.seeds, *config.seeds))
    remember_seeds(workspace, order.seeds)
    policy = Policy(config, () if config.scope.allowed_hosts else _hosts(seeds))
    async with AsyncExitStack() as stack:
        store = await open_store(_store_place(config, workspace), owner=_owner(workspace))
        stack.push_async_callback(store.close)
        if not seeds and not config.sitemaps.urls and not (await store.counts()).known:
            raise NotReady(
                "no address to start from",
                f"name one: trawlnet web crawl -w {workspace} https://example.org/",
            )
        spool = _spool(config, workspace)
        stack.push_async_callback(spool.close)
        sink = await CaptureSink.open(workspace, _options(config, order, "crawl"), spool)
        stack.push_async_callback(sink.close)
        site = await _site(stack, config, workspace, clock, metrics, policy, sink.pages)
        counted = CountingSink(
            sink,
            CounterCsv(
                workspace / config.metrics.crawler_csv, every=config.metrics.flush_interval_sec
            ),
            clock,
            lambda: {**site.linker.counts, **crawled(sink.counts, metrics)},
            store.counts,
        )
        stack.push_async_callback(counted.flush)
        source = SeedSource(seeds, config.sitemaps.urls, site.linker)
        handler = site.handler(follow=True)
        yield Parts(source, store, handler, counted, site.gate, clock, site.budget.spent)


@asynccontextmanager
async def open_scrape(
    config: WebConfig, workspace: Path, clock: Clock, metrics: Metrics, order: Order, *, again: bool
) -> AsyncIterator[Parts]:
    """The parts of a scrape. With `again`, pages that are in the index are asked for, too."""
    seeds = read_seeds(workspace, (*order.seeds, *config.seeds))
    hosts = () if config.scope.allowed_hosts else _hosts(seeds)
    policy = Policy(config, hosts)
    anywhere = not config.scope.allowed_hosts and not hosts
    async with AsyncExitStack() as stack:
        spool = _spool(config, workspace)
        stack.push_async_callback(spool.close)
        sink = await CaptureSink.open(workspace, _options(config, order, "scrape"))
        stack.push_async_callback(sink.close)
        site = await _site(stack, config, workspace, clock, metrics, policy, sink.pages)
        store = MemoryStore()

        def wanted(url: str) -> bool:
            if anywhere:
                policy.also(split(url).host)
            return again or sink.pages.get(url) is None

        source = SpoolSource(spool, wanted, _PREFETCH)
        name = config.metrics.scraper_csv.replace("{run_id}", order.run)
        counted = CountingSink(
            sink,
            CounterCsv(workspace / name, every=config.metrics.flush_interval_sec),
            clock,
            lambda: dict(sink.counts),
            store.counts,
        )
        stack.push_async_callback(counted.flush)
        acking = AckingStore(store, source)
        handler = site.handler(follow=False)
        yield Parts(source, acking, handler, counted, site.gate, clock, site.budget.spent)


@asynccontextmanager
async def open_ledger(config: WebConfig, state: Path) -> AsyncIterator[Ledger]:
    """The store alone, for commands that look back; looking begins no crawl."""
    store = await open_store(redis_url(config) or _begun(state / config.frontier.db_name))
    try:
        yield store
    finally:
        await store.close()


@dataclass(frozen=True, slots=True)
class _Site:
    """What crawl and scrape have in common: how pages are asked for and read."""

    config: WebConfig
    clock: Clock
    gate: Gate
    http: MeteredHttp
    robots: RobotsCache
    linker: Linker
    caps: Caps
    budget: Budget
    pages: PageIndex
    agent: str
    proxies: Proxies

    def handler(self, *, follow: bool) -> WebHandler:
        config = self.config
        rules = reading_of(config, self.agent, scheduled=follow)
        return WebHandler(
            self.http,
            self.clock,
            self.robots,
            self.linker,
            self.caps,
            self.budget,
            self.pages,
            SitemapReader(
                self.http,
                self.linker,
                self.pages,
                rules.revisit,
                request_limits(config),
                config.sitemaps.max_files,
                config.sitemaps.max_urls,
            ),
            rules,
            request_limits(config),
            retry_of(config),
            self.agent,
            follow=follow,
            sitemaps_wanted=follow and config.sitemaps.enabled,
            obey=config.robots.obey,
            most_redirects=config.limits.max_redirects,
            proxy_of=self.proxies.name_for,
            conditional=may_be_conditional if follow else _always,
        )


async def _site(
    stack: AsyncExitStack,
    config: WebConfig,
    workspace: Path,
    clock: Clock,
    metrics: Metrics,
    policy: Policy,
    pages: PageIndex,
) -> _Site:
    agent, manners = agent_of(config), manners_of(config)
    gate, proxies = Gate(clock, manners), Proxies(config.proxies.default, config.proxies.hosts)
    guard = Guard(allow_private=config.allow_private_hosts, exempt=proxies.literal_addresses)
    pools = Pools(
        total=max(config.limits.global_concurrency, 64),
        per_host=config.limits.per_host_concurrency + 1,
    )
    resolver = GuardedResolver(guard, pools, config.limits.connect_timeout)
    stack.push_async_callback(resolver.close)
    turns = AddressTurns(gate, clock, resolver, proxies.url_for)
    http = await stack.enter_async_context(
        Http(
            turns if config.limits.per_address else gate,
            clock,
            agent,
            guard=guard,
            limits=request_limits(config),
            pools=pools,
            proxy_for=proxies.url_for,
        )
    )
    metered = MeteredHttp(http, metrics.http)
    file = RobotsFile(workspace / _ROBOTS)
    stack.callback(file.close)
    robots = RobotsCache(
        metered,
        gate,
        clock,
        _robots_policy(config, agent),
        manners,
        file,
        retry_of(config),
        config.limits.request_timeout,
    )
    caps = Caps(policy.cap_keys, _captured(pages))
    linker = Linker(keys_of(config), policy, caps, robots.known if config.robots.obey else _unknown)
    budget = Budget(config.caps.max_pages, config.caps.max_bytes, lambda: metrics.http.wire)
    return _Site(config, clock, gate, metered, robots, linker, caps, budget, pages, agent, proxies)


def _always(task: Task, seen_at: float) -> bool:
    """A scrape has no use for links, so it can do without a body at any time."""
    return True


def _unknown(origin: str) -> None:
    return None


def _captured(pages: PageIndex) -> Iterator[tuple[str, str]]:
    return ((page.url, page.page_type) for page in pages.pages() if is_page(page.http_status))


def _robots_policy(config: WebConfig, agent: str) -> RobotsPolicy:
    robots = config.robots
    return RobotsPolicy(
        product_token(agent),
        ttl=robots.cache_ttl_sec,
        failure_ttl=robots.failure_ttl_sec,
        delay_cap=robots.max_crawl_delay_sec,
    )


def _options(config: WebConfig, order: Order, producer: str) -> CaptureOptions:
    store, warc = config.store, config.warc
    return CaptureOptions(
        run=order.run,
        producer=producer,
        html_folder=store.html_dir,
        zstd_level=store.level if store.compress == "zstd" else None,
        permissions=store.permissions,
        pages_csv=config.metrics.pages_csv.replace("{run_id}", order.run),
        edges_csv=config.trajectory.edges_csv,
        edges=config.trajectory.enabled,
        csv_bytes=int(config.trajectory.rotate_every_mb * _MB),
        warc=warc.enabled,
        warc_folder=warc.dir,
        warc_zstd_level=store.level if warc.compress == "zstd" else None,
        warc_bytes=int(warc.rotate_every_mb * _MB),
        about={"http-header-user-agent": agent_of(config), "robots": _obeyed(config)},
    )


def _obeyed(config: WebConfig) -> str:
    return "obey" if config.robots.obey else "ignore"


_MB = 1 << 20
_GB = 1 << 30


def _spool(config: WebConfig, workspace: Path) -> Queue:
    spool = config.spool
    options = QueueOptions(
        backlog_bytes=int(min(spool.backpressure_limit_gb, spool.max_backlog_gb) * _GB),
        segment_bytes=int(spool.rotate_every_mb * _MB),
        keep=True,
        bookmark=workspace / BOOKMARK,
    )
    return Spool(workspace / spool.discoveries_dir, NAME, options)


def _hosts(urls: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(split(url).host for url in urls))


def _store_place(config: WebConfig, workspace: Path) -> str | Path:
    return redis_url(config) or workspace / _STATE / config.frontier.db_name


def _begun(folder: Path) -> str | Path:
    return folder if folder.exists() else "memory:"


def redis_url(config: WebConfig) -> str:
    address = config.redis_address
    return address if not address or "://" in address else f"redis://{address}"


def _owner(workspace: Path) -> str:
    """Known across restarts, so that what a killed process had leased is free at once."""
    return f"{socket.gethostname()}:{workspace.resolve()}"


_NOBODY = "trawlnet/0.1 (+http://private.invalid/)"  # In a private world nobody else complains.


def agent_of(config: WebConfig) -> str:
    agent = config.robots.user_agent or (_NOBODY if config.allow_private_hosts else "")
    if not agent:
        raise NotReady(
            "the sites that are crawled must be able to reach you",
            "set robots.user_agent in trawlnet.yaml, or --user-agent, "
            "to something like 'Bot/1.0 (+https://example.org/bot)'",
        )
    return agent


def crawled(counts: Mapping[str, int], metrics: Metrics) -> dict[str, int]:
    """A crawler's figures under the names that its users know."""
    return {
        "urls_fetched": counts.get("pages_fetched", 0),
        "discoveries_written": counts.get("pages_saved", 0),
        "bytes_downloaded": metrics.http.wire,
        "requests": metrics.http.requests.total(),
    }
