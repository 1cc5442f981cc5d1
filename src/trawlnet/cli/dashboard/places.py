"""The crawls that a dashboard shows, and where it reads each of them from."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from trawlnet.cli.common.errors import CliError, NoWorkspace, explain
from trawlnet.cli.common.sections import load_section
from trawlnet.cli.common.workspace import Workspace, holder, locked, shown
from trawlnet.cli.crawl.crawler import Crawler, of_another
from trawlnet.cli.crawl.status import status_row
from trawlnet.cli.dashboard.panels import panels_of
from trawlnet.cli.ids.crawler import IDS
from trawlnet.cli.pds.crawler import PDS
from trawlnet.cli.repos.crawler import REPOS
from trawlnet.cli.web.crawler import WEB
from trawlnet.crawlers.repos.config import ReposConfig
from trawlnet.engine.outcome import Reason
from trawlnet.engine.ports import Clock
from trawlnet.loading import load
from trawlnet.net.redact import redact
from trawlnet.observe.dashboard.place import CrawlerFacts, CrawlPlace, Unreadable
from trawlnet.observe.dashboard.workspace import WorkspacePlace, WorkspaceSource
from trawlnet.stores.errors import StoreError

_CRAWLERS: tuple[Crawler[Any], ...] = (REPOS, PDS, IDS, WEB)
# A web crawl and a scrape are steered by names of their own as well.
_ALSO = {"web": ("crawler", "scraper")}


def places_of(path: Path, clock: Clock, fleets: Sequence[CrawlPlace] = ()) -> list[CrawlPlace]:
    """The fleets, then the other crawlers with state here, the most recently active first. Raises
    NoWorkspace."""
    known = {place.crawler for place in fleets}
    found = [
        (_busy_at(workspace), crawler, workspace)
        for crawler in _CRAWLERS
        if (workspace := _workspace(path, crawler.name)).state.is_dir()
        and crawler.name not in known
    ]
    if not found and not fleets:
        raise NoWorkspace(
            f"no crawl has begun in {shown(path)}",
            f"start one, such as: trawlnet repos crawl -w {shown(path)}",
        )
    found.sort(key=lambda one: -one[0])
    here = [WorkspacePlace(_asked(crawler, workspace), clock) for _, crawler, workspace in found]
    return [*fleets, *here]


def fleets_of(path: Path, store: str) -> dict[str, str]:
    """The crawlers that run as a fleet, with the address of their Redis: from `--store`, else from
    the config of the workspace. Raises the error of a server that `--store` names."""
    if store:
        flags = {"store": store}
        return _named(load_section(_workspace(path, "repos"), ReposConfig, flags).config)
    # Of other crawlers, each process is shown on its own.
    return {
        crawler.name: config.redis_address
        for crawler in (REPOS, WEB)
        if _is_fleet(config := _config(crawler, path), _workspace(path, crawler.name))
    }


def _config(crawler: Crawler[Any], path: Path) -> Any:
    return load_section(_workspace(path, crawler.name), crawler.config).config


def _is_fleet(config: Any, workspace: Workspace) -> bool:
    if not config.redis_address or holder(workspace) is not None:
        return False
    if config.fleet:
        return True
    try:
        return _fleet_at(config.redis_address) == workspace.crawler
    except StoreError:
        return False  # The page shows that the server does not answer.


def _named(config: ReposConfig) -> dict[str, str]:
    url = config.redis_address
    if crawler := _fleet_at(url):
        return {crawler: url}
    raise CliError(
        f"no fleet has begun in {redact(url)}",
        "start one: trawlnet repos crawl --fleet local --store URL; "
        "of ids: trawlnet fleet status --ids --store URL",
    )


def _fleet_at(url: str) -> str:
    """The crawler of the fleet in this Redis; empty if there is no fleet."""
    fleet_at = load("trawlnet.cli.dashboard.fleet:fleet_at")  # Needs Redis, an extra.
    return str(asyncio.run(fleet_at(url)))


def _workspace(path: Path, name: str) -> Workspace:
    return Workspace(path, name, _ALSO.get(name, ()))


def _busy_at(workspace: Workspace) -> float:
    try:
        return max(one.snapshot_file.stat().st_mtime for one in _begun(workspace))
    except (OSError, ValueError):
        return 0.0


def _begun(workspace: Workspace) -> list[Workspace]:
    return [one for one in workspace.by_role if one.snapshot_file.exists()]


def _figures(workspace: Workspace) -> Path:
    """The figures of the running process, a crawl before a scrape; else of the last one."""
    at_work = (one for one in workspace.by_role if holder(one) is not None)
    latest = max(_begun(workspace), key=_busy_at, default=workspace)
    return next(at_work, latest).figures


def _asked(crawler: Crawler[Any], workspace: Workspace) -> WorkspaceSource:
    def config() -> Any:
        return load_section(workspace, crawler.config).config

    async def counts() -> Mapping[str, Any]:
        with _read():
            async with crawler.ledger(config(), workspace.state) as ledger:
                return status_row(crawler.name, await ledger.counts())

    async def facts() -> CrawlerFacts:
        with _read():
            found = await crawler.facts(config(), workspace.path)
            panels = await panels_of(crawler.name, config(), workspace, found)
            return CrawlerFacts(found, panels, leads=crawler is PDS)

    async def retry(reason: Reason | None) -> int:
        with _read(), locked(workspace):
            if held := await crawler.held_by(config(), workspace.path):
                raise Unreadable(of_another(held))
            async with crawler.ledger(config(), workspace.state) as ledger:
                return await ledger.retry(reason)

    return WorkspaceSource(
        crawler=crawler.name,
        workspace=workspace.path,
        folder=lambda: _figures(workspace),
        holder=lambda: holder(workspace),
        flag=workspace.flag,
        counts=counts,
        facts=facts,
        retry=retry,
    )


@contextmanager
def _read() -> Iterator[None]:
    """Turn a known error into a sentence on the page; any other is a bug."""
    try:
        yield
    except Exception as error:
        known = explain(error)
        if known is None:
            raise
        raise Unreadable(known.message) from error
