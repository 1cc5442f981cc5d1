"""Every Prometheus series of the project, in one table: meters, docs, boards and rules read it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum


class SeriesKind(StrEnum):
    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"
    UNKNOWN = "unknown"  # Counts like a counter, under a name without a counter's suffix.


class Owner(StrEnum):
    """The process that exports a series, which also determines its board."""

    EVERY = "every"
    REPOS = "repos"
    PDS = "pds"
    IDS = "ids"
    WEB = "web"


class Unit(StrEnum):
    SECONDS = "seconds"
    MILLISECONDS = "milliseconds"
    BYTES = "bytes"
    COUNT = "count"  # A number of the things in the help text.


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


LISTED: dict[str, Series] = {}  # By name, in the order of the reference.


def _series_of(owner: Owner, *shared: str) -> Callable[..., str]:
    """A function that adds a series of this owner, with these labels and more."""

    def enter(name: str, kind: SeriesKind, text: str, *labels: str, unit: Unit = Unit.COUNT) -> str:
        LISTED[name] = Series(name, kind, text, owner, (*shared, *labels), unit)
        return name

    return enter


_every = _series_of(Owner.EVERY, "crawler")
_repos, _pds = _series_of(Owner.REPOS), _series_of(Owner.PDS)
_ids, _web = _series_of(Owner.IDS), _series_of(Owner.WEB)
_S, _B = Unit.SECONDS, Unit.BYTES
_C, _G, _H = SeriesKind.COUNTER, SeriesKind.GAUGE, SeriesKind.HISTOGRAM

# The client library adds `_total` to counters.
ATTEMPTS = _every("trawlnet_attempts", _C, "Attempts in this run by result.", "reason")
SETTLED = _every(
    "trawlnet_settled", _C, "Keys settled in this run by their final result.", "reason"
)
FED = _every("trawlnet_fed", _C, "Tasks that the source added in this run.")
OPEN_TASKS = _every("trawlnet_open_tasks", _G, "Tasks not settled yet.")
BLOCKED_TASKS = _every("trawlnet_blocked_tasks", _G, "Open tasks whose lane is blocked.")
IN_FLIGHT = _every("trawlnet_in_flight", _G, "Tasks in progress.")
WORKERS = _every("trawlnet_workers", _G, "Tasks that may be in progress at the same time.")
PAUSED = _every("trawlnet_paused", _G, "1 while the crawl is paused.")
LANES = _every("trawlnet_lanes", _G, "Lanes in memory by state.", "state")
TASK_DURATION = _every(
    "trawlnet_task_duration_seconds", _H, "Seconds from lease to outcome of one attempt.", unit=_S
)
HTTP_REQUESTS = _every(
    "trawlnet_http_requests", _C, "HTTP requests by class of their status.", "status_class"
)
HTTP_BYTES = _every(
    "trawlnet_http_bytes", _C, "Bytes of HTTP bodies, as sent and as decoded.", "kind", unit=_B
)
SINK_BYTES = _every("trawlnet_sink_bytes", _C, "Bytes that the sink has made durable.", unit=_B)
DISK_BYTES = _every(
    "trawlnet_disk_bytes", _G, "Bytes of the workspace's disk, free and in total.", "kind", unit=_B
)

# Of the repos crawler, as its users know them; observe/metrics/repos.py has the figures.
REPOS_PROCESSED = _repos(
    "crawler_repos_processed", _C, "Attempts to fetch a repository, by result.", "result"
)
REPO_DURATION = _repos(
    "crawler_repo_duration_seconds", _H, "Seconds to fetch and read one repository.", unit=_S
)
REPO_RECORDS = _repos("crawler_repo_records", _H, "Records per repository.")
REPO_COLLECTIONS = _repos("crawler_repo_collections", _H, "Collections per repository.")
REPO_COMPRESSED_BYTES = _repos(
    "crawler_repo_compressed_bytes", _H, "Bytes of one repository's compressed block.", unit=_B
)
REPO_HTTP_REQUESTS = _repos(
    "crawler_http_requests", _C, "HTTP requests by status code.", "status_code"
)
REPO_HTTP_DURATION = _repos(
    "crawler_http_request_duration_seconds",
    _H,
    "Seconds that servers took to answer a request.",
    unit=_S,
)
SEGMENTS_FINALIZED = _repos("crawler_segments_finalized", _C, "Segment files finalised.")
BYTES_WRITTEN = _repos("crawler_bytes_written", _C, "Bytes of blocks written to disk.", unit=_B)
DIDS_PROCESSED = _repos("crawler_dids_processed", _C, "Visits to repositories that have ended.")
PAGES_FETCHED = _repos("crawler_pages_fetched", _C, "Pages of DIDs read from the source.")
PAGE_DIDS = _repos("crawler_page_dids", _H, "DIDs per page that will be visited.")
DISPATCHED = _repos("crawler_dispatched", _C, "Visits to repositories started.")
DISPATCH_REMAINING = _repos("crawler_dispatch_remaining", _G, "DIDs whose visit has not started.")
PDS_COUNT = _repos("crawler_pds_count", _G, "PDSes with known accounts.")
ACTIVE_PDS = _repos("crawler_active_pds", _G, "PDSes with visits left to do.")
PDS_BLOCKED = _repos("crawler_pds_blocked", _C, "PDSes blocked because they failed too often.")
RECORDS_DROPPED = _repos(
    "crawler_records_dropped", _C, "Records left out of the archive, by reason.", "reason"
)
CLAIMS_LEFT_OUT = _repos(
    "crawler_dids_left_out",
    _C,
    "DIDs that the source named and that were not visited, by reason.",
    "why",
)
REPO_MEMORY = _repos(
    "crawler_memory_bytes", _G, "Bytes of memory that repositories use.", "use", unit=_B
)
REPOS_SPILLED = _repos("crawler_repos_spilled", _C, "Repositories whose body was spilled to disk.")
SPILLED_BYTES = _repos(
    "crawler_spilled_bytes", _C, "Bytes of repositories spilled to disk.", unit=_B
)

# Of `repos serve`; observe/metrics/events.py has the figures.
EVENT_CLIENTS = _repos("trawlnet_event_clients", _G, "Clients that receive events.")
EVENTS_SENT = _repos(
    "trawlnet_events_sent", _C, "Events sent to clients, from the archive or the log.", "source"
)
EVENT_CLIENTS_GONE = _repos(
    "trawlnet_event_clients_gone", _C, "Connections of clients that have ended, by reason.", "why"
)

# Of a crawl that follows firehoses; observe/metrics/follow.py has the figures.
FOLLOW_BEHIND = _repos(
    "trawlnet_follow_seconds_behind",
    _G,
    "Seconds from a message of a firehose to its being on disk; its age while not connected.",
    "upstream",
    unit=_S,
)
FOLLOW_CONNECTED = _repos(
    "trawlnet_follow_connected", _G, "1 while the firehose is connected.", "upstream"
)
FOLLOW_FRAMES = _repos(
    "trawlnet_follow_frames", _C, "Messages of firehoses that are on disk, by kind.", "kind"
)
FOLLOW_VERIFIED = _repos("trawlnet_follow_verified", _C, "Commits that passed every check.")
FOLLOW_REJECTED = _repos(
    "trawlnet_follow_rejected",
    _C,
    "Messages of firehoses that failed verification, by reason.",
    "reason",
)
FOLLOW_DESYNCHRONIZED = _repos(
    "trawlnet_follow_desynchronized", _G, "Repositories that are desynchronized now."
)
FOLLOW_RESYNCS_BEGUN = _repos(
    "trawlnet_follow_resyncs_begun", _C, "Repositories that became desynchronized, by cause.", "why"
)
FOLLOW_RESYNCS_ENDED = _repos(
    "trawlnet_follow_resyncs_ended",
    _C,
    "Repositories that were desynchronized and no longer are, by result.",
    "result",
)
FOLLOW_WAITING_FRAMES = _repos(
    "trawlnet_follow_waiting_frames", _G, "Messages that wait for a fetch or a lookup."
)
FOLLOW_WAITING_BYTES = _repos(
    "trawlnet_follow_waiting_bytes",
    _G,
    "Bytes of memory for messages that wait for a fetch or a lookup.",
    unit=_B,
)
FOLLOW_EVENTS = _repos("trawlnet_follow_events", _C, "Events published.")
FOLLOW_GAPS = _repos(
    "trawlnet_follow_gaps",
    _C,
    "Times that the messages after the saved cursor of a firehose were gone, or unreadable.",
)
FOLLOW_PASSED_OVER = _repos(
    "trawlnet_follow_passed_over",
    _C,
    "Times that following went on behind messages that cannot be read.",
    "upstream",
)
FOLLOW_COMPARING = _repos(
    "trawlnet_follow_comparing", _G, "Pages of listings still to be compared because of such gaps."
)
FOLLOW_LOOKUPS_WAITING = _repos(
    "trawlnet_follow_lookups_waiting", _G, "Identities in doubt that wait to be looked up."
)
FOLLOW_LOOKUPS_DROPPED = _repos(
    "trawlnet_follow_lookups_dropped", _C, "Identities in doubt that were not, for want of room."
)

# Of the pds crawler, as its users know them; observe/metrics/pds.py has the figures.
PDS_SCAN_DURATION = _pds(
    "chive_pds_scan_duration_seconds",
    _H,
    "Seconds per scan of a PDS, by result.",
    "status",
    unit=_S,
)
PDS_SCANS = _pds("chive_pds_scans", _C, "Scans of PDSes by result.", "status")
PDS_RECORDS_SCANNED = _pds("chive_pds_records_scanned", _C, "Records read by scans.", "collection")
PDS_RECORDS_INDEXED = _pds(
    "chive_pds_records_indexed",
    _C,
    "Records processed, by result: success, error or skipped.",
    "collection",
    "status",
)
PDS_INDEX_DURATION = _pds(
    "chive_pds_record_index_duration",
    _H,
    "Seconds to validate and store a page of records.",
    "collection",
    unit=_S,
)
PDS_FOLLOW_BEHIND = _pds(
    "trawlnet_pds_follow_seconds_behind",
    _G,
    "Seconds from a message of the firehose that is furthest behind until it was saved.",
    unit=_S,
)
PDS_FOLLOW_COMMITS = _pds("trawlnet_pds_follow_commits", _C, "Commits read from firehoses.")
PDS_LOOKS_ASKED = _pds(
    "trawlnet_pds_looks_asked",
    _C,
    "Scans of single accounts requested because of firehose messages.",
)
PDS_LOOKS = _pds("trawlnet_pds_looks", _C, "Scans of single accounts that were made.")
PDS_LOOKS_WAITING = _pds("trawlnet_pds_looks_waiting", _G, "Accounts that wait for such a scan.")

# Of `pds serve`; observe/metrics/pds.py has the figures.
REGISTRY_REQUESTS = _pds(
    "trawlnet_registry_requests",
    _C,
    "Requests to the registry's web site, by route and class of their status.",
    "route",
    "status_class",
)
REGISTRATIONS = _pds("trawlnet_registrations", _C, "Registrations by result.", "result")
REGISTRY_HOSTS = _pds("trawlnet_registry_hosts", _G, "PDSes in the registry by status.", "status")

# Of the ids crawler, the first four as its users know them; observe/metrics/ids.py has the figures.
IDS_LAG = _ids(
    "pgcr_crawl_summary_lag",
    _H,
    "Lag: seconds from the end of an activity to the answer about it.",
    "status",
    "attempts",
    unit=_S,
)
IDS_STATUS = _ids(
    "pgcr_crawl_summary_status",
    SeriesKind.UNKNOWN,
    "Requests by the number of their result.",
    "status",
    "attempts",
)
IDS_WORKERS = _ids("atlas_active_workers", _G, "Requests that may be in flight at the same time.")
IDS_REQUEST = _ids(
    "get_pgcr_req",
    _H,
    "Milliseconds that the API took, by its own status word.",
    "status",
    unit=Unit.MILLISECONDS,
)
IDS_ASKS = _ids("trawlnet_ids_asks", _C, "Requests by purpose and verdict.", "purpose", "verdict")
IDS_WATERMARK = _ids("trawlnet_ids_watermark", _G, "Watermark: every id below it is settled.")
IDS_BEYOND = _ids("trawlnet_ids_beyond", _G, "First id from which on nothing is settled.")
IDS_NEWEST_AGE = _ids(
    "trawlnet_ids_newest_age_seconds", _G, "Age of the newest fetched id, in seconds.", unit=_S
)
IDS_MARKS = _ids("trawlnet_ids_marks", _G, "Ids in the ledger by mark.", "mark")
IDS_STORE_STORED = _ids("trawlnet_ids_store_stored", _C, "Messages that `ids store` has stored.")
IDS_STORE_PUT_ASIDE = _ids(
    "trawlnet_ids_store_put_aside", _C, "Messages that `ids store` could not store."
)
IDS_STORE_DEPTH = _ids(
    "trawlnet_ids_store_queue_depth", _G, "Messages published and not yet stored."
)
IDS_STORE_BEHIND = _ids(
    "trawlnet_ids_store_seconds_behind",
    _G,
    "Longest time that a published message may have waited, in seconds.",
    unit=_S,
)

# Of the web crawler; observe/metrics/web.py has the figures.
WEB_PAGES = _web("trawlnet_web_pages", _C, "Pages stored, by page type.", "page_type")
WEB_BYTES = _web("trawlnet_web_bytes", _C, "Bytes of pages stored.", unit=_B)
WEB_UNCHANGED = _web(
    "trawlnet_web_pages_unchanged", _C, "Pages that servers reported as not modified."
)
WEB_LINKS = _web(
    "trawlnet_web_links", _C, "Links found, by what the crawler did with them.", "fate"
)
WEB_FRONTIER = _web("trawlnet_web_frontier_urls", _G, "URLs in the frontier by state.", "state")

CATALOGUE: tuple[Series, ...] = tuple(LISTED.values())
