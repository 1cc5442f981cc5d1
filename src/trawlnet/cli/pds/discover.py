"""`trawlnet pds discover` and `register`: add PDSes to the registry."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from trawlnet.cli.common.errors import Exit
from trawlnet.cli.common.flags import Folder, Json, argument, flag
from trawlnet.cli.common.output import at_once_and_then, emit, listed, say
from trawlnet.cli.common.sections import load_section
from trawlnet.cli.common.verb import RUNS, WRITES, Verb
from trawlnet.cli.common.workspace import Workspace, create, located
from trawlnet.cli.crawl.signals import until_signal
from trawlnet.cli.repos.plc import wait_line
from trawlnet.crawlers.contact import agent_for
from trawlnet.crawlers.errors import NotReady
from trawlnet.crawlers.pds.build import open_kit
from trawlnet.crawlers.pds.config import PdsConfig
from trawlnet.crawlers.pds.discovery.cycle import discover as discover_all
from trawlnet.crawlers.pds.discovery.cycle import wanted
from trawlnet.crawlers.pds.discovery.finding import DiscoveryCounts
from trawlnet.crawlers.pds.registry_place import opened_registry
from trawlnet.crawlers.pds.site.examine import HostFinding, examine
from trawlnet.net.clock import SystemClock
from trawlnet.observe.metrics.crawl import CrawlMetrics
from trawlnet.tables.registry.rules import EntryVerdict, PdsSource, Registered
from trawlnet.webpage.origin import OriginRefusal

_CLICKHOUSE = tuple(name for name in PdsConfig.model_fields if name.startswith("clickhouse_"))
_DISCOVER = (
    *("plc", "plc_url", "relay", "dids", "mentions", "registry", "domain_budget", "plc_rps"),
    *_CLICKHOUSE,
    *("allow_private_hosts", "contact"),
)
# Keys that only private networks need.
_PRIVATE = (OriginRefusal.ADDRESS, OriginRefusal.PRIVATE, OriginRefusal.EXAMPLE)
_REGISTER = ("registry", "domain_budget", "allow_private_hosts", "contact")

NoAsk = Annotated[bool, flag("--no-ask", "Do not check first whether it is a PDS.")]
Url = Annotated[str, argument("URL", "URL of the PDS.")]


def discover(*, workspace: Folder, json: Json = False, flags: Mapping[str, Any]) -> int:
    """Find PDSes in every configured source.

    Continues reading the PLC directory's export where the last run stopped. If the workspace has a
    mirror made by `trawlnet repos plc`, reads the mirror instead.
    """
    config = load_section(Workspace(workspace, "pds"), PdsConfig, flags).config
    if not config.discovers:
        raise NotReady(
            "no source of PDSes is named",
            "name one: --plc, --relay wss://relay.example, --dids FILE or --mentions",
        )
    agent_for(config.contact, allow_private=config.allow_private_hosts)
    create(workspace, "pds")
    return until_signal(_discover(config, workspace, json))


async def _discover(config: PdsConfig, path: Path, as_json: bool) -> int:
    clock = SystemClock()
    async with open_kit(config, path, clock, CrawlMetrics("pds", clock)) as kit:
        finder = replace(kit.finder, on_wait=at_once_and_then(clock, wait_line))
        tallies = await discover_all(finder, wanted(config, path))
    if as_json:
        emit({str(source): tally.row() for source, tally in tallies.items()})
    for source, tally in tallies.items():
        if not as_json:
            say(f"{source}: {_counts(tally)}")
        if tally.error:
            say(f"{source}: incomplete: {tally.error}")
    if not any(tally.error for tally in tallies.values()):
        return Exit.DONE
    is_partly_read = any(tally.read for tally in tallies.values())
    return Exit.GIVEN_UP if is_partly_read else Exit.UNREACHABLE


def _counts(tally: DiscoveryCounts) -> str:
    words = f"{tally.found:,} found, {tally.new:,} new, {tally.known:,} known"
    if tally.revived:
        words += f" ({tally.revived:,} due again)"
    if tally.refused:
        words += f", {tally.refused.total():,} refused ({listed(tally.refused)})"
    if tally.unresolved:
        words += f"; unresolved DIDs: {listed(tally.unresolved)}"
    return words


def register(
    *,
    url: Url,
    workspace: Folder,
    no_ask: NoAsk = False,
    json: Json = False,
    flags: Mapping[str, Any],
) -> int:
    """Add one PDS to the registry, after checking that it is one.

    A known PDS that was given up becomes due again.
    """
    config = load_section(Workspace(workspace, "pds"), PdsConfig, flags).config
    create(workspace, "pds")
    done = asyncio.run(_register(config, workspace, url, ask=not no_ask))
    if json:
        row = {"pds_url": done.url or url, "registered": done.reason == ""}
        emit(row | {"result": done.verdict, "reason": done.reason})
    else:
        why = f": {done.reason}" if done.reason else ""
        say(f"{done.verdict}{why}: {done.url or url}")
        if done.reason in _PRIVATE:
            say("hint: to allow private names and addresses: --allow-private-hosts")
        elif done.reason == "banned":
            place = Workspace(workspace, "pds", given=located(flags)).place
            say(f"hint: see trawlnet pds bans {place}, and trawlnet pds unban {place}")
        elif done.reason in _SPELLINGS:
            say(f"{_SPELLINGS[done.reason]}\nhint: write it like https://pds.example")
        elif done.reason in _FINDINGS:
            say(f"{_FINDINGS[done.reason]}\nhint: to register it without this check: --no-ask")
    return Exit.ERROR if done.reason else Exit.DONE


async def _register(config: PdsConfig, path: Path, url: str, *, ask: bool) -> Registered:
    async with opened_registry(config, path) as registry:
        unknown = await registry.unknown(url) if ask else ""
        if unknown and (finding := await _finding(config, path, unknown)):
            return Registered(EntryVerdict.REFUSED, unknown, finding)
        return await registry.register(url, PdsSource.USER, now=SystemClock().now())


async def _finding(config: PdsConfig, path: Path, url: str) -> str:
    """Why a host is not a PDS; empty if it is one."""
    clock = SystemClock()
    async with open_kit(config, path, clock, CrawlMetrics("pds", clock)) as kit:
        finding = await examine(kit.http, kit.gate, clock, url)
    return "" if finding is HostFinding.PDS else str(finding)


_SPELLINGS = {
    "empty": "the URL is empty",
    "too_long": "the URL is too long",
    "not_a_url": "it is not the URL of a server",
    "scheme": "the URL of a PDS begins with https://",
    "port": "a PDS must be at port 443",
    "host": "it is not a valid DNS name",
    "userinfo": "it has a user name before its host",
    "example": "the name is reserved for examples",
    "tunnel": "it is a temporary tunnel to a private machine",
}
_FINDINGS = {
    "forbidden": "it is at a private or reserved address",
    "silent": "it does not accept connections, or does not answer",
    "unwell": "it does not answer describeServer as a PDS does",
    "stranger": "there is a server, but it does not describe itself as a PDS",
    "relay": "it is a relay, not a PDS",
    "busy": "it asked for a later retry",
}


DISCOVER = Verb(
    discover,
    "pds discover -w ./net --relay wss://relay.example --contact you@example.org",
    RUNS,
    "pds",
    PdsConfig,
    _DISCOVER,
)
REGISTER = Verb(
    register, "pds register -w ./net https://pds.example", WRITES, "pds", PdsConfig, _REGISTER
)
