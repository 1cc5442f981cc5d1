"""`trawlnet web report`: what a web crawl has captured, as a page."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trawlnet.captures.counters import latest
from trawlnet.captures.shared_archive import LOGS
from trawlnet.cli.common.bar import progress_bar
from trawlnet.cli.common.flags import Folder, Json
from trawlnet.cli.common.report import PAGE, Output, nothing, publish
from trawlnet.cli.common.sections import load_section
from trawlnet.cli.common.verb import READS, Verb
from trawlnet.cli.common.workspace import Workspace, find, shown
from trawlnet.cli.web.replay import archived_at
from trawlnet.crawlers.web.config import WebConfig
from trawlnet.crawlers.web.ledger import open_ledger
from trawlnet.crawlers.web.report import WebFacts, as_json, as_report
from trawlnet.crawlers.web.survey import WebSurvey, log_bytes, survey_archive, survey_captures
from trawlnet.engine.ports import Counts


def report(
    *, workspace: Folder, output: Output = PAGE, json: Json = False, flags: Mapping[str, Any]
) -> int:
    """Write a page about a web crawl: hosts, types, status codes, depth, sizes, hours.

    The capture log is read once, in bounded memory, also while a crawl runs; of a fleet, what its
    archive lists. With --json the figures go to stdout, and no page is written.
    """
    place = Workspace(workspace, "web")
    config = load_section(place, WebConfig, flags).config
    where = config.archive or shown(place.path)
    seen = _seen_in_archive(config.archive) if config.archive else _seen_here(workspace)

    async def counted() -> Counts:
        async with open_ledger(config, place.state) as ledger:
            return await ledger.counts()

    counters = latest(workspace / config.metrics.crawler_csv)
    facts = WebFacts(seen, asyncio.run(counted()), counters)
    return publish(json, output, lambda: as_json(facts), lambda now: as_report(facts, where, now))


def _seen_here(workspace: Path) -> WebSurvey:
    place = find(workspace, "web")
    if not (total := log_bytes(workspace)):
        raise nothing(place)
    with progress_bar("reading", total) as progress:
        return survey_captures(workspace, progress)


def _seen_in_archive(archive: str) -> WebSurvey:
    objects = archived_at(archive)
    with progress_bar("reading", sum(objects.sizes(LOGS).values())) as progress:
        return survey_archive(objects, progress)


REPORT = Verb(
    report,
    "web report -w ./net -o report.html",
    READS,
    "web",
    WebConfig,
    ("redis_address", "archive"),
    {"redis_address": "--store"},
)
