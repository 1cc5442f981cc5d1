"""`trawlnet ids`: keeps up with an API of sequential ids."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

from trawlnet.cli.common.workspace import Workspace, holder
from trawlnet.cli.crawl.crawler import Crawler, CrawlPlan, RunnableCrawler
from trawlnet.cli.crawl.redis_state import shown_keys
from trawlnet.crawlers.contact import agent_for
from trawlnet.crawlers.ids.alerts import OWN_ALERTS
from trawlnet.crawlers.ids.api.presets import api_of
from trawlnet.crawlers.ids.config import IdsConfig, limits, manners
from trawlnet.crawlers.ids.controller import ledger_row
from trawlnet.crawlers.ids.ledger.notes import read_now
from trawlnet.crawlers.ids.ledger.open_ledger import (
    check_shareable,
    is_begun,
    ledger_to_write,
    looked_at,
)
from trawlnet.crawlers.ids.storing.backlog import backlog_row, read_backlog
from trawlnet.crawlers.ids.storing.locations import KEYS, queue_place
from trawlnet.engine.crawl import Parts
from trawlnet.engine.ports import Clock, Ledger
from trawlnet.loading import load
from trawlnet.net.clock import SystemClock
from trawlnet.observe.alerts.shapes import Webhook
from trawlnet.observe.metrics.crawl import CrawlMetrics
from trawlnet.queues.open import open_queue
from trawlnet.stores.memory import MemoryStore
from trawlnet.stores.open import erase_store


def _plan(config: IdsConfig) -> CrawlPlan:
    return CrawlPlan(
        config.first_workers,
        manners(config),
        limits(config),
        config.metrics_address,
        Webhook(config.webhook, config.webhook_shape),
        OWN_ALERTS,
    )


_STANDBY = "trawlnet.cli.ids.standby"  # Needs Redis, an extra.
# Most of the crawler is imported by `crawl` alone, so that other verbs begin in half the time.
_BUILD = "trawlnet.crawlers.ids.build"


def _open(
    config: IdsConfig, workspace: Path, clock: Clock, metrics: CrawlMetrics
) -> AbstractAsyncContextManager[Parts[Any]]:
    place = f"{_STANDBY}:open_in_turn" if config.redis_address else f"{_BUILD}:open_parts"
    parts: AbstractAsyncContextManager[Parts[Any]] = load(place)(config, workspace, clock, metrics)
    return parts


@asynccontextmanager
async def _ledger(config: IdsConfig, state: Path) -> AsyncIterator[Ledger]:
    # `status` must not create a ledger, and a process without the lock only reads.
    begun = is_begun(config, state)
    if begun and holder(Workspace(state.parents[1], state.name)) == os.getpid():
        async with _alone(config) as token:
            ledger = await ledger_to_write(config, state, token=token)
            try:
                yield ledger
            finally:
                await ledger.close()
        return
    async with looked_at(config, state) as seen:
        yield seen or MemoryStore()


@asynccontextmanager
async def _alone(config: IdsConfig) -> AsyncIterator[str]:
    """Yield the token that allows writes to the ledger; a ledger in a workspace needs none."""
    if not config.redis_address:
        yield ""
        return
    async with load(f"{_STANDBY}:instead_of_a_crawl")(config) as token:
        yield token


def _ready(config: IdsConfig, workspace: Path) -> None:
    load(f"{_BUILD}:server_of")(config)
    check_shareable(config)
    agent_for(config.contact, allow_private=config.allow_private_hosts)


async def _forget(config: IdsConfig) -> None:
    """Delete the ledger in Redis; published messages belong to their consumers."""
    if not config.redis_address:
        return

    async with _alone(config):
        await erase_store(config.redis_address, prefix=KEYS)


def _remote(config: IdsConfig) -> str:
    return shown_keys(config.redis_address, "ids")


_OF_NOW = {"lag_p20_s": None, "newest_id_age_s": None, "workers": 0}  # After the crawl has ended.


async def _backlog(config: IdsConfig, workspace: Path, depth: int | None) -> Mapping[str, Any]:
    """The messages that are published and not stored yet. The crawl and `ids store` measure the
    `depth` of a queue on a server."""
    if not (config.queue or config.redis_address):
        queue = await open_queue(queue_place(config, workspace), api_of(config).queue)
        try:
            depth = await queue.depth()
        finally:
            await queue.close()
    found = read_backlog(Workspace(workspace, "ids").store_figures)
    return backlog_row(found, depth, SystemClock().now())


async def _facts(config: IdsConfig, workspace: Path) -> Mapping[str, Any]:
    place = Workspace(workspace, "ids")
    row: dict[str, Any] = {**_OF_NOW, "key_refused": False, "watermark": None, "queue_depth": None}
    if config.redis_address:
        row |= await load(f"{_STANDBY}:shared_facts")(config, place.state)
    else:
        row |= await _own_facts(config, place)
    row |= await _backlog(config, workspace, row["queue_depth"])
    return row


async def _own_facts(config: IdsConfig, place: Workspace) -> Mapping[str, Any]:
    row = read_now(place.state)
    if holder(place) is not None:
        return row
    # After the end of a crawl only the ledger counts, not its last figures. A refused API key is
    # the exception: many crawls end because of it.
    row |= {**_OF_NOW, "queue_depth": None}
    row.pop("decision", None)
    async with looked_at(config, place.state) as ledger:
        return row | ledger_row(ledger) if ledger is not None else row


IDS = Crawler(
    name="ids",
    config=IdsConfig,
    plan=_plan,
    ledger=_ledger,
    remote=_remote,
    forget=_forget,
    outputs=(
        "spool/instance_store",
        "spool/items",
        "logs/missed.log",
    ),
    public_key=lambda key: key,
    example="--base-url https://www.bungie.net --target 15000000000 --contact you@example.org",
    located_by=("store", "redis_address"),
    lists_by_key=True,
    live=frozenset(("max_rps",)),
    ready=_ready,
    facts=_facts,
    fleet="trawlnet.cli.ids.fleet:run_pair",
)

CRAWL = RunnableCrawler(IDS, _open)
