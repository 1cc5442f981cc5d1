"""Crawls of the simulated web for tests: a config that is quick, and what a crawl has left."""

from __future__ import annotations

import itertools
import json
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.support.web.captures import read_captures
from trawlnet.captures.line import CaptureLine
from trawlnet.captures.page import KnownPage
from trawlnet.captures.page_index import PageIndex
from trawlnet.captures.role import INDEX, ROLES
from trawlnet.crawlers.web.build import RunRequest, open_crawl, open_scrape
from trawlnet.crawlers.web.config import WebConfig, keys_of
from trawlnet.crawlers.web.plan import engine_limits
from trawlnet.crawlers.web.presets import beneath
from trawlnet.engine.control import Control, Ending
from trawlnet.engine.crawl import crawl
from trawlnet.engine.outcome import Reason
from trawlnet.engine.ports import Counts, Failure, Ledger
from trawlnet.net.clock import SystemClock
from trawlnet.observe.metrics.crawl import CrawlMetrics
from trawlnet.sim.web import WebWorld, read_manifest
from trawlnet.sim.web.plan import TRAPS

KEYS = keys_of(WebConfig.model_validate({}))
QUICK: dict[str, Any] = {
    "allow_private_hosts": True,
    "robots": {"user_agent": "trawlnet/1.0 (+https://example.org/bot)"},
    "limits": {
        "global_concurrency": 32,
        "req_per_sec": 200,
        "max_retries": 2,
        "backoff_base_ms": 20,
        "probe_wait": 0.05,
        "request_timeout": 3,
        "max_body": "1MB",
    },
    "caps": {"max_depth": None},
    "scope": {"deny_patterns": [f"^http://[^/]*{trap}" for trap in TRAPS]},
    "trajectory": {"enabled": False},
}


def config_for(world: WebWorld, **more: Any) -> WebConfig:
    hosts = {"scope": {"allowed_hosts": list(world.site.hosts)}}
    return WebConfig.model_validate(beneath(beneath(QUICK, hosts), more))


@dataclass(frozen=True, slots=True)
class Crawled:
    ending: Ending
    counts: Counts
    settled: Counter[Reason]
    failures: dict[str, Failure] = field(default_factory=dict)


async def crawled(
    config: WebConfig, workspace: Path, seeds: Iterable[str], run: str = "r1", **limits: Any
) -> Crawled:
    clock = SystemClock()
    order = RunRequest(run, tuple(seeds))
    async with open_crawl(config, workspace, clock, CrawlMetrics("web", clock), order) as parts:
        control = Control(config.limits.global_concurrency)
        ending = await crawl(parts, engine_limits(config), control)
        store: Ledger = parts.store  # type: ignore[assignment]
        failures = {one.key: one async for one in store.failures()}
        return Crawled(ending, await store.counts(), control.figures.settled, failures)


async def scraped(
    config: WebConfig, workspace: Path, run: str = "s1", again: bool = True
) -> Crawled:
    clock = SystemClock()
    opened = open_scrape(
        config, workspace, clock, CrawlMetrics("web", clock), RunRequest(run), again=again
    )
    async with opened as parts:
        control = Control(config.limits.global_concurrency)
        ending = await crawl(parts, engine_limits(config), control)
        return Crawled(ending, await parts.store.counts(), control.figures.settled)


def index(workspace: Path) -> dict[str, KnownPage]:
    pages = PageIndex(workspace / INDEX, readonly=True)
    try:
        return {page.url: page for page in pages.pages()}
    finally:
        pages.close()


def captures(workspace: Path) -> list[CaptureLine]:
    """Of crawls, then of scrapes."""
    return [line for role in ROLES for line in read_captures(workspace / role.log)]


def page_keys(workspace: Path) -> list[str]:
    """The keys of the pages in the index, as often as they are there."""
    return [KEYS.key(url) for url, page in index(workspace).items() if page.http_status == 200]


def page_rows(world: WebWorld) -> list[dict[str, Any]]:
    return [row for row in read_manifest(world.manifest) if row["type"] == "page"]


def reachable(world: WebWorld, *ways: str) -> set[str]:
    """Keys of what a crawl must capture that obeys and that follows these ways."""
    healthy = {
        row["host"]
        for row in read_manifest(world.manifest)
        if row["type"] == "host" and row["recovers"]
    }
    return {
        KEYS.key(row["url"])
        for row in page_rows(world)
        if row["allowed"] and row["status"] == 200 and row["via"] in ways and row["host"] in healthy
    }


def requests(log: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in log.read_text().splitlines()]


def asked(log: Path) -> Counter[str]:
    return Counter(
        KEYS.key(f"http://{row['host']}:{row['port']}{row['path']}") for row in requests(log)
    )


def forbidden(world: WebWorld) -> set[str]:
    return {KEYS.key(row["url"]) for row in page_rows(world) if not row["allowed"]}


def gaps(log: Path) -> dict[str, float]:
    """By host, the shortest time from the end of one answer to the next request."""
    by_host: dict[str, list[tuple[float, float]]] = defaultdict(list)
    for row in requests(log):
        by_host[row["host"]].append((row["time"], row["end"]))
    return {
        host: min(
            (later[0] - earlier[1] for earlier, later in itertools.pairwise(spans)),
            default=float("inf"),
        )
        for host, spans in ((host, sorted(spans)) for host, spans in by_host.items())
    }


def host_of(url: str) -> str:
    return urlsplit(url).hostname or ""
