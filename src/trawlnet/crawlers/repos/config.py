"""What the repos crawler can be told: a section of trawlnet.yaml, variables and flags."""

from __future__ import annotations

from enum import StrEnum
from importlib.util import find_spec

from pydantic import BaseModel, ConfigDict, Field, field_validator

from trawlnet.crawlers.common_keys import (
    AlertOptions,
    AllowPrivate,
    ClickhouseOptions,
    ConnectTimeout,
    Contact,
    FleetOptions,
    MaxSeconds,
    MetricsAddress,
    PlcRate,
    RequestTimeout,
    StoreOptions,
)
from trawlnet.crawlers.repos.following.figures.live_alerts import ALERT_BEHIND
from trawlnet.crawlers.units import Seconds, Size
from trawlnet.engine.crawl import Limits
from trawlnet.engine.rules import Manners, RetryPolicy


class SourceKind(StrEnum):
    PLC = "plc"  # The mirror of the PLC directory.
    RELAY = "relay"  # Relays name hosts, hosts name repositories.
    FILE = "file"  # A list of DIDs.


class Verify(StrEnum):
    FULL = "full"  # Hashes, owner, tree, and the signature against the account's key.
    HASHES = "hashes"  # All but the signature.
    OFF = "off"  # The tree must still be whole, and the owner right.


class LiveTablesKey(StrEnum):
    AUTO = "auto"  # With a server, or where the embedded ClickHouse is installed.
    ON = "on"
    OFF = "off"


class ReposOptions(BaseModel):
    """The keys that only this crawler has."""

    relay: tuple[str, ...] = Field(
        (),
        description=(
            "Relays (URLs, in this order): "
            "a crawl asks them for PDS hosts, following reads their firehoses."
        ),
    )
    pds: tuple[str, ...] = Field(
        (), description="Follow the firehoses of these PDSes (URLs), beside those of relays."
    )
    follow: bool = Field(
        False,
        description="Follow the firehoses of --relay and --pds during the crawl and after it.",
    )
    from_start: bool = Field(
        False,
        description="Begin each firehose at the oldest message that its server still has.",
    )
    resyncs_per_hour: float = Field(
        1000.0,
        gt=0,
        description="Most repositories of one PDS fetched again per hour because of firehose "
        "messages.",
    )
    resync_pause: Seconds = Field(
        60.0,
        gt=0,
        description="Wait between the first two fetches of one repository because of firehose "
        "messages, in seconds; it doubles with each further fetch.",
    )
    follow_memory: Size = Field(
        256 << 20,
        ge=16 << 20,
        description="Memory for messages of firehoses that are not published yet.",
    )
    alert_behind: Seconds = Field(
        ALERT_BEHIND,
        gt=0,
        description="Alert when a firehose has been further behind than this, or not connected, "
        "for this long.",
    )
    source: SourceKind | None = Field(
        None,
        description="Where DIDs come from: plc, relay or file; default: file with --dids, "
        "relay with --relay, else plc.",
    )
    dids: str = Field("", description="Crawl the DIDs in this file, one per line.")
    plc_url: str = Field("https://plc.directory", description="URL of the PLC directory.")
    plc_rps: PlcRate = 20.0
    page_size: int = Field(
        50_000, ge=1, le=1_000_000, description="DIDs that the PLC source adds at a time."
    )
    skip_pds: tuple[str, ...] = Field(
        (), description="Never send requests to these PDSes (host or URL)."
    )
    collections: tuple[str, ...] = Field(
        (), description="Archive only these collections (globs such as app.bsky.graph.*)."
    )
    update: bool = Field(
        False, description="Also visit archived repositories, and fetch those that changed."
    )
    resume: bool = Field(False, description="Accepted for compatibility: a crawl always resumes.")
    recheck_inactive: Seconds = Field(
        86_400.0,
        ge=0,
        description="Re-check inactive accounts whose last answer is older than this.",
    )
    verify: Verify = Field(
        Verify.FULL,
        description="Verification of repositories: full, hashes (all but the signature) or off.",
    )
    keep_cids: bool = Field(
        False,
        description="Keep the cid field of strong references in records of version 1; "
        "version 2 always does.",
    )
    rca_version: int = Field(
        2,
        ge=1,
        le=2,
        description="Format of new segments: 2 keeps the proofs of each repository, and all cids; "
        "1 is for readers that do not support 2.",
    )
    segment_size: Size = Field(
        2 << 30, ge=1024, description="Start a new segment file at this size."
    )
    zstd_level: int = Field(3, ge=1, le=19, description="Compression level for zstd.")
    workers: int = Field(50, ge=1, le=10_000, description="Tasks processed at the same time.")
    default_pds_rps: float = Field(
        5.0, gt=0, le=1000, description="Requests per second to a PDS of 100 to 999 accounts."
    )
    small_pds_rps: float = Field(
        2.0, gt=0, le=1000, description="Requests per second to a PDS of fewer than 100 accounts."
    )
    large_pds_rps: float = Field(
        10.0, gt=0, le=1000, description="Requests per second to a PDS of 1000 accounts or more."
    )
    pds_concurrency: int = Field(4, ge=1, le=100, description="Concurrent requests to one PDS.")
    halve_after: int = Field(
        5, ge=1, description="Halve the request rate of a PDS after this many consecutive failures."
    )
    min_pds_rps: float = Field(
        0.5, gt=0, description="Never halve below this many requests per second."
    )
    block_after: int = Field(
        10,
        ge=1,
        description="Block a PDS for this run after this many consecutive failures; while streams "
        "are followed, wait up to an hour between two attempts instead.",
    )
    attempts: int = Field(
        5, ge=1, le=100, description="Attempts per repository, including the first."
    )
    retry_base: Seconds = Field(
        2.0,
        gt=0,
        description="Wait before the first retry, in seconds; it doubles with each further retry.",
    )
    retry_cap: Seconds = Field(3600.0, gt=0, description="Longest wait before a retry, in seconds.")
    max_repo_size: Size = Field(
        100 << 20, ge=1, description="Refuse repositories larger than this (bytes, or 100MB)."
    )
    max_expansion: float = Field(
        16.0,
        ge=1,
        le=10_000,
        description="Refuse a repository whose JSON is more than this many times its size; 4 "
        "MB are always allowed.",
    )
    memory_limit: Size = Field(
        1 << 30,
        ge=1 << 20,
        description="Memory for repositories that are fetched and not archived yet.",
    )
    request_timeout: RequestTimeout = 300.0
    connect_timeout: ConnectTimeout = 15.0
    event_log_size: Size = Field(
        20 << 30,
        ge=1 << 20,
        description="Keep about this many bytes of events; older ones are deleted.",
    )
    event_log_age: Seconds = Field(
        3 * 86_400.0, gt=0, description="Delete events that are older than this."
    )
    event_queue: str = Field(
        "", description="Publish events to this RabbitMQ server as well (amqp://…)."
    )
    live_tables: LiveTablesKey = Field(
        LiveTablesKey.AUTO,
        description="Keep the table repo_records current while following: auto (where ClickHouse "
        "is installed, or a server is named), on or off.",
    )

    @field_validator("relay", "pds", "skip_pds", "collections", mode="before")
    @classmethod
    def _one_is_a_list_of_one(cls, value: object) -> object:
        return (value,) if isinstance(value, str) else value


class ReposConfig(AlertOptions, ClickhouseOptions, FleetOptions, StoreOptions, ReposOptions):
    """Field names are the YAML keys; with dashes they are the flags, in the order of the bases
    from the last to the first."""

    model_config = ConfigDict(extra="forbid")

    allow_private_hosts: AllowPrivate = False
    contact: Contact = ""
    metrics_address: MetricsAddress = ""
    max_tasks: int | None = Field(None, ge=1, description="Stop after starting this many tasks.")
    max_seconds: MaxSeconds = None

    @property
    def chosen_source(self) -> SourceKind:
        if self.source is not None:
            return self.source
        if self.dids:
            return SourceKind.FILE
        return SourceKind.RELAY if self.relay else SourceKind.PLC


def wants_live_tables(config: ReposConfig) -> bool:
    if config.live_tables is LiveTablesKey.AUTO:
        return bool(config.clickhouse_address) or find_spec("chdb") is not None
    return config.live_tables is LiveTablesKey.ON


def manners(config: ReposConfig) -> Manners:
    """How a PDS of middling size is treated."""
    return Manners(
        rate=config.default_pds_rps,
        concurrency=config.pds_concurrency,
        halve_every=config.halve_after,
        floor=config.min_pds_rps,
        block_at=config.block_after,
        probes=_WITHOUT_END if config.follow else 0,
    )


# A crawl that follows has no later run that would ask a host again: it waits up to an hour.
_WITHOUT_END = 1 << 30


_PAGES_OPEN = 10  # At which the source waits,
_LINGER = 0.05  # Seconds: a commit for a repository or two costs as much as fetching them.
_GATHER = 0.02  # Seconds: a lease for one lane costs as much as one for six.
_FEW_PDSES = 50  # unless fewer PDSes than this have work left: a few large ones
_PAGES_OPEN_MOST = 50  # must not keep the rest of the network out of sight for long.


def limits(config: ReposConfig) -> Limits:
    return Limits(
        linger=_LINGER,
        gather=_GATHER,
        high_water=_PAGES_OPEN * config.page_size,
        few_lanes=_FEW_PDSES,
        highest_water=_PAGES_OPEN_MOST * config.page_size,
        retry=RetryPolicy(config.attempts, base=config.retry_base, cap=config.retry_cap),
        most_tasks=config.max_tasks,
        most_seconds=config.max_seconds,
        follow=config.follow,
    )
