"""From config and workspace to the parts of a crawl, or of a scrape."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from trawlnet.captures.counters import CounterCsv
from trawlnet.captures.files import CaptureOptions
from trawlnet.captures.page_index import Scopes
from trawlnet.captures.sink import CaptureSink
from trawlnet.crawlers.errors import NotReady
from trawlnet.crawlers.web.admission.policy import Policy
from trawlnet.crawlers.web.config import WebConfig
from trawlnet.crawlers.web.discoveries import discovery_spool
from trawlnet.crawlers.web.figures import (
    CountedTries,
    CountingSink,
    crawler_figures,
    request_figures,
    scraper_figures,
)
from trawlnet.crawlers.web.ledger import fetched_at, redis_url
from trawlnet.crawlers.web.scrape import AckingStore, SpoolSource
from trawlnet.crawlers.web.source import SeedSource, read_seeds, remember_seeds
from trawlnet.crawlers.web.unscraped import FILE as UNSCRAPED
from trawlnet.crawlers.web.unscraped import UnscrapedFile
from trawlnet.crawlers.web.visiting.local_turns import LocalTurns, TellingWaits
from trawlnet.crawlers.web.visiting.site import agent_of, open_site, single_process
from trawlnet.engine.crawl import Feed, Parts
from trawlnet.engine.ports import Clock
from trawlnet.loading import load
from trawlnet.observe.metrics.crawl import CrawlMetrics
from trawlnet.observe.metrics.web import WebMeter
from trawlnet.stores.memory import MemoryStore
from trawlnet.stores.open import open_store
from trawlnet.webpage.url import split

_STATE = Path("state", "web")
_PREFETCH = 1000  # Discoveries in hand at a time.


@dataclass(frozen=True, slots=True)
class RunRequest:
    """What a run was asked to do besides its config."""

    run: str  # Names the run's files.
    seeds: tuple[str, ...] = ()
    # Of a scrape: whether a crawl is at work that may put more into the spool.
    is_crawling: Callable[[], bool] = lambda: False


def check_crawl(config: WebConfig, workspace: Path, more_seeds: Sequence[str]) -> None:
    """Raises NotReady for what no crawl can begin with; nothing is made."""
    agent_of(config)
    begun = redis_url(config) or (workspace / _STATE / config.frontier.db_name).exists()
    seeds = read_seeds(workspace, (*more_seeds, *config.seeds))
    if not begun and not seeds and not config.sitemaps.urls:
        raise _no_start(workspace)


@asynccontextmanager
async def open_crawl(
    config: WebConfig, workspace: Path, clock: Clock, metrics: CrawlMetrics, order: RunRequest
) -> AsyncIterator[Parts]:
    """Everything that a crawl needs, let go of at the end. Raises NotReady."""
    seeds = read_seeds(workspace, (*order.seeds, *config.seeds))
    remember_seeds(workspace, order.seeds)
    policy = Policy(config, () if config.scope.allowed_hosts else hosts_of(seeds))
    async with AsyncExitStack() as stack:
        store = await open_store(_store_place(config, workspace), owner=_owner(workspace))
        stack.push_async_callback(store.close)
        if redis_url(config):
            bind = load("trawlnet.crawlers.binding:bind")  # Needs Redis, an extra.
            await bind(store, workspace, "web")
        if not seeds and not config.sitemaps.urls and not (await store.counts()).known:
            raise _no_start(workspace)
        spool = discovery_spool(config, workspace)
        stack.push_async_callback(spool.close)
        sink = await CaptureSink.open(workspace, _options(config, order, "crawl", policy), spool)
        stack.push_async_callback(sink.close)
        turns = LocalTurns(workspace, clock, first=True)
        stack.callback(turns.close)
        standing = single_process(config, workspace, clock, metrics, policy, sink.pages, turns)
        spool.closing = lambda: standing.gate.closing()
        site = await open_site(stack, config, clock, metrics, policy, standing)
        handler = CountedTries(TellingWaits(site.handler(follow=True), turns, clock))
        counted = CountingSink(
            sink,
            CounterCsv(
                workspace / config.metrics.crawler_csv, every=config.metrics.flush_interval_sec
            ),
            clock,
            lambda counts: {
                **crawler_figures(site.linker.counts, sink.counts, counts),
                **request_figures(metrics.http, handler.retries),
            },
            store.counts,
            WebMeter(metrics, policy.page_types, site.linker.counts),
            standing.left_out.save,
        )
        stack.push_async_callback(counted.flush)
        source = SeedSource(seeds, config.sitemaps.urls, site.linker)
        yield Parts(
            Feed(source, store),
            store,
            handler,
            counted,
            site.gate,
            clock,
            site.budget.spent,
            ledger=store,
        )


def _no_start(workspace: Path) -> NotReady:
    return NotReady(
        "no URL to start from",
        f"name one: trawlnet web crawl -w {workspace} https://example.org/",
    )


@asynccontextmanager
async def open_scrape(
    config: WebConfig,
    workspace: Path,
    clock: Clock,
    metrics: CrawlMetrics,
    order: RunRequest,
    *,
    again: bool,
) -> AsyncIterator[Parts]:
    """The parts of a scrape. With `again`, pages that are in the index are asked for, too."""
    seeds = read_seeds(workspace, (*order.seeds, *config.seeds))
    hosts = () if config.scope.allowed_hosts else hosts_of(seeds)
    policy = Policy(config, hosts)
    anywhere = not config.scope.allowed_hosts and not hosts
    async with AsyncExitStack() as stack:
        spool = discovery_spool(config, workspace)
        stack.push_async_callback(spool.close)
        sink = await CaptureSink.open(workspace, _options(config, order, "scrape", policy))
        stack.push_async_callback(sink.close)
        turns = LocalTurns(workspace, clock, first=False)
        stack.callback(turns.close)
        standing = single_process(config, workspace, clock, metrics, policy, sink.pages, turns)
        site = await open_site(stack, config, clock, metrics, policy, standing)
        store = MemoryStore()

        def wanted(url: str) -> bool:
            if anywhere:
                policy.also(split(url).host)
            return again or sink.pages.get(url) is None

        source = SpoolSource(spool, wanted, _PREFETCH, clock, order.is_crawling)
        handler = CountedTries(TellingWaits(site.handler(follow=False), turns, clock))
        name = config.metrics.scraper_csv.replace("{run_id}", order.run)
        counted = CountingSink(
            sink,
            CounterCsv(workspace / name, every=config.metrics.flush_interval_sec),
            clock,
            lambda counts: {
                **scraper_figures(sink.counts, counts),
                **request_figures(metrics.http, handler.retries),
            },
            store.counts,
            WebMeter(metrics, policy.page_types, site.linker.counts),
        )
        stack.push_async_callback(counted.flush)
        failed = UnscrapedFile(workspace / _STATE / UNSCRAPED, fetched_at(sink.pages))
        stack.callback(failed.close)
        acking = AckingStore(store, source, failed, clock)
        yield Parts(
            Feed(source, acking), acking, handler, counted, site.gate, clock, site.budget.spent
        )


def _options(config: WebConfig, order: RunRequest, producer: str, policy: Policy) -> CaptureOptions:
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
        spreadsheet_safe=config.metrics.spreadsheet_safe,
        warc=warc.enabled,
        warc_folder=warc.dir,
        warc_zstd_level=store.level if warc.compress == "zstd" else None,
        warc_bytes=int(warc.rotate_every_mb * _MB),
        scopes=Scopes(policy.cap_rules, policy.cap_digests),
        about=about_of(config),
    )


def about_of(config: WebConfig) -> dict[str, str]:
    """The description of the crawl in WARC files."""
    obeyed = "obey" if config.robots.obey else "ignore"
    return {"http-header-user-agent": agent_of(config), "robots": obeyed}


_MB = 1 << 20


def hosts_of(urls: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(split(url).host for url in urls))


def _store_place(config: WebConfig, workspace: Path) -> str | Path:
    return redis_url(config) or workspace / _STATE / config.frontier.db_name


def _owner(workspace: Path) -> str:
    """The same name after a restart, so that the leases of a killed process end at once."""
    return f"{socket.gethostname()}:{workspace.resolve()}"
