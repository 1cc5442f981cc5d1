"""Every command there is: its name, where it lives, and its line of help."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CommandRow:
    """A command as its group lists it."""

    name: str
    place: str  # A Verb, or, where `crawler` is named, a function that makes one for it.
    help: str  # The first paragraph of the verb's docstring: a test compares them.
    crawler: str = ""  # The place of a Crawler.


@dataclass(frozen=True, slots=True)
class GroupRow:
    """A group of commands: nothing of it is imported to list it."""

    name: str
    help: str
    example: str
    rows: Sequence[CommandRow | GroupRow]


def _shared(crawler: str) -> tuple[CommandRow, ...]:
    """The verbs that mean the same for every crawler, made for the one at this place."""
    return (
        CommandRow(
            "status",
            "trawlnet.cli.common.verbs:status",
            "Show the state of the crawl. Works while a crawl is running.",
            crawler,
        ),
        CommandRow(
            "failures",
            "trawlnet.cli.common.verbs:failures",
            "List keys whose last attempt failed. Works while a crawl is running.",
            crawler,
        ),
        CommandRow(
            "retry",
            "trawlnet.cli.common.verbs:retry",
            "Reopen failed keys, so that the next crawl tries them again.",
            crawler,
        ),
        CommandRow(
            "reset",
            "trawlnet.cli.common.verbs:reset",
            "Delete the crawl's state and output, after asking.",
            crawler,
        ),
    )


def _crawl(crawler: str) -> CommandRow:
    help = "Start the crawl, or continue it; the command is the same."
    return CommandRow("crawl", "trawlnet.cli.crawl.verb:crawl", help, crawler)


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
        _crawl(_REPOS),
        *_shared(_REPOS),
        CommandRow(
            "inspect",
            "trawlnet.cli.repos.archive:INSPECT",
            "Show the header, the index and the contents of one segment; unpacks every record.",
        ),
        CommandRow(
            "tally",
            "trawlnet.cli.repos.archive:TALLY",
            "Count repositories and records by collection, without unpacking records.",
        ),
        CommandRow(
            "verify",
            "trawlnet.cli.repos.archive:VERIFY",
            "Check every byte of an archive: checksums, compression, records, order, index.",
        ),
        CommandRow(
            "cat",
            "trawlnet.cli.repos.archive:CAT",
            "Print the records of one repository, one JSON object per line.",
        ),
        CommandRow(
            "compact",
            "trawlnet.cli.repos.archive:COMPACT",
            "Remove blocks that later ones replace or that tombstones cover.",
        ),
        CommandRow(
            "plc",
            "trawlnet.cli.repos.plc:PLC",
            "Mirror the PLC directory: every operation, and the current state of each DID.",
        ),
        CommandRow(
            "replay",
            "trawlnet.cli.repos.replay:REPLAY",
            "Load an archive into the table repo_records.",
        ),
        CommandRow(
            "query",
            "trawlnet.cli.repos.replay:QUERY",
            "Run a SQL query on the tables, and print the rows.",
        ),
        CommandRow(
            "report",
            "trawlnet.cli.repos.report:REPORT",
            "Write a page about an archive: collections, PDSes, months, languages, sizes.",
        ),
    ),
)

PDS = GroupRow(
    "pds",
    "Find every PDS, and scan it for chosen collections.",
    "pds discover -w ./net --relay wss://relay.example --contact you@example.org",
    (
        CommandRow(
            "discover",
            "trawlnet.cli.pds.discover:DISCOVER",
            "Find PDSes in every configured source.",
        ),
        CommandRow(
            "register",
            "trawlnet.cli.pds.discover:REGISTER",
            "Add one PDS to the registry, after checking that it is one.",
        ),
        CommandRow(
            "remove",
            "trawlnet.cli.pds.bans:REMOVE",
            "Delete a PDS from the registry, with its scan progress and its records.",
        ),
        CommandRow(
            "ban",
            "trawlnet.cli.pds.bans:BAN",
            "Remove a PDS or a whole domain, and never contact or register it again.",
        ),
        CommandRow(
            "unban",
            "trawlnet.cli.pds.bans:UNBAN",
            "Allow a PDS or a domain to be registered again.",
        ),
        CommandRow("bans", "trawlnet.cli.pds.bans:BANS", "List bans and their reasons."),
        CommandRow("list", "trawlnet.cli.pds.list:LIST", "List known PDSes, ordered by URL."),
        CommandRow(
            "scan",
            "trawlnet.cli.pds.scan:SCAN",
            "Scan PDSes now, each to its end, in slices of --scan-timeout.",
        ),
        CommandRow(
            "serve",
            "trawlnet.cli.pds.serve:SERVE",
            "Serve the registry: a web page, JSON rows, and an endpoint to register a PDS.",
        ),
        _crawl(_PDS),
        *_shared(_PDS),
        CommandRow(
            "report",
            "trawlnet.cli.pds.report:REPORT",
            "Write a page about the registry: status, sources, scans, records, failures.",
        ),
    ),
)

IDS = GroupRow(
    "ids",
    "Keep up with an API that hands out sequential ids.",
    "ids status -w ./net",
    (
        _crawl(_IDS),
        *_shared(_IDS),
        CommandRow(
            "gaps",
            "trawlnet.cli.ids.ledger:GAPS",
            "List skipped ranges of ids, with the reason; the end is exclusive.",
        ),
        CommandRow(
            "missed",
            "trawlnet.cli.ids.ledger:MISSED",
            "List ids whose fetch failed; the crawl tries them again later.",
        ),
        CommandRow(
            "store",
            "trawlnet.cli.ids.store:STORE",
            "Store what a crawl has published: processed rows, and each raw report.",
        ),
        CommandRow(
            "simulate",
            "trawlnet.cli.ids.simulate:SIMULATE",
            "Run the scaling laws against a model of an API, in virtual time, and measure them.",
        ),
        CommandRow(
            "law",
            "trawlnet.cli.ids.simulate:LAW",
            "Apply the classic law to each reading on stdin, one JSON object per line.",
        ),
        CommandRow(
            "report",
            "trawlnet.cli.ids.report:REPORT",
            "Write a page about an ids crawl: lag, gaps, decisions, and the stored items.",
        ),
    ),
)

WEB = GroupRow(
    "web",
    "Crawl web sites.",
    "web check https://example.org/ -w ./site",
    (
        CommandRow(
            "configure",
            "trawlnet.cli.web.configure:CONFIGURE",
            "Create a workspace: folders, a trawlnet.yaml with every key explained, seeds.txt.",
        ),
        CommandRow(
            "crawl",
            "trawlnet.cli.web.crawl:CRAWL",
            "Start the crawl from its seeds, or continue it; the command is the same.",
        ),
        CommandRow(
            "scrape",
            "trawlnet.cli.web.crawl:SCRAPE",
            "Fetch every URL of the discovery spool again, with the validators of the last answer.",
        ),
        CommandRow(
            "run",
            "trawlnet.cli.web.crawl:RUN",
            "Crawl, then fetch what other programs have put into the discovery spool.",
        ),
        CommandRow(
            "resume",
            "trawlnet.cli.web.crawl:RESUME",
            "Another name of run: every run continues where the last one stopped.",
        ),
        *_shared(_WEB),
        CommandRow(
            "replay",
            "trawlnet.cli.web.replay:REPLAY",
            "Rebuild the page index and a pages CSV from the capture log and the stored bodies.",
        ),
        CommandRow(
            "check",
            "trawlnet.cli.web.rules:CHECK",
            "Say whether the crawl would visit a URL and as which page type, or why not.",
        ),
        CommandRow(
            "robots",
            "trawlnet.cli.web.rules:ROBOTS",
            "Print `allow URL` or `deny URL` for each URL (or path), by a robots.txt on disk.",
        ),
        CommandRow(
            "canonical",
            "trawlnet.cli.web.rules:CANONICAL",
            "For each URL on stdin print `request URL<TAB>dedup key`, or `refused: why`.",
        ),
        CommandRow(
            "report",
            "trawlnet.cli.web.report:REPORT",
            "Write a page about a web crawl: hosts, types, status codes, depth, sizes, hours.",
        ),
    ),
)

FLEET = GroupRow(
    "fleet",
    "Show and steer a crawl that many processes share.",
    "fleet status --store redis://redis.example:6379/0",
    (
        CommandRow("status", "trawlnet.cli.fleet.verbs:STATUS", "Show the state of every shard."),
        CommandRow(
            "scale",
            "trawlnet.cli.fleet.verbs:SCALE",
            "Change the number of shards; only the lanes that must move are moved.",
        ),
        CommandRow(
            "pause", "trawlnet.cli.fleet.verbs:PAUSE", "Finish the tasks in flight, then wait."
        ),
        CommandRow("resume", "trawlnet.cli.fleet.verbs:RESUME", "Continue after a pause."),
        CommandRow(
            "drain",
            "trawlnet.cli.fleet.verbs:DRAIN",
            "Finish the tasks in flight, then end; the same crawl command continues later.",
        ),
        CommandRow(
            "stop",
            "trawlnet.cli.fleet.verbs:STOP",
            "End immediately; tasks in flight are repeated when the crawl continues.",
        ),
        CommandRow(
            "plan",
            "trawlnet.cli.fleet.plan:PLAN",
            "Estimate how long a crawl takes with N shards, its traffic and its storage.",
        ),
    ),
)

SIM = GroupRow(
    "sim",
    "Serve a small simulated network on loopback.",
    "sim atproto --seed 1 --scale 0.1",
    (
        CommandRow(
            "atproto",
            "trawlnet.cli.sim:ATPROTO",
            "Serve a PLC directory, a relay, and PDSes with signed repositories.",
        ),
        CommandRow(
            "ids",
            "trawlnet.cli.sim:IDS",
            "Serve an API of sequential ids that grows in real time, with gaps.",
        ),
        CommandRow(
            "web",
            "trawlnet.cli.sim:WEB",
            "Serve web sites with robots.txt, sitemaps, redirects and traps.",
        ),
    ),
)

TRAWLNET = GroupRow(
    "trawlnet",
    "Crawl whole networks: find everything, fetch it politely, store it durably, and "
    "continue after any crash.",
    "repos crawl -w ./net --contact you@example.org",
    (
        REPOS,
        PDS,
        IDS,
        WEB,
        FLEET,
        SIM,
        CommandRow(
            "logs",
            "trawlnet.cli.logs:LOGS",
            "Show the logs of crawls: failed attempts, held lanes, errors.",
        ),
        CommandRow(
            "dashboard",
            "trawlnet.cli.dashboard.verb:DASHBOARD",
            "Serve a web page about the crawls of a workspace.",
        ),
        CommandRow(
            "config",
            "trawlnet.cli.config:CONFIG",
            "Show every config key: its value, and where it came from.",
        ),
        CommandRow(
            "doctor",
            "trawlnet.cli.doctor:DOCTOR",
            "Check what this machine has, and say what to type for the rest.",
        ),
        CommandRow(
            "completion",
            "trawlnet.cli.shells.completion:COMPLETION",
            "Print a script that completes commands and flags in a shell.",
        ),
        CommandRow(
            "manual",
            "trawlnet.cli.shells.manual:MANUAL",
            "Write a man page for each command into a folder.",
        ),
        CommandRow("version", "trawlnet.cli.version:VERSION", "Print the version."),
    ),
)
