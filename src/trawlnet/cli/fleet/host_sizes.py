"""The sizes of hosts for a plan, from the registry of PDSes."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from trawlnet.cli.common.errors import CliError
from trawlnet.cli.common.output import say
from trawlnet.cli.common.sections import load_section
from trawlnet.cli.common.workspace import Workspace, find
from trawlnet.crawlers.pds.config import PdsConfig
from trawlnet.crawlers.pds.registry_place import registry_place
from trawlnet.fleet.plan import HostSize
from trawlnet.net.lane import lane_of
from trawlnet.tables.registry.report import account_counts

_HINT = "ask a relay: trawlnet pds discover --relay https://relay.example"


def registered_hosts(workspace: Path, flags: Mapping[str, Any]) -> list[HostSize]:
    """The hosts whose number of accounts is known; prints how many were skipped."""
    config = load_section(Workspace(workspace, "pds"), PdsConfig, flags).config
    if not config.registry:
        find(workspace, "pds")
    counts = asyncio.run(account_counts(registry_place(config, workspace)))
    if counts is None:
        raise CliError("there is no registry of PDSes", _HINT)
    known = [HostSize(lane_of(url), accounts) for url, accounts in counts if accounts is not None]
    if not known:
        raise CliError(f"of {len(counts):,} hosts, none has a known number of accounts", _HINT)
    if len(known) < len(counts):
        say(f"skipped: {len(counts) - len(known):,} hosts whose number of accounts is unknown")
    return known
