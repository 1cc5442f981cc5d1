"""What a crawl is told in words: whom to ask, as whom, and where accounts are looked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from trawlnet.crawlers.atproto.didfile import check_dids
from trawlnet.crawlers.contact import agent_for
from trawlnet.crawlers.errors import NotReady
from trawlnet.crawlers.reachable import check_reachable
from trawlnet.crawlers.repos.config import ReposConfig, SourceKind
from trawlnet.crawlers.repos.listing import HostRules
from trawlnet.crawlers.tables_place import tables_place
from trawlnet.net.lane import lane_of


@dataclass(frozen=True, slots=True)
class CrawlSettings:
    """Where accounts are to be looked for, as far as it was said in words."""

    agent: str  # The User-Agent.
    kind: SourceKind
    plc: str
    relays: Sequence[str]
    dids: Path | None
    page_size: int


def settings_of(config: ReposConfig) -> CrawlSettings:
    """Raises NotReady."""
    agent = agent_for(config.contact, allow_private=config.allow_private_hosts)
    relays: Sequence[str] = ()
    dids = None
    if config.chosen_source is SourceKind.RELAY:
        relays = [_server(relay, "relay.example", config) for relay in config.relay]
        if not relays:
            raise NotReady("no relay to ask for hosts", "name one: --relay https://relay.example")
    elif config.chosen_source is SourceKind.FILE:
        if not config.dids:
            raise NotReady("no file of DIDs", "name one: --dids FILE")
        dids = Path(config.dids)
        check_dids(dids)
    return CrawlSettings(
        agent,
        config.chosen_source,
        _server(config.plc_url, "plc.directory", config),
        relays,
        dids,
        config.page_size,
    )


def host_rules(config: ReposConfig) -> HostRules:
    """Raises NotReady."""
    return HostRules(config.allow_private_hosts, frozenset(map(_skipped, config.skip_pds)))


def check_crawl(config: ReposConfig, workspace: Path) -> None:
    """Raises NotReady for what no crawl can begin with; nothing is made."""
    settings = settings_of(config)
    host_rules(config)
    where = tables_place(config, workspace)
    if settings.kind is SourceKind.PLC and isinstance(where, Path) and not where.exists():
        raise not_mirrored()


def not_mirrored() -> NotReady:
    return NotReady(
        "this workspace has no mirror of the PLC directory, so there is no DID to visit",
        "mirror it first: trawlnet repos plc, with the same -w; or read a relay: --relay URL",
    )


def _server(url: str, example: str, config: ReposConfig) -> str:
    scheme, colon, rest = url.partition("://")
    host = rest.rstrip("/")
    if scheme not in ("http", "https") or not colon or not host or "/" in host:
        raise NotReady(f"{url!r} is not the URL of a server", f"write it like https://{example}")
    check_reachable(f"{scheme}://{host}", allow_private=config.allow_private_hosts)
    return f"{scheme}://{host}"


def _skipped(pds: str) -> str:
    try:
        return lane_of(pds if "://" in pds else f"https://{pds}")
    except ValueError as error:
        raise NotReady(f"{pds!r} is not a host", "write it like pds.example") from error
