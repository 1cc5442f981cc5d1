"""The verbs of `trawlnet web` that fetch: crawl, scrape, run and resume."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from trawlnet.cli.common.errors import Exit, UsageTrouble
from trawlnet.cli.common.flags import Board, Folder, Json, argument
from trawlnet.cli.common.output import say
from trawlnet.cli.common.settings import Settings
from trawlnet.cli.common.verb import CRAWLS, Verb
from trawlnet.cli.common.workspace import Workspace, create, holder
from trawlnet.cli.crawl.crawler import RunnableCrawler
from trawlnet.cli.crawl.run import Job, check_ready, run_crawl
from trawlnet.cli.web.crawler import WEB, RunOutput
from trawlnet.cli.web.flags import load_web
from trawlnet.cli.web.keys import WebFlags
from trawlnet.crawlers.web.build import (
    RunRequest,
    check_crawl,
    open_crawl,
    open_scrape,
)
from trawlnet.crawlers.web.config import WebConfig
from trawlnet.crawlers.web.visiting.site import agent_of
from trawlnet.engine.crawl import Parts
from trawlnet.engine.ports import Clock
from trawlnet.loading import load
from trawlnet.observe.metrics.crawl import CrawlMetrics

Seeds = Annotated[list[str] | None, argument("SEED", "URLs to start from.")]


class _WebRole(NamedTuple):
    """The verb, and its role in the workspace; empty for both roles."""

    verb: str
    role: str


_CRAWL, _SCRAPE, _RUN = (
    _WebRole("crawl", "crawl"),
    _WebRole("scrape", "scrape"),
    _WebRole("run", ""),
)
_GOOD = (Exit.DONE, Exit.GIVEN_UP)


def crawl(
    seeds: Seeds = None,
    *,
    workspace: Folder,
    dashboard: Board = "",
    json: Json = False,
    flags: Mapping[str, Any],
) -> int:
    """Start the crawl from its seeds, or continue it; the command is the same.

    Every key of trawlnet.yaml can be set with --set, and every flag as a variable
    (TRAWLNET_WEB_MAX_PAGES=50).
    """
    return _crawl(workspace, RunOutput(json, dashboard), flags, tuple(seeds or ()), _CRAWL)


def scrape(
    *, workspace: Folder, dashboard: Board = "", json: Json = False, flags: Mapping[str, Any]
) -> int:
    """Fetch every URL of the discovery spool again, with the validators of the last answer.

    A server answers 304 without a body if the page has not changed. While a crawl of the same
    workspace runs, scrape waits for more URLs; it ends after the crawl.
    """
    _refuse_many(workspace, flags, "scrape")
    return _scrape(workspace, RunOutput(json, dashboard), flags, _SCRAPE)


def run(
    seeds: Seeds = None,
    *,
    workspace: Folder,
    dashboard: Board = "",
    json: Json = False,
    flags: Mapping[str, Any],
) -> int:
    """Crawl, then fetch what other programs have put into the discovery spool."""
    ask = RunOutput(json, dashboard)
    _refuse_many(workspace, flags, "run")
    code = _crawl(workspace, ask, flags, tuple(seeds or ()), _RUN)
    if code not in _GOOD:
        return code
    return _scrape(workspace, ask, flags, _RUN) or code


def resume(
    seeds: Seeds = None,
    *,
    workspace: Folder,
    dashboard: Board = "",
    json: Json = False,
    flags: Mapping[str, Any],
) -> int:
    """Another name of run: every run continues where the last one stopped."""
    return run(seeds, workspace=workspace, dashboard=dashboard, json=json, flags=flags)


def _crawl(
    path: Path, ask: RunOutput, flags: Mapping[str, Any], seeds: tuple[str, ...], part: _WebRole
) -> int:
    def opened(
        config: WebConfig, workspace: Path, clock: Clock, metrics: CrawlMetrics
    ) -> AbstractAsyncContextManager[Parts[Any]]:
        return open_crawl(config, workspace, clock, metrics, RunRequest(_run_id(), seeds))

    def ready(config: WebConfig, workspace: Path) -> None:
        check_crawl(config, workspace, seeds)

    config = load_web(path, flags).config
    if config.fleet:
        crawl_with_many: Callable[..., int] = load("trawlnet.cli.web.fleet:crawl_with_many")
        return crawl_with_many(config, path, seeds, ask)
    crawler = replace(WEB, ready=ready, verb=part.verb)
    return _run(RunnableCrawler(crawler, opened), path, ask, flags, ("crawler", part.role))


def _refuse_many(path: Path, flags: Mapping[str, Any], verb: str) -> None:
    if load_web(path, flags).config.fleet:
        raise UsageTrouble(
            f"web {verb} works off the discovery spool, which a fleet does not write",
            "use web crawl with --fleet, and read its archive: web replay --archive",
        )


def _scrape(path: Path, ask: RunOutput, flags: Mapping[str, Any], part: _WebRole) -> int:
    crawling = Workspace(path, "web", role=_CRAWL.role)

    def is_crawling() -> bool:
        return part is _SCRAPE and holder(crawling) is not None

    def opened(
        config: WebConfig, workspace: Path, clock: Clock, metrics: CrawlMetrics
    ) -> AbstractAsyncContextManager[Parts[Any]]:
        order = RunRequest(_run_id(), is_crawling=is_crawling)
        return open_scrape(config, workspace, clock, metrics, order, again=part is _SCRAPE)

    if is_crawling():
        say(f"pid {holder(crawling)} is crawling here: this command ends after that crawl")
    crawler = RunnableCrawler(replace(WEB, verb=part.verb), opened)
    return _run(crawler, path, ask, flags, ("scraper", part.role))


def _run(
    runnable: RunnableCrawler[WebConfig],
    path: Path,
    ask: RunOutput,
    flags: Mapping[str, Any],
    names: tuple[str, str],
) -> int:
    """`names`: the name for control files, and the role in the workspace."""
    # The config is read first: a mistake in it creates no workspace.
    settings, crawler = load_web(path, flags), runnable.crawler
    check_ready(crawler, settings.config, path)
    say(_manners(settings.config))
    control, role = names
    workspace = replace(create(path, crawler.name, flags), also=(control,), role=role)

    def reload() -> Settings[WebConfig]:
        return load_web(path, flags)

    return run_crawl(Job(runnable, workspace, settings, reload, ask.as_json, ask.dashboard))


def _manners(config: WebConfig) -> str:
    """Show the user agent that the crawl sends."""
    obeyed = "is obeyed" if config.robots.obey else "is NOT obeyed"
    return f"User-Agent: {agent_of(config)}; robots.txt {obeyed}"


def _run_id() -> str:
    return f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}"


CRAWL, SCRAPE, RUN, RESUME = (
    Verb(verb, f"web {example}", CRAWLS, "web", WebFlags, WebFlags.model_fields)
    for verb, example in (
        (crawl, "crawl -w ./site https://example.org/ --user-agent 'Bot/1.0 (+https://a.org)'"),
        (scrape, "scrape -w ./site"),
        (run, "run -w ./site https://example.org/"),
        (resume, "resume -w ./site"),
    )
)
