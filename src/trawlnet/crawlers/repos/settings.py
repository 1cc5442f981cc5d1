"""What a crawl is told in words: whom to ask, as whom, and where accounts are looked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from trawlnet.archive.format import rca
from trawlnet.archive.reader import check_versions
from trawlnet.crawlers.atproto.didfile import check_dids, dids_in
from trawlnet.crawlers.atproto.streams.upstream import Upstream
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
        plc_of(config),
        relays,
        dids,
        config.page_size,
    )


def follow_settings(config: ReposConfig) -> CrawlSettings:
    """Of a command that only follows: it names no account by itself. Raises NotReady."""
    agent = agent_for(config.contact, allow_private=config.allow_private_hosts)
    return CrawlSettings(agent, SourceKind.RELAY, plc_of(config), (), None, config.page_size)


def plc_of(config: ReposConfig) -> str:
    """URL of the directory. Raises NotReady."""
    return _server(config.plc_url, "plc.directory", config)


def upstreams_of(config: ReposConfig) -> list[Upstream]:
    """The firehoses to read. Raises NotReady."""
    relays = [Upstream(_server(url, "relay.example", config), False) for url in config.relay]
    pdses = [Upstream(_server(url, "pds.example", config), True) for url in config.pds]
    if not relays and not pdses:
        raise NotReady(
            "no firehose to follow",
            "name a relay: --relay https://relay.example, or a PDS: --pds https://pds.example",
        )
    return list(dict.fromkeys((*relays, *pdses)))


def wanted_dids(config: ReposConfig) -> frozenset[str] | None:
    """The accounts to follow; None: all. Raises NotReady."""
    if not config.dids:
        return None
    check_dids(Path(config.dids))
    return frozenset(dids_in(Path(config.dids)))


def host_rules(config: ReposConfig) -> HostRules:
    """Raises NotReady."""
    return HostRules(config.allow_private_hosts, frozenset(map(_skipped, config.skip_pds)))


def check_follow(config: ReposConfig, workspace: Path) -> None:
    """Raises NotReady for what nothing can be followed with; nothing is made."""
    follow_settings(config)
    host_rules(config)
    upstreams_of(config)
    wanted_dids(config)
    if config.fleet:
        raise NotReady(
            "a fleet cannot follow firehoses", "follow in one process: leave out --fleet"
        )
    if config.redis_address:
        raise NotReady(
            "following keeps its state in the workspace, not in Redis", "leave out --store"
        )
    if config.archive:
        raise NotReady(
            "an archive outside of the workspace cannot take changes", "leave out --archive"
        )
    if config.rca_version < 2:
        raise NotReady(
            "an archive of version 1 cannot take changes", "leave out --rca-version: 2 can"
        )
    for path in sorted((workspace / "archive").glob("*.rca")):
        if _is_of_version_1(path):
            raise NotReady(
                f"{path} is of version 1, which cannot take changes",
                "follow in a new workspace: -w DIR; or move the archive and the state away, and "
                "crawl again",
            )


def check_crawl(config: ReposConfig, workspace: Path) -> None:
    """Raises NotReady and UnknownFormat for what no crawl can begin with; nothing is made."""
    check_versions(workspace / "archive")
    if config.follow:
        check_follow(config, workspace)
    settings = settings_of(config)
    host_rules(config)
    where = tables_place(config, workspace)
    if settings.kind is SourceKind.PLC and isinstance(where, Path) and not where.exists():
        raise not_mirrored()


def _is_of_version_1(path: Path) -> bool:
    with path.open("rb") as file:
        try:
            return rca.parse_header(file.read(rca.HEADER_SIZE), path).version == 1
        except rca.RcaError:
            return False  # Its damage is for `verify` to tell.


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
