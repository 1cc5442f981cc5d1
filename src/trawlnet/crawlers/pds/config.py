"""The config of the pds crawler: a section of trawlnet.yaml, variables and flags."""

from __future__ import annotations

import math

from pydantic import BaseModel, ConfigDict, Field, field_validator

from trawlnet.atproto.syntax import is_nsid
from trawlnet.crawlers.common_keys import (
    AlertOptions,
    AllowPrivate,
    ClickhouseOptions,
    Contact,
    MaxSeconds,
    MetricsAddress,
    PlcRate,
)
from trawlnet.crawlers.units import Seconds
from trawlnet.engine.crawl import Limits
from trawlnet.engine.rules import Manners, RetryPolicy

PLC_DIRECTORY = "https://plc.directory"
TRIES = 3  # Attempts at one step of a scan, while a server fails.
# Replacements for a * that make a pattern a valid name: collections have at least three parts.
_FILLINGS = ("", "a", "a.a", "a.a.a", ".a", ".a.a", "a.", "a.a.")


class PdsOptions(BaseModel):
    """The keys that only this crawler has."""

    registry: str = Field(
        "",
        description="Registry: a file, or postgresql://USER:PASSWORD@HOST/NAME; default: "
        "state/pds/registry.db in the workspace.",
    )
    plc: bool = Field(
        False,
        description="Discover PDSes in the PLC directory: in its mirror if there is one, else "
        "in its export.",
    )
    plc_url: str = Field(
        "", description=f"URL of the PLC directory; setting it implies --plc [{PLC_DIRECTORY}]."
    )
    plc_rps: PlcRate = 5.0
    relay: tuple[str, ...] = Field(
        (), description="Discover PDSes by asking these relays (wss:// or https://)."
    )
    follow: bool = Field(
        False,
        description="Read the firehoses of --relay as well, or of the PDSes themselves without "
        "one, and scan an account as soon as its records change.",
    )
    from_start: bool = Field(
        False, description="Begin each firehose at the oldest message that its server still has."
    )
    streams: int = Field(
        100, ge=1, le=10_000, description="Most PDSes whose firehoses are read at the same time."
    )
    look_pause: Seconds = Field(
        5.0,
        ge=0,
        description="Shortest time between two scans of one account because of firehose messages.",
    )
    looks_per_minute: float = Field(
        60.0,
        gt=0,
        le=60_000,
        description="Most accounts of one PDS scanned per minute because of firehose messages.",
    )
    pending_looks: int = Field(
        10_000,
        ge=1,
        le=10_000_000,
        description="Most accounts that may wait for such a scan, at most a tenth of them on one "
        "PDS; when there are more, the whole PDS is scanned.",
    )
    rescan_pause: Seconds = Field(
        600.0,
        ge=0,
        description="Shortest time between two scans of a whole PDS because of firehose messages.",
    )
    dids: str = Field("", description="Discover the PDSes of the DIDs in this file, one per line.")
    mentions: bool = Field(
        False, description="Discover the PDSes of accounts that indexed records mention."
    )
    discovery_interval: Seconds = Field(
        86_400.0, gt=0, description="Repeat discovery this often while crawling."
    )
    domain_budget: int = Field(
        100,
        ge=1,
        description="Most PDSes under one domain that may wait for their first complete scan.",
    )
    collections: tuple[str, ...] = Field(
        ("pub.chive.*",), description="Scan for these collections (globs such as pub.chive.*)."
    )
    index_tags: bool = Field(False, description="Index tags as well, instead of only storing them.")
    scan_interval: Seconds = Field(900.0, gt=0, description="Start a batch of scans this often.")
    batch: int = Field(5, ge=1, le=10_000, description="PDSes scanned in one batch.")
    concurrency: int = Field(2, ge=1, le=1000, description="PDSes scanned at the same time.")
    requests_per_minute: float = Field(
        10.0,
        gt=0,
        le=60_000,
        description="Requests per minute to one PDS, whichever process sends them.",
    )
    scan_timeout: Seconds = Field(
        60.0, gt=0, description="Time limit of one scan, in seconds; the next scan continues it."
    )
    claim_timeout: Seconds = Field(
        120.0,
        ge=1,
        description="Let other processes take over a PDS this many seconds after its scanner "
        "died; at least twice --scan-timeout.",
    )
    max_records_per_pds: int = Field(
        1000, ge=1, description="Most records read in one scan; the next scan continues it."
    )
    max_records_per_account: int = Field(
        1_000_000,
        ge=1,
        description="Most records of one account in one collection; the rest of an account with "
        "more is left out as too_large.",
    )
    skip_relay_connected: bool = Field(
        False, description="Skip PDSes that a relay already reads from."
    )
    once: bool = Field(
        False, description="Discover once, scan every PDS that is due without pauses, and exit."
    )
    fleet: str = Field(
        "",
        description="Run the crawl as many processes on one PostgreSQL registry: local, or the "
        "address of a Ray cluster (ray://HOST:10001, or HOST:6379 on one of its "
        "nodes).",
    )
    shards: int = Field(2, ge=1, le=512, description="Number of processes of a fleet.")

    @field_validator("relay", "collections", mode="before")
    @classmethod
    def _one_is_a_list_of_one(cls, value: object) -> object:
        return (value,) if isinstance(value, str) else value

    @field_validator("collections")
    @classmethod
    def _can_fit_collections(cls, globs: tuple[str, ...]) -> tuple[str, ...]:
        for glob in globs:
            if not can_fit(glob):
                raise ValueError(
                    "collections such as app.bsky.feed.post or patterns such as app.bsky.*; "
                    f"{glob!r} can fit none"
                )
        return globs


class PdsConfig(AlertOptions, ClickhouseOptions, PdsOptions):
    """Field names are the YAML keys; with dashes they are the flags, in the order of the bases
    from the last to the first."""

    model_config = ConfigDict(extra="forbid")

    allow_private_hosts: AllowPrivate = False
    contact: Contact = ""
    metrics_address: MetricsAddress = ""
    max_tasks: int | None = Field(None, ge=1, description="Stop after starting this many scans.")
    max_seconds: MaxSeconds = None

    @property
    def enumerates_plc(self) -> bool:
        return self.plc or bool(self.plc_url)

    @property
    def discovers(self) -> bool:
        return bool(self.enumerates_plc or self.relay or self.dids or self.mentions)

    @property
    def directory(self) -> str:
        return self.plc_url or PLC_DIRECTORY


def can_fit(glob: str) -> bool:
    """Whether any collection name can match a pattern with *."""
    return any(is_nsid(glob.replace("*", filling)) for filling in _FILLINGS)


def gap(config: PdsConfig) -> float:
    """Seconds between two requests to one PDS."""
    return 60.0 / config.requests_per_minute


def manners(config: PdsConfig) -> Manners:
    """The manners of a PDS. The registry decides when to scan again after a failure, and a server
    how long we must wait."""
    rate = config.requests_per_minute / 60.0
    return Manners(rate=rate, concurrency=1, longest_park=math.inf, steered=True)


def lease(config: PdsConfig) -> float:
    """Longer than any scan, so that a process that was frozen finds its claim over; and longer than
    any gap, so that the next process keeps the gap."""
    return max(config.claim_timeout, 2 * config.scan_timeout, gap(config))


def step_retries(tries: int) -> RetryPolicy:
    """A step is retried at once: the gate limits the rate, and a server names its own wait."""
    return RetryPolicy(attempts=tries, patience=tries - 1, base=0.0, jitter=0.0)


def limits(config: PdsConfig) -> Limits:
    return Limits(
        lease=lease(config),
        high_water=0,  # The next batch is claimed when the last one is done, so they never overlap.
        retry=step_retries(TRIES),
        most_seconds=config.max_seconds,
    )
