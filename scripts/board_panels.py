"""What the boards show: one panel for every series of the catalogue, and some that combine them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from trawlnet.observe.alerts.rules import FAILURES
from trawlnet.observe.metrics import catalogue as names
from trawlnet.observe.metrics.catalogue import CATALOGUE, Owner, Series, SeriesKind, Unit
from trawlnet.observe.metrics.ids import STATUSES

FAILED = "|".join(sorted(FAILURES))
RATE = "[$__rate_interval]"


@dataclass(frozen=True, slots=True)
class Query:
    expr: str
    legend: str


@dataclass(frozen=True, slots=True)
class Panel:
    title: str
    text: str
    unit: str  # As Grafana names it.
    queries: tuple[Query, ...]


@dataclass(frozen=True, slots=True)
class Section:
    title: str
    panels: tuple[Panel, ...]


@dataclass(frozen=True, slots=True)
class Board:
    uid: str
    title: str
    text: str
    told_by: str  # A series that every target of this board has, to find the targets.
    crawler: str | None  # None: the reader chooses.
    sections: tuple[Section, ...]


def boards() -> list[Board]:
    overview = Board(
        "trawlnet-overview",
        "trawlnet: overview",
        "Every crawl that runs: how fast, how well, and what it costs.",
        names.WORKERS,
        None,
        (Section("Crawls", tuple(_shared(None))), Section("Machine", tuple(_machine(None)))),
    )
    return [overview, *(_board(owner) for owner in Owner if owner is not Owner.EVERY)]


def _board(owner: Owner) -> Board:
    of_owner = [one for one in CATALOGUE if one.owner is owner]
    sections = (
        Section("At a glance", tuple(_GLANCES[owner])),
        Section(f"The {owner} crawler", tuple(_panel(one, None) for one in of_owner)),
        Section("The crawl", tuple(_shared(owner))),
        Section("Machine", tuple(_machine(owner))),
    )
    told_by = names.WORKERS
    if owner is Owner.PDS:  # `pds serve` has its figures here, and no crawl.
        told_by = f'{{__name__=~"{names.WORKERS}|{names.REGISTRY_HOSTS}"}}'
    text = _TEXTS[owner]
    return Board(f"trawlnet-{owner}", f"trawlnet: {owner}", text, told_by, owner, sections)


_TEXTS = {
    Owner.REPOS: "Repositories archived, by PDS and by result.",
    Owner.PDS: "PDSes found and scanned, records indexed, and the registry's web side.",
    Owner.IDS: "How far behind the newest id the crawl is, and what its requests come to.",
    Owner.WEB: "Pages stored, links found, and the frontier.",
}


def chosen(*more: str) -> str:
    """The matchers of every query: what the reader has chosen."""
    return "{" + ",".join(['workspace=~"$workspace"', 'instance=~"$instance"', *more]) + "}"


def _shared(owner: Owner | None) -> Iterator[Panel]:
    who = f'crawler="{owner}"' if owner else 'crawler=~"$crawler"'
    by = "" if owner else " by (crawler)"
    tries = f"{names.ATTEMPTS}_total"
    failed = chosen(who, f'reason=~"{FAILED}"')
    share = f"sum{by} (rate({tries}{failed}{RATE})) / sum{by} (rate({tries}{chosen(who)}{RATE}))"
    legend = "failed" if owner else "{{crawler}}"
    text = "Attempts that ended without an answer about the key, among all attempts."
    yield Panel("Share of attempts that failed", text, "percentunit", (Query(share, legend),))
    for one in CATALOGUE:
        if one.owner is Owner.EVERY:
            yield _panel(one, owner)


def _panel(one: Series, crawler: Owner | None) -> Panel:
    """A series of every crawler is shown for the board's; one of its own has no such label."""
    matchers, labels = [], [label for label in one.labels if label != "crawler"]
    if one.owner is Owner.EVERY:
        matchers = [f'crawler="{crawler}"' if crawler else 'crawler=~"$crawler"']
        labels = labels if crawler else ["crawler", *labels]
    title = one.text.rstrip(".")
    source = f"{one.text} ({one.exposed})"
    if one.kind is SeriesKind.HISTOGRAM:
        queries = tuple(_quantile(one, q, matchers) for q in _QUANTILES.get(one.name, (0.5, 0.95)))
        return Panel(title, source, _UNITS[one.unit], queries)
    legend = " ".join(f"{{{{{label}}}}}" for label in labels) or title
    series = one.exposed + chosen(*matchers)
    if one.kind is SeriesKind.GAUGE:
        expr = f"{_over(one, labels)} ({series})"
        return Panel(title, source, _UNITS[one.unit], (Query(expr, legend),))
    expr = f"{_over(one, labels)} (rate({series}{RATE}))"
    return Panel(f"{title}, per second", source, _RATES[one.unit], (Query(expr, legend),))


def _over(one: Series, labels: list[str]) -> str:
    """Positions and disks are not added up over instances."""
    if one.name in _NOT_ADDED:
        return f"max by ({', '.join(['instance', *labels])})"
    return f"sum by ({', '.join(labels)})" if labels else "sum"


_NOT_ADDED = (
    names.IDS_WATERMARK,
    names.IDS_BEYOND,
    names.IDS_NEWEST_AGE,
    names.IDS_STORE_BEHIND,
    names.FOLLOW_BEHIND,
    names.FOLLOW_CONNECTED,
    names.DISK_BYTES,
    names.PAUSED,
)
_QUANTILES = {names.IDS_LAG: (0.2, 0.5, 0.95)}
_UNITS = {Unit.SECONDS: "s", Unit.MILLISECONDS: "ms", Unit.BYTES: "bytes", Unit.COUNT: "short"}
_RATES = {Unit.SECONDS: "short", Unit.MILLISECONDS: "short", Unit.BYTES: "Bps", Unit.COUNT: "cps"}


def _quantile(one: Series, quantile: float, matchers: list[str]) -> Query:
    rate = f"sum by (le) (rate({one.name}_bucket{chosen(*matchers)}{RATE}))"
    return Query(f"histogram_quantile({quantile:g}, {rate})", f"p{quantile * 100:g}")


def _machine(owner: Owner | None) -> Iterator[Panel]:
    """From the client library, whose series do not say which crawler they are of."""
    of_crawl = f' and on (job, instance) {names.WORKERS}{{crawler="{owner}"}}' if owner else ""
    for title, text, unit, series in (
        ("Memory", "Bytes in memory, with mapped files.", "bytes", "process_resident_memory_bytes"),
        ("Files open", "File descriptors in use.", "short", "process_open_fds"),
    ):
        query = Query(f"{series}{chosen()}{of_crawl}", "{{instance}}")
        yield Panel(title, text, unit, (query,))
    rate = f"rate(process_cpu_seconds_total{chosen()}{RATE}){of_crawl}"
    yield Panel("CPU", "Cores in use.", "short", (Query(rate, "{{instance}}"),))


def _ratio(part: str, whole: str) -> str:
    return f"sum (rate({part}{RATE})) / sum (rate({whole}{RATE}))"


def _numbered(*words: str) -> str:
    numbers = "|".join(str(STATUSES[word]) for word in words)
    return names.IDS_STATUS + chosen(f'status=~"{numbers}"')


_GLANCES: dict[Owner, list[Panel]] = {
    Owner.REPOS: [
        Panel(
            "Records archived, per second",
            "Records of the repos that were read.",
            "cps",
            (Query(f"sum (rate({names.REPO_RECORDS}_sum{chosen()}{RATE}))", "records"),),
        ),
        Panel(
            "Bytes of a record, compressed",
            "Bytes of blocks over records.",
            "bytes",
            (
                Query(
                    _ratio(
                        f"{names.REPO_COMPRESSED_BYTES}_sum{chosen()}",
                        f"{names.REPO_RECORDS}_sum{chosen()}",
                    ),
                    "bytes",
                ),
            ),
        ),
        Panel(
            "Share of messages of firehoses that failed verification",
            "Rejected messages, for whatever reason, among all.",
            "percentunit",
            (
                Query(
                    _ratio(
                        f"{names.FOLLOW_REJECTED}_total{chosen()}",
                        f"{names.FOLLOW_FRAMES}_total{chosen()}",
                    ),
                    "rejected",
                ),
            ),
        ),
    ],
    Owner.PDS: [
        Panel(
            "Share of scans that failed",
            "Scans that ended in an error, among all.",
            "percentunit",
            (
                Query(
                    _ratio(
                        f"{names.PDS_SCANS}_total" + chosen('status="error"'),
                        f"{names.PDS_SCANS}_total" + chosen(),
                    ),
                    "failed",
                ),
            ),
        ),
    ],
    Owner.IDS: [
        Panel(
            "Ids found, per second",
            "Answers with an instance in them, wanted or not.",
            "cps",
            (Query(f"sum (rate({_numbered('stored', 'filtered')}{RATE}))", "ids"),),
        ),
        Panel(
            "Share of requests that came too early",
            "Not found, among all requests.",
            "percentunit",
            (Query(_ratio(_numbered("not_found"), names.IDS_STATUS + chosen()), "404"),),
        ),
        Panel(
            "Ids between the watermark and the furthest settled",
            "What is being asked for, waits, or was skipped.",
            "short",
            (Query(f"{names.IDS_BEYOND}{chosen()} - {names.IDS_WATERMARK}{chosen()}", "ids"),),
        ),
    ],
    Owner.WEB: [
        Panel(
            "Bytes of a page",
            "Bytes stored over pages stored.",
            "bytes",
            (
                Query(
                    _ratio(
                        f"{names.WEB_BYTES}_total{chosen()}",
                        f"{names.WEB_PAGES}_total{chosen()}",
                    ),
                    "bytes",
                ),
            ),
        ),
    ],
}
