"""The verb `crawl` of a crawler whose flags are the keys of its config."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trawlnet.cli.common.flags import Board, Folder, Json
from trawlnet.cli.common.output import say
from trawlnet.cli.common.sections import load_section
from trawlnet.cli.common.settings import Settings
from trawlnet.cli.common.verb import CRAWLS, Verb
from trawlnet.cli.common.workspace import Workspace, create
from trawlnet.cli.crawl.crawler import C, RunnableCrawler
from trawlnet.cli.crawl.run import Job, check_ready, run_crawl, run_fleet
from trawlnet.stores.errors import Fenced

Flags = Mapping[str, Any]  # The flags of the command line, by config key.


def crawl(runnable: RunnableCrawler[C]) -> Verb:
    crawler = runnable.crawler

    def run(*, workspace: Folder, dashboard: Board = "", json: Json = False, flags: Flags) -> int:
        """Start the crawl, or continue it; the command is the same.

        A flag can also be a key of trawlnet.yaml (workers: 50 in the crawler's section) or a
        variable (TRAWLNET_<CRAWLER>_WORKERS=50).
        """
        return start(runnable, workspace, json, flags, dashboard)

    return Verb(
        run,
        f"{crawler.name} crawl -w ./net {crawler.example}",
        CRAWLS,
        crawler.name,
        crawler.config,
        crawler.config.model_fields,
        crawler.spellings,
    )


def start(
    runnable: RunnableCrawler[C], path: Path, as_json: bool, flags: Flags, dashboard: str
) -> int:
    """Runs until the crawl ends; returns the exit code."""
    crawler = runnable.crawler

    def reload() -> Settings[C]:
        return load_section(Workspace(path, crawler.name), crawler.config, flags)

    # The config is read first: a mistake in it creates no workspace.
    settings = reload()
    check_ready(crawler, settings.config, path)
    workspace = create(path, crawler.name, flags)
    job = Job(runnable, workspace, settings, reload, as_json, dashboard)
    if (code := run_fleet(job)) is not None:
        return code
    while True:
        try:
            return run_crawl(job)
        except Fenced as replaced:  # Another process took over: this one becomes the standby.
            say(f"{replaced.message}; {replaced.hint}")
