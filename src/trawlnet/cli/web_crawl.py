"""The verbs of `trawlnet web` that fetch: crawl, scrape, run and resume."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trawlnet.cli.crawler import Crawler, Plan
from trawlnet.cli.dashboard_child import variables_for, with_dashboard
from trawlnet.cli.errors import Exit, UsageTrouble
from trawlnet.cli.flags import Board, Folder, Json, variables, with_flags
from trawlnet.cli.settings import Settings
from trawlnet.cli.talk import say
from trawlnet.cli.verbs import add_shared_verbs
from trawlnet.cli.web_flags import WebFlags, load_web
from trawlnet.cli.workspace import create
from trawlnet.crawlers.web.config import WebConfig
from trawlnet.crawlers.web.work import url_of_key
from trawlnet.engine.crawl import Parts
from trawlnet.engine.ports import Clock, Ledger
from trawlnet.net.redact import redact
from trawlnet.observe.alert_shapes import Webhook

if TYPE_CHECKING:  # Only a crawl that runs pays for the import.
    from trawlnet.observe.metrics import Metrics

Seeds = Annotated[
    list[str] | None,
    typer.Argument(metavar="[SEED]...", show_default=False, help="URLs to start from."),
]
_GOOD = (Exit.DONE, Exit.GIVEN_UP)


@dataclass(frozen=True, slots=True)
class Ask:
    """How a run tells what it does."""

    as_json: bool
    dashboard: str


def add_crawl_verbs(app: typer.Typer) -> None:
    for verb, example in (
        (crawl, "crawl -w ./site https://example.org/ --user-agent 'Bot/1.0 (+https://a.org)'"),
        (scrape, "scrape -w ./site"),
        (run, "run -w ./site https://example.org/"),
        (resume, "resume -w ./site"),
    ):
        app.command(
            verb.__name__,
            epilog=f"Example: trawlnet web {example}",
            context_settings=variables("web"),
        )(with_flags(WebFlags, WebFlags.model_fields, verb))
    add_shared_verbs(app, WEB, with_crawl=False)


def crawl(
    seeds: Seeds = None,
    *,
    workspace: Folder,
    dashboard: Board = "",
    json: Json = False,
    flags: Mapping[str, Any],
) -> int:
    """Crawl from the seeds, or continue: there is no difference.

    Every key of trawlnet.yaml can be set with --set, and every flag as a variable
    (TRAWLNET_WEB_MAX_PAGES=50).
    """
    return _crawl(workspace, Ask(json, dashboard), flags, tuple(seeds or ()))


def scrape(
    *, workspace: Folder, dashboard: Board = "", json: Json = False, flags: Mapping[str, Any]
) -> int:
    """Ask for every URL of the discovery spool again; what is unchanged is not sent again."""
    _refuse_many(workspace, flags, "scrape")
    return _scrape(workspace, Ask(json, dashboard), flags, again=True)


def run(
    seeds: Seeds = None,
    *,
    workspace: Folder,
    dashboard: Board = "",
    json: Json = False,
    flags: Mapping[str, Any],
) -> int:
    """Do everything: crawl, then fetch what others have put into the discovery spool."""
    ask = Ask(json, dashboard)
    _refuse_many(workspace, flags, "run")
    code = _crawl(workspace, ask, flags, tuple(seeds or ()))
    if code not in _GOOD:
        return code
    return _scrape(workspace, ask, flags, again=False) or code


def resume(
    seeds: Seeds = None,
    *,
    workspace: Folder,
    dashboard: Board = "",
    json: Json = False,
    flags: Mapping[str, Any],
) -> int:
    """The same as run: a crawl always continues where it was."""
    return run(seeds, workspace=workspace, dashboard=dashboard, json=json, flags=flags)


def _crawl(path: Path, ask: Ask, flags: Mapping[str, Any], seeds: tuple[str, ...]) -> int:
    def opened(
        config: WebConfig, workspace: Path, clock: Clock, metrics: Metrics
    ) -> AbstractAsyncContextManager[Parts]:
        from trawlnet.crawlers.web.build import Order, open_crawl

        return open_crawl(config, workspace, clock, metrics, Order(_run_id(), seeds))

    def ready(config: WebConfig, workspace: Path) -> None:
        from trawlnet.crawlers.web.build import check_crawl

        check_crawl(config, workspace, seeds)

    config = load_web(path, flags).config
    if config.fleet:
        return _crawl_with_many(config, path, ask, seeds)
    return _run(replace(WEB, open=opened, ready=ready), path, ask, flags, "crawler")


def _crawl_with_many(config: WebConfig, path: Path, ask: Ask, seeds: tuple[str, ...]) -> int:
    from trawlnet.cli.fleet_web import run_web_fleet  # Heavy, and not always installed.
    from trawlnet.crawlers.web.build import check_crawl
    from trawlnet.crawlers.web.shared import check_shareable

    check_shareable(config)
    check_crawl(config, path, seeds)
    workspace = create(path, "web")
    told = variables_for("web", config, (*WEB.located_by, "fleet"))
    with with_dashboard(ask.dashboard, workspace, told):
        return run_web_fleet(config, workspace, seeds, ask.as_json)


def _refuse_many(path: Path, flags: Mapping[str, Any], verb: str) -> None:
    if load_web(path, flags).config.fleet:
        raise UsageTrouble(
            f"web {verb} works off the discovery spool, which a fleet does not write",
            "use web crawl with --fleet, and read its archive: web replay --archive",
        )


def _scrape(path: Path, ask: Ask, flags: Mapping[str, Any], *, again: bool) -> int:
    def opened(
        config: WebConfig, workspace: Path, clock: Clock, metrics: Metrics
    ) -> AbstractAsyncContextManager[Parts]:
        from trawlnet.crawlers.web.build import Order, open_scrape

        return open_scrape(config, workspace, clock, metrics, Order(_run_id()), again=again)

    # Without `again` this is the second half of `run`.
    verb = "scrape" if again else "run"
    return _run(replace(WEB, open=opened, verb=verb), path, ask, flags, "scraper")


def _run(
    crawler: Crawler[WebConfig], path: Path, ask: Ask, flags: Mapping[str, Any], role: str
) -> int:
    from trawlnet.cli.run import Job, check_ready, run_crawl  # Heavy: only a crawl pays for it.

    # The config is read first: a mistake in it creates no workspace.
    settings = load_web(path, flags)
    check_ready(crawler, settings.config, path)
    say(_manners(settings.config))
    workspace = replace(create(path, crawler.name), also=(role,))

    def reload() -> Settings[WebConfig]:
        return load_web(path, flags)

    return run_crawl(Job(crawler, workspace, settings, reload, ask.as_json, ask.dashboard))


def _manners(config: WebConfig) -> str:
    """Whoever crawls in somebody's name sees in whose."""
    from trawlnet.crawlers.web.site import agent_of

    obeyed = "is obeyed" if config.robots.obey else "is NOT obeyed"
    return f"asking as {agent_of(config)}; robots.txt {obeyed}"


def _run_id() -> str:
    return f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}"


def _plan(config: WebConfig) -> Plan:
    from trawlnet.crawlers.web.plan import engine_limits, manners_of

    return Plan(
        config.limits.global_concurrency,
        manners_of(config),
        engine_limits(config),
        config.metrics_address,
        Webhook(config.webhook, config.webhook_shape),
    )


def _open(
    config: WebConfig, workspace: Path, clock: Clock, metrics: Metrics
) -> AbstractAsyncContextManager[Parts]:
    raise AssertionError("crawl and scrape bring their own")


def _ready(config: WebConfig, workspace: Path) -> None:
    from trawlnet.crawlers.web.site import agent_of

    agent_of(config)


@asynccontextmanager
async def _ledger(config: WebConfig, state: Path) -> AsyncIterator[Ledger]:
    from trawlnet.crawlers.web.build import open_ledger

    async with open_ledger(config, state) as ledger:
        yield ledger


async def _forget(config: WebConfig) -> None:
    from trawlnet.crawlers.web.build import redis_url
    from trawlnet.store.open import erase_store

    if config.redis_address:
        await erase_store(redis_url(config))


def _remote(config: WebConfig) -> str:
    if not config.redis_address:
        return ""
    return f"the keys crawler:* in {redact(config.redis_address)}"


async def _facts(config: WebConfig, workspace: Path) -> Mapping[str, Any]:
    from trawlnet.crawlers.web.build import unread_bytes
    from trawlnet.sink.capture_files import count_pages

    if config.archive and config.redis_address:
        return await _archived(config)
    segments = [*(workspace / config.spool.discoveries_dir).glob("discoveries-*.jsonl")]
    facts = {
        "spool_files": len(segments),
        "spool_bytes": sum(one.stat().st_size for one in segments),
        "spool_unread_bytes": unread_bytes(config, workspace),
        "left_out": _left_out(workspace),
    }
    return {"pages": count_pages(workspace), **facts}


def _left_out(workspace: Path) -> Mapping[str, int]:
    from trawlnet.crawlers.web.left_out import read_left_out

    return read_left_out(workspace)


def _tell_left_out(left_out: Mapping[str, int]) -> list[str]:
    from trawlnet.crawlers.web.left_out import worth_telling

    return worth_telling(left_out)


async def _archived(config: WebConfig) -> Mapping[str, Any]:
    from trawlnet.crawlers.web.build import redis_url
    from trawlnet.store.redis_fleet import FleetKeys

    keys = await FleetKeys.open(redis_url(config))
    try:
        lines = await keys.manifest()
    finally:
        await keys.close()
    return {"logs": len(lines), "captures": sum(line["captures"] for line in lines)}


WEB = Crawler(
    name="web",
    config=WebConfig,
    plan=_plan,
    open=_open,
    ledger=_ledger,
    remote=_remote,
    forget=_forget,
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
    left_out=_left_out,
    tell_left_out=_tell_left_out,
)
