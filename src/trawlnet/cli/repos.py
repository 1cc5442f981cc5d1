"""`trawlnet repos`: every ATProto repository of every PDS, archived."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from trawlnet.cli.archive import add_archive_verbs
from trawlnet.cli.crawler import Crawler, Plan
from trawlnet.cli.plc import add_plc_verb
from trawlnet.cli.replay import add_table_verbs
from trawlnet.cli.report import add_repos_report
from trawlnet.cli.verbs import add_shared_verbs
from trawlnet.cli.workspace import Workspace
from trawlnet.crawlers.repos.config import ReposConfig, limits, manners
from trawlnet.crawlers.repos.work import did_of
from trawlnet.engine.crawl import Parts
from trawlnet.engine.ports import Clock, Ledger
from trawlnet.net.redact import redact
from trawlnet.observe.alert_shapes import Webhook

if TYPE_CHECKING:  # Only a crawl that runs pays for the import.
    from trawlnet.observe.metrics import Metrics

app = typer.Typer(
    name="repos",
    help="Archive every ATProto repository.",
    rich_markup_mode=None,
    epilog="Example: trawlnet repos status -w ./net",
)


def _plan(config: ReposConfig) -> Plan:
    return Plan(
        config.workers,
        manners(config),
        limits(config),
        config.metrics_address,
        Webhook(config.webhook, config.webhook_shape),
    )


def _open(
    config: ReposConfig, workspace: Path, clock: Clock, metrics: Metrics
) -> AbstractAsyncContextManager[Parts]:
    from trawlnet.crawlers.repos.build import open_parts  # Heavy: only a crawl needs it.

    return open_parts(config, workspace, clock, metrics)


@asynccontextmanager
async def _ledger(config: ReposConfig, state: Path) -> AsyncIterator[Ledger]:
    from trawlnet.crawlers.repos.build import open_ledger
    from trawlnet.store.memory import MemoryStore

    # Looking at a crawl that never began must not begin one.
    if not config.redis_address and not (state / "store").exists():
        yield MemoryStore()
        return
    async with open_ledger(config, state) as ledger:
        yield ledger


def _ready(config: ReposConfig, workspace: Path) -> None:
    from trawlnet.crawlers.repos.given import check_crawl

    check_crawl(config, workspace)


async def _forget(config: ReposConfig) -> None:
    from trawlnet.store.open import erase_store

    if config.redis_address:
        await erase_store(config.redis_address)


def _remote(config: ReposConfig) -> str:
    if not config.redis_address:
        return ""
    return f"the keys crawler:* in {redact(config.redis_address)}"


async def _facts(config: ReposConfig, workspace: Path) -> Mapping[str, Any]:
    from trawlnet.crawlers.repos.facts import facts_about

    return await facts_about(config, workspace)


def _fleet(config: ReposConfig, workspace: Workspace, as_json: bool) -> int | None:
    if not config.fleet:
        return None
    from trawlnet.cli.fleet_crawl import run_fleet  # Heavy, and not always installed.

    return run_fleet(config, workspace, as_json)


REPOS = Crawler(
    name="repos",
    config=ReposConfig,
    plan=_plan,
    open=_open,
    ledger=_ledger,
    remote=_remote,
    forget=_forget,
    outputs=("archive",),
    public_key=did_of,
    example="--contact you@example.org",
    located_by=("redis_address", "store"),
    live=frozenset(("workers", "default_pds_rps", "min_pds_rps", "halve_after", "block_after")),
    ready=_ready,
    facts=_facts,
    fleet=_fleet,
)
add_shared_verbs(app, REPOS)
add_archive_verbs(app)
add_plc_verb(app)
add_table_verbs(app)
add_repos_report(app)
