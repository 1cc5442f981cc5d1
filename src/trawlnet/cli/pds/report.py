"""`trawlnet pds report`: the registry of PDSes, as a page."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Any

from trawlnet.cli.common.flags import Folder, Json
from trawlnet.cli.common.report import PAGE, Output, nothing, publish
from trawlnet.cli.common.sections import load_section
from trawlnet.cli.common.verb import READS, Verb
from trawlnet.cli.common.workspace import Workspace, find, located, shown
from trawlnet.crawlers.pds.config import PdsConfig
from trawlnet.crawlers.pds.registry_place import registry_place
from trawlnet.crawlers.pds.report import as_json, as_report
from trawlnet.observe.history import read_history
from trawlnet.observe.live import HISTORY
from trawlnet.observe.reports.page import Report
from trawlnet.tables.registry.report import registry_figures

_SAMPLES = 20_000  # More than a history keeps.


def report(
    *, workspace: Folder, output: Output = PAGE, json: Json = False, flags: Mapping[str, Any]
) -> int:
    """Write a page about the registry: status, sources, scans, records, failures.

    Writes only the page; scans may run meanwhile.
    """
    here = Workspace(workspace, "pds", given=located(flags))
    config = load_section(here, PdsConfig, flags).config
    place = here if "://" in config.registry else find(workspace, "pds", flags)
    figures = asyncio.run(registry_figures(registry_place(config, workspace), time.time()))
    if figures is None:
        raise nothing(place, "discover")
    history = read_history(place.state / HISTORY, 0.0, _SAMPLES)
    where = shown(place.path)

    def page(now: float) -> Report:
        return as_report(figures, history, where, now)

    return publish(json, output, lambda: as_json(figures), page)


REPORT = Verb(report, "pds report -w ./net -o report.html", READS, "pds", PdsConfig, ("registry",))
