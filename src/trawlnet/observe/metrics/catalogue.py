"""Every Prometheus series of the project, in one table: meters, docs, boards and rules read it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

ATTEMPTS = "trawlnet_attempts"  # The client library adds `_total` to counters.
SETTLED = "trawlnet_settled"
FED = "trawlnet_fed"
OPEN_TASKS = "trawlnet_open_tasks"
BLOCKED_TASKS = "trawlnet_blocked_tasks"
IN_FLIGHT = "trawlnet_in_flight"
WORKERS = "trawlnet_workers"
PAUSED = "trawlnet_paused"
LANES = "trawlnet_lanes"
TASK_DURATION = "trawlnet_task_duration_seconds"
HTTP_REQUESTS = "trawlnet_http_requests"
HTTP_BYTES = "trawlnet_http_bytes"
SINK_BYTES = "trawlnet_sink_bytes"
DISK_BYTES = "trawlnet_disk_bytes"

# Of the repos crawler, as its users know them; observe/metrics/repos.py has the figures.
REPOS_PROCESSED = "crawler_repos_processed"
REPO_DURATION = "crawler_repo_duration_seconds"
REPO_RECORDS = "crawler_repo_records"
REPO_COLLECTIONS = "crawler_repo_collections"
REPO_COMPRESSED_BYTES = "crawler_repo_compressed_bytes"
REPO_HTTP_REQUESTS = "crawler_http_requests"
REPO_HTTP_DURATION = "crawler_http_request_duration_seconds"
SEGMENTS_FINALIZED = "crawler_segments_finalized"
BYTES_WRITTEN = "crawler_bytes_written"
DIDS_PROCESSED = "crawler_dids_processed"
PAGES_FETCHED = "crawler_pages_fetched"
PAGE_DIDS = "crawler_page_dids"
PDS_COUNT = "crawler_pds_count"
DISPATCHED = "crawler_dispatched"
DISPATCH_REMAINING = "crawler_dispatch_remaining"
PDS_BLOCKED = "crawler_pds_blocked"
ACTIVE_PDS = "crawler_active_pds"
RECORDS_DROPPED = "crawler_records_dropped"
CLAIMS_LEFT_OUT = "crawler_dids_left_out"
REPO_MEMORY = "crawler_memory_bytes"
REPOS_SPILLED = "crawler_repos_spilled"
SPILLED_BYTES = "crawler_spilled_bytes"

# Of `pds serve`; observe/metrics/pds.py has the figures.
REGISTRY_REQUESTS = "trawlnet_registry_requests"
REGISTRATIONS = "trawlnet_registrations"
REGISTRY_HOSTS = "trawlnet_registry_hosts"

# Of the ids crawler, the first four as its users know them; observe/metrics/ids.py has the figures.
IDS_LAG = "pgcr_crawl_summary_lag"
IDS_STATUS = "pgcr_crawl_summary_status"
IDS_WORKERS = "atlas_active_workers"
IDS_REQUEST = "get_pgcr_req"
IDS_ASKS = "trawlnet_ids_asks"
IDS_WATERMARK = "trawlnet_ids_watermark"
IDS_BEYOND = "trawlnet_ids_beyond"
IDS_NEWEST_AGE = "trawlnet_ids_newest_age_seconds"
IDS_MARKS = "trawlnet_ids_marks"
IDS_STORE_STORED = "trawlnet_ids_store_stored"
IDS_STORE_PUT_ASIDE = "trawlnet_ids_store_put_aside"
IDS_STORE_DEPTH = "trawlnet_ids_store_queue_depth"
IDS_STORE_BEHIND = "trawlnet_ids_store_seconds_behind"

# Of the pds crawler, as its users know them; observe/metrics/pds.py has the figures.
PDS_SCAN_DURATION = "chive_pds_scan_duration_seconds"
PDS_SCANS = "chive_pds_scans"
PDS_RECORDS_SCANNED = "chive_pds_records_scanned"
PDS_RECORDS_INDEXED = "chive_pds_records_indexed"
PDS_INDEX_DURATION = "chive_pds_record_index_duration"

# Of the web crawler; observe/metrics/web.py has the figures.
WEB_PAGES = "trawlnet_web_pages"
WEB_BYTES = "trawlnet_web_bytes"
WEB_UNCHANGED = "trawlnet_web_pages_unchanged"
WEB_LINKS = "trawlnet_web_links"
WEB_FRONTIER = "trawlnet_web_frontier_urls"


class SeriesKind(StrEnum):
    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"
    UNKNOWN = "unknown"  # Counts like a counter, under a name without a counter's suffix.


class Owner(StrEnum):
    """Who shows a series, and so the board that it is on."""

    EVERY = "every"
    REPOS = "repos"
    PDS = "pds"
    IDS = "ids"
    WEB = "web"


class Unit(StrEnum):
    SECONDS = "seconds"
    MILLISECONDS = "milliseconds"
    BYTES = "bytes"
    COUNT = "count"  # Of whatever the text says.


@dataclass(frozen=True, slots=True)
class Series:
    name: str
    kind: SeriesKind
    text: str
    owner: Owner
    labels: tuple[str, ...] = ()
    unit: Unit = Unit.COUNT

    @property
    def exposed(self) -> str:
        """The name in a scrape; a histogram's has `_bucket`, `_sum` and `_count` after it."""
        return f"{self.name}_total" if self.kind is SeriesKind.COUNTER else self.name


def _every(name: str, kind: SeriesKind, text: str, *labels: str, unit: Unit = Unit.COUNT) -> Series:
    return Series(name, kind, text, Owner.EVERY, ("crawler", *labels), unit)


_S, _B = Unit.SECONDS, Unit.BYTES
_C, _G, _H = SeriesKind.COUNTER, SeriesKind.GAUGE, SeriesKind.HISTOGRAM

CATALOGUE: tuple[Series, ...] = (
    _every(ATTEMPTS, _C, "Attempts in this run by result.", "reason"),
    _every(SETTLED, _C, "Keys settled in this run by their final result.", "reason"),
    _every(FED, _C, "Tasks that the source added in this run."),
    _every(OPEN_TASKS, _G, "Tasks not settled yet."),
    _every(BLOCKED_TASKS, _G, "Open tasks whose lane is blocked."),
    _every(IN_FLIGHT, _G, "Tasks in progress."),
    _every(WORKERS, _G, "Tasks that may be in progress at the same time."),
    _every(PAUSED, _G, "1 while the crawl is paused."),
    _every(LANES, _G, "Lanes in memory by state.", "state"),
    _every(TASK_DURATION, _H, "Seconds from lease to outcome of one attempt.", unit=_S),
    _every(HTTP_REQUESTS, _C, "HTTP requests by class of their status.", "status_class"),
    _every(HTTP_BYTES, _C, "Bytes of HTTP bodies, as sent and as decoded.", "kind", unit=_B),
    _every(SINK_BYTES, _C, "Bytes that the sink has made durable.", unit=_B),
    _every(DISK_BYTES, _G, "Bytes of the workspace's disk, free and in total.", "kind", unit=_B),
    Series(
        REPOS_PROCESSED, _C, "Attempts to fetch a repository, by result.", Owner.REPOS, ("result",)
    ),
    Series(REPO_DURATION, _H, "Seconds to fetch and read one repository.", Owner.REPOS, unit=_S),
    Series(REPO_RECORDS, _H, "Records per repository.", Owner.REPOS),
    Series(REPO_COLLECTIONS, _H, "Collections per repository.", Owner.REPOS),
    Series(
        REPO_COMPRESSED_BYTES,
        _H,
        "Bytes of one repository's compressed block.",
        Owner.REPOS,
        unit=_B,
    ),
    Series(REPO_HTTP_REQUESTS, _C, "HTTP requests by status code.", Owner.REPOS, ("status_code",)),
    Series(
        REPO_HTTP_DURATION,
        _H,
        "Seconds that servers took to answer a request.",
        Owner.REPOS,
        unit=_S,
    ),
    Series(SEGMENTS_FINALIZED, _C, "Segment files finalised.", Owner.REPOS),
    Series(BYTES_WRITTEN, _C, "Bytes of blocks written to disk.", Owner.REPOS, unit=_B),
    Series(DIDS_PROCESSED, _C, "Visits to repositories that have ended.", Owner.REPOS),
    Series(PAGES_FETCHED, _C, "Pages of DIDs read from the source.", Owner.REPOS),
    Series(PAGE_DIDS, _H, "DIDs per page that will be visited.", Owner.REPOS),
    Series(DISPATCHED, _C, "Visits to repositories started.", Owner.REPOS),
    Series(DISPATCH_REMAINING, _G, "DIDs whose visit has not started.", Owner.REPOS),
    Series(PDS_COUNT, _G, "PDSes with known accounts.", Owner.REPOS),
    Series(ACTIVE_PDS, _G, "PDSes with visits left to do.", Owner.REPOS),
    Series(PDS_BLOCKED, _C, "PDSes blocked because they failed too often.", Owner.REPOS),
    Series(
        RECORDS_DROPPED, _C, "Records left out of the archive, by reason.", Owner.REPOS, ("reason",)
    ),
    Series(
        CLAIMS_LEFT_OUT,
        _C,
        "DIDs that the source named and that were not visited, by reason.",
        Owner.REPOS,
        ("why",),
    ),
    Series(REPO_MEMORY, _G, "Bytes of memory that repositories use.", Owner.REPOS, ("use",), _B),
    Series(REPOS_SPILLED, _C, "Repositories whose body was spilled to disk.", Owner.REPOS),
    Series(SPILLED_BYTES, _C, "Bytes of repositories spilled to disk.", Owner.REPOS, unit=_B),
    Series(
        PDS_SCAN_DURATION,
        _H,
        "Seconds per scan of a PDS, by result.",
        Owner.PDS,
        ("status",),
        _S,
    ),
    Series(PDS_SCANS, _C, "Scans of PDSes by result.", Owner.PDS, ("status",)),
    Series(PDS_RECORDS_SCANNED, _C, "Records read by scans.", Owner.PDS, ("collection",)),
    Series(
        PDS_RECORDS_INDEXED,
        _C,
        "Records processed, by result: success, error or skipped.",
        Owner.PDS,
        ("collection", "status"),
    ),
    Series(
        PDS_INDEX_DURATION,
        _H,
        "Seconds to validate and store a page of records.",
        Owner.PDS,
        ("collection",),
        _S,
    ),
    Series(
        REGISTRY_REQUESTS,
        _C,
        "Requests to the registry's web site, by route and class of their status.",
        Owner.PDS,
        ("route", "status_class"),
    ),
    Series(REGISTRATIONS, _C, "Registrations by result.", Owner.PDS, ("result",)),
    Series(REGISTRY_HOSTS, _G, "PDSes in the registry by status.", Owner.PDS, ("status",)),
    Series(
        IDS_LAG,
        _H,
        "Lag: seconds from the end of an activity to the answer about it.",
        Owner.IDS,
        ("status", "attempts"),
        _S,
    ),
    Series(
        IDS_STATUS,
        SeriesKind.UNKNOWN,
        "Requests by the number of their result.",
        Owner.IDS,
        ("status", "attempts"),
    ),
    Series(IDS_WORKERS, _G, "Requests that may be in flight at the same time.", Owner.IDS),
    Series(
        IDS_REQUEST,
        _H,
        "Milliseconds that the API took, by its own status word.",
        Owner.IDS,
        ("status",),
        Unit.MILLISECONDS,
    ),
    Series(IDS_ASKS, _C, "Requests by purpose and verdict.", Owner.IDS, ("purpose", "verdict")),
    Series(IDS_WATERMARK, _G, "Watermark: every id below it is settled.", Owner.IDS),
    Series(IDS_BEYOND, _G, "First id from which on nothing is settled.", Owner.IDS),
    Series(
        IDS_NEWEST_AGE,
        _G,
        "Age of the newest fetched id, in seconds.",
        Owner.IDS,
        unit=_S,
    ),
    Series(IDS_MARKS, _G, "Ids in the ledger by mark.", Owner.IDS, ("mark",)),
    Series(IDS_STORE_STORED, _C, "Messages that `ids store` has stored.", Owner.IDS),
    Series(IDS_STORE_PUT_ASIDE, _C, "Messages that `ids store` could not store.", Owner.IDS),
    Series(IDS_STORE_DEPTH, _G, "Messages published and not yet stored.", Owner.IDS),
    Series(
        IDS_STORE_BEHIND,
        _G,
        "Longest time that a published message may have waited, in seconds.",
        Owner.IDS,
        unit=_S,
    ),
    Series(WEB_PAGES, _C, "Pages stored, by page type.", Owner.WEB, ("page_type",)),
    Series(WEB_BYTES, _C, "Bytes of pages stored.", Owner.WEB, unit=_B),
    Series(WEB_UNCHANGED, _C, "Pages that servers reported as not modified.", Owner.WEB),
    Series(WEB_LINKS, _C, "Links found, by what the crawler did with them.", Owner.WEB, ("fate",)),
    Series(WEB_FRONTIER, _G, "URLs in the frontier by state.", Owner.WEB, ("state",)),
)

LISTED: Mapping[str, Series] = {one.name: one for one in CATALOGUE}
