"""The table of all commands: name and place of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CommandRow:
    """A command as its group lists it."""

    name: str
    place: str  # A Verb, or, where `crawler` is named, a function that makes one for it.
    crawler: str = ""  # The place of a Crawler.


@dataclass(frozen=True, slots=True)
class GroupRow:
    """A group of commands; listing it imports none of them."""

    name: str
    help: str
    example: str
    rows: Sequence[CommandRow | GroupRow]


def _shared(crawler: str) -> tuple[CommandRow, ...]:
    """The verbs that mean the same for every crawler, made for the one at this place."""
    return (
        CommandRow("status", "trawlnet.cli.common.verbs:status", crawler),
        CommandRow("failures", "trawlnet.cli.common.verbs:failures", crawler),
        CommandRow("retry", "trawlnet.cli.common.verbs:retry", crawler),
        CommandRow("reset", "trawlnet.cli.common.verbs:reset", crawler),
    )


def _crawl(crawler: str) -> CommandRow:
    return CommandRow("crawl", "trawlnet.cli.crawl.verb:crawl", crawler)


_REPOS, _PDS, _IDS, _WEB = (
    "trawlnet.cli.repos.crawler:REPOS",
    "trawlnet.cli.pds.crawler:PDS",
    "trawlnet.cli.ids.crawler:IDS",
    "trawlnet.cli.web.crawler:WEB",
)

REPOS = GroupRow(
    "repos",
    "Archive every ATProto repository.",
    "repos status -w ./net",
    (
        _crawl("trawlnet.cli.repos.crawler:CRAWL"),
        CommandRow("follow", "trawlnet.cli.repos.follow:FOLLOW"),
        *_shared(_REPOS),
        CommandRow("inspect", "trawlnet.cli.repos.archive:INSPECT"),
        CommandRow("tally", "trawlnet.cli.repos.archive:TALLY"),
        CommandRow("verify", "trawlnet.cli.repos.verify:VERIFY"),
        CommandRow("cat", "trawlnet.cli.repos.archive:CAT"),
        CommandRow("car", "trawlnet.cli.repos.car:CAR"),
        CommandRow("compact", "trawlnet.cli.repos.archive:COMPACT"),
        CommandRow("plc", "trawlnet.cli.repos.plc:PLC"),
        CommandRow("replay", "trawlnet.cli.repos.replay:REPLAY"),
        CommandRow("query", "trawlnet.cli.repos.replay:QUERY"),
        CommandRow("report", "trawlnet.cli.repos.report:REPORT"),
        CommandRow("serve", "trawlnet.cli.repos.serve:SERVE"),
    ),
)

PDS = GroupRow(
    "pds",
    "Find every PDS, and scan it for chosen collections.",
    "pds discover -w ./net --relay wss://relay.example --contact you@example.org",
    (
        CommandRow("discover", "trawlnet.cli.pds.discover:DISCOVER"),
        CommandRow("register", "trawlnet.cli.pds.discover:REGISTER"),
        CommandRow("remove", "trawlnet.cli.pds.bans:REMOVE"),
        CommandRow("ban", "trawlnet.cli.pds.bans:BAN"),
        CommandRow("unban", "trawlnet.cli.pds.bans:UNBAN"),
        CommandRow("bans", "trawlnet.cli.pds.bans:BANS"),
        CommandRow("list", "trawlnet.cli.pds.list:LIST"),
        CommandRow("scan", "trawlnet.cli.pds.scan:SCAN"),
        CommandRow("serve", "trawlnet.cli.pds.serve:SERVE"),
        _crawl("trawlnet.cli.pds.crawler:CRAWL"),
        *_shared(_PDS),
        CommandRow("report", "trawlnet.cli.pds.report:REPORT"),
    ),
)

IDS = GroupRow(
    "ids",
    "Keep up with an API that hands out sequential ids.",
    "ids status -w ./net",
    (
        _crawl("trawlnet.cli.ids.crawler:CRAWL"),
        *_shared(_IDS),
        CommandRow("gaps", "trawlnet.cli.ids.ledger:GAPS"),
        CommandRow("missed", "trawlnet.cli.ids.ledger:MISSED"),
        CommandRow("store", "trawlnet.cli.ids.store:STORE"),
        CommandRow("simulate", "trawlnet.cli.ids.simulate:SIMULATE"),
        CommandRow("law", "trawlnet.cli.ids.simulate:LAW"),
        CommandRow("report", "trawlnet.cli.ids.report:REPORT"),
    ),
)

WEB = GroupRow(
    "web",
    "Crawl web sites.",
    "web check https://example.org/ -w ./site",
    (
        CommandRow("configure", "trawlnet.cli.web.configure:CONFIGURE"),
        CommandRow("crawl", "trawlnet.cli.web.crawl:CRAWL"),
        CommandRow("scrape", "trawlnet.cli.web.crawl:SCRAPE"),
        CommandRow("run", "trawlnet.cli.web.crawl:RUN"),
        CommandRow("resume", "trawlnet.cli.web.crawl:RESUME"),
        *_shared(_WEB),
        CommandRow("replay", "trawlnet.cli.web.replay:REPLAY"),
        CommandRow("check", "trawlnet.cli.web.rules:CHECK"),
        CommandRow("robots", "trawlnet.cli.web.rules:ROBOTS"),
        CommandRow("canonical", "trawlnet.cli.web.rules:CANONICAL"),
        CommandRow("report", "trawlnet.cli.web.report:REPORT"),
    ),
)

FLEET = GroupRow(
    "fleet",
    "Show and steer a crawl that many processes share.",
    "fleet status --store redis://redis.example:6379/0",
    (
        CommandRow("status", "trawlnet.cli.fleet.verbs:STATUS"),
        CommandRow("scale", "trawlnet.cli.fleet.verbs:SCALE"),
        CommandRow("pause", "trawlnet.cli.fleet.verbs:PAUSE"),
        CommandRow("resume", "trawlnet.cli.fleet.verbs:RESUME"),
        CommandRow("drain", "trawlnet.cli.fleet.verbs:DRAIN"),
        CommandRow("stop", "trawlnet.cli.fleet.verbs:STOP"),
        CommandRow("plan", "trawlnet.cli.fleet.plan:PLAN"),
    ),
)

SIM = GroupRow(
    "sim",
    "Serve a small simulated network on loopback.",
    "sim atproto --seed 1 --scale 0.1",
    (
        CommandRow("atproto", "trawlnet.cli.sim:ATPROTO"),
        CommandRow("ids", "trawlnet.cli.sim:IDS"),
        CommandRow("web", "trawlnet.cli.sim:WEB"),
    ),
)

TRAWLNET = GroupRow(
    "trawlnet",
    "Crawl whole networks, politely and durably; continue after any crash.",
    "repos crawl -w ./net --contact you@example.org",
    (
        REPOS,
        PDS,
        IDS,
        WEB,
        FLEET,
        SIM,
        CommandRow("logs", "trawlnet.cli.logs:LOGS"),
        CommandRow("dashboard", "trawlnet.cli.dashboard.verb:DASHBOARD"),
        CommandRow("config", "trawlnet.cli.config:CONFIG"),
        CommandRow("doctor", "trawlnet.cli.doctor:DOCTOR"),
        CommandRow("health", "trawlnet.cli.health:HEALTH"),
        CommandRow("completion", "trawlnet.cli.shells.completion:COMPLETION"),
        CommandRow("manual", "trawlnet.cli.shells.manual:MANUAL"),
        CommandRow("version", "trawlnet.cli.version:VERSION"),
    ),
)
