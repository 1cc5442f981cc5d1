"""`trawlnet web`: crawls web sites, as politely as they ask for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trawlnet.captures.role import count_pages
from trawlnet.cli.crawl.crawler import Crawler, CrawlPlan
from trawlnet.cli.crawl.redis_state import erase, holder_in, shown_keys
from trawlnet.crawlers.web.admission.left_out import PRIVATE, read_left_out, worth_telling
from trawlnet.crawlers.web.config import WebConfig
from trawlnet.crawlers.web.discoveries import unread_bytes
from trawlnet.crawlers.web.ledger import open_ledger, redis_url
from trawlnet.crawlers.web.plan import engine_limits, manners_of
from trawlnet.crawlers.web.work import url_of_key
from trawlnet.loading import load
from trawlnet.observe.alerts.shapes import Webhook


@dataclass(frozen=True, slots=True)
class RunOutput:
    """How a run reports what it does."""

    as_json: bool
    dashboard: str  # Where to serve one, as HOST:PORT; empty for nowhere.


def _plan(config: WebConfig) -> CrawlPlan:
    return CrawlPlan(
        config.limits.global_concurrency,
        manners_of(config),
        engine_limits(config),
        config.metrics_address,
        Webhook(config.webhook, config.webhook_shape),
    )


def _ready(config: WebConfig, workspace: Path) -> None:
    load("trawlnet.crawlers.web.visiting.site:agent_of")(config)


async def _forget(config: WebConfig) -> None:
    await erase(redis_url(config))


async def _held_by(config: WebConfig, workspace: Path) -> str:
    return await holder_in(redis_url(config), workspace, "web")


def _remote(config: WebConfig) -> str:
    return shown_keys(config.redis_address)


async def _facts(config: WebConfig, workspace: Path) -> Mapping[str, Any]:
    if _is_elsewhere(config, workspace):
        return await _archived(config)
    segments = [*(workspace / config.spool.discoveries_dir).glob("discoveries-*.jsonl")]
    facts = {
        "spool_files": len(segments),
        "spool_bytes": sum(one.stat().st_size for one in segments),
        "spool_unread_bytes": unread_bytes(config, workspace),
        "left_out": read_left_out(workspace),
    }
    return {"pages": count_pages(workspace), **facts}


def _is_elsewhere(config: WebConfig, workspace: Path) -> bool:
    """Whether the state is in Redis: of a fleet, or of a crawl without a workspace here."""
    return bool(config.redis_address) and (bool(config.archive) or not workspace.exists())


async def _archived(config: WebConfig) -> Mapping[str, Any]:
    keys = await load("trawlnet.stores.redis.fleet.shards:FleetKeys").open(redis_url(config))
    try:
        lines, left_out = await keys.manifest(), await keys.left_out()
    finally:
        await keys.close()
    captures = sum(line["captures"] for line in lines)
    return {"logs": len(lines), "captures": captures, "left_out": left_out}


WEB = Crawler(
    name="web",
    config=WebConfig,
    plan=_plan,
    ledger=open_ledger,
    remote=_remote,
    forget=_forget,
    held_by=_held_by,
    outputs=(
        "store/html",
        "warc",
        "spool/discoveries",
        "state/spool_bookmark.json*",
        "logs/pages-*.csv",
        "logs/edges*.csv",
        "logs/*_metrics*.csv",
    ),
    public_key=url_of_key,
    example="https://example.org/",
    located_by=("redis_address",),
    spellings={"redis_address": "--store"},
    live=frozenset(("limits",)),
    ready=_ready,
    facts=_facts,
    left_out=read_left_out,
    tell_left_out=worth_telling,
    private=PRIVATE,
)
