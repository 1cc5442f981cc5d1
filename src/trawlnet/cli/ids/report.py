"""`trawlnet ids report`: writes an HTML page about an ids crawl."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from trawlnet.cli.common.flags import Folder, Json
from trawlnet.cli.common.report import PAGE, Output, nothing, publish
from trawlnet.cli.common.sections import load_section
from trawlnet.cli.common.verb import READS, Verb
from trawlnet.cli.common.workspace import find, shown
from trawlnet.crawlers.ids.config import IdsConfig
from trawlnet.crawlers.ids.report import as_json, as_report
from trawlnet.crawlers.ids.report_survey import survey_ids


def report(
    *, workspace: Folder, output: Output = PAGE, json: Json = False, flags: Mapping[str, Any]
) -> int:
    """Write a page about an ids crawl: lag, gaps, decisions, and the stored items.

    Writes only the page; a crawl and a store may run meanwhile.
    """
    place = find(workspace, "ids")
    config = load_section(place, IdsConfig, flags).config
    facts = asyncio.run(survey_ids(config, workspace))
    if facts is None:
        raise nothing(place)
    where = shown(place.path)
    return publish(json, output, lambda: as_json(facts), lambda now: as_report(facts, where, now))


REPORT = Verb(
    report,
    "ids report -w ./net -o report.html",
    READS,
    "ids",
    IdsConfig,
    ("postgres", "store"),
    hidden=("store",),
)
