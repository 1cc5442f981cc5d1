"""The config of the ids crawler: a section of trawlnet.yaml, variables and flags."""

from __future__ import annotations

import math
from enum import StrEnum

from pydantic import BaseModel, ConfigDict, Field

from trawlnet.crawlers.common_keys import (
    AlertOptions,
    AllowPrivate,
    ClickhouseOptions,
    ConnectTimeout,
    Contact,
    MaxSeconds,
    MetricsAddress,
    RequestTimeout,
    StoreOptions,
)
from trawlnet.crawlers.units import Seconds, Size
from trawlnet.engine.crawl import Limits
from trawlnet.engine.rules import Manners


class PresetName(StrEnum):
    PGCR = "pgcr"  # Carnage reports of Destiny 2.
    JSON = "json"  # 404 or a JSON object, such as the items of Hacker News.


class Scaling(StrEnum):
    ADAPTIVE = "adaptive"
    CLASSIC = "classic"


class IdsOptions(BaseModel):
    """The keys that only this crawler has."""

    base_url: str = Field(
        "", description="URL of the API's server, such as https://www.bungie.net."
    )
    preset: PresetName = Field(
        PresetName.PGCR,
        description="Kind of API: pgcr or json; the keys below override what the preset says.",
    )
    path: str = Field("", description="Path of one id, with {id} in it; default: the preset's.")
    anchor: str = Field(
        "", description="Path that returns the newest id, or `none`; default: the preset's."
    )
    key_variable: str = Field(
        "",
        description="Environment variable that holds the API key, or `none`; default: the "
        "preset's. The key is sent as X-API-Key to Destiny 2, and unchanged as "
        "Authorization to a plain API.",
    )
    time_key: str = Field(
        "",
        description="json: field with the Unix time of an item, from which the lag is computed "
        "[time].",
    )
    wanted: tuple[str, ...] = Field(
        (), description="json: keep only items with one of these values, such as type=story."
    )
    target: int | None = Field(
        None, ge=1, description="Newest known id; a first crawl starts --buffer ids below it."
    )
    buffer: int | None = Field(
        None,
        ge=0,
        description="Start this many ids below the target or the latest stored id [10000].",
    )
    until: int | None = Field(
        None, ge=1, description="Stop when every id below this one is settled."
    )
    workers: int = Field(25, ge=1, le=10_000, description="Concurrent requests at the start.")
    min_workers: int = Field(
        5, ge=1, le=10_000, description="Lowest number of concurrent requests."
    )
    max_workers: int | None = Field(
        None, ge=1, le=10_000, description="Highest number of concurrent requests [250]."
    )
    max_rps: float = Field(
        25.0, gt=0, le=100_000, description="Hard limit on requests per second, all kinds together."
    )
    scaling: Scaling = Field(
        Scaling.ADAPTIVE,
        description="Law that sets the rate and the concurrency: adaptive or classic.",
    )
    freshness: float = Field(
        0.02,
        gt=0,
        lt=1,
        description="adaptive: share of first requests that may come before their id is "
        "published; a larger share finds ids sooner. One every other second is "
        "always allowed.",
    )
    patience: Seconds = Field(
        1500.0,
        gt=0,
        description="adaptive: about how late an id may appear, in seconds, before it is "
        "recorded as a hole.",
    )
    metrics_from: str = Field(
        "",
        description="classic: URL of a Prometheus server to read figures from; default: the "
        "crawl's own counters.",
    )
    dev: bool = Field(
        False, description="Development mode: few workers, a small buffer, and most ids skipped."
    )
    dev_skip: int = Field(
        4, ge=0, le=10_000, description="With --dev, skip this many ids after each one."
    )
    queue: str = Field(
        "", description="RabbitMQ server between crawl and store (amqp://…); default: spool files."
    )
    max_spool: Size = Field(
        20 << 30,
        ge=1024,
        description="Pause the crawl while more bytes than this are published and not stored.",
    )
    postgres: str = Field(
        "", description="PostgreSQL server for stored instances (postgresql://…); default: SQLite."
    )
    fleet: str = Field(
        "",
        description="Run one active and one standby process: local, or the address of a Ray "
        "cluster (ray://HOST:10001, or HOST:6379 on one of its nodes).",
    )
    shard_timeout: Seconds = Field(
        15.0, ge=1, description="Replace the active process when it has not reported for this long."
    )
    status_every: Seconds = Field(
        3600.0, gt=0, description="Send a status update to the webhook this often, in seconds."
    )
    request_timeout: RequestTimeout = 30.0
    connect_timeout: ConnectTimeout = 10.0
    max_body: Size = Field(
        16 << 20, ge=1024, description="Refuse answers larger than this (bytes, or 1MB)."
    )


class IdsConfig(AlertOptions, ClickhouseOptions, StoreOptions, IdsOptions):
    """Field names are the YAML keys; with dashes they are the flags, in the order of the bases
    from the last to the first."""

    model_config = ConfigDict(extra="forbid")

    allow_private_hosts: AllowPrivate = False
    contact: Contact = ""
    metrics_address: MetricsAddress = ""
    max_tasks: int | None = Field(None, ge=1, description="Stop after starting this many requests.")
    max_seconds: MaxSeconds = None

    @property
    def most_workers(self) -> int:
        most = self.max_workers if self.max_workers is not None else _MAX_WORKERS
        return max(min(most, _DEV_WORKERS) if self.dev else most, 1)

    @property
    def least_workers(self) -> int:
        return min(self.min_workers, self.most_workers)

    @property
    def first_workers(self) -> int:
        return max(self.least_workers, min(self.workers, self.most_workers))

    @property
    def below_latest(self) -> int:
        if self.buffer is not None:
            return self.buffer
        return _DEV_BUFFER if self.dev else _BUFFER

    @property
    def step(self) -> int:
        """The distance from one requested id to the next."""
        return self.dev_skip + 1 if self.dev else 1


_MAX_WORKERS = 250
_DEV_WORKERS = 8
_BUFFER = 10_000
_DEV_BUFFER = 100

# A margin against jitter on the way, so that the server never sees one request too many a second.
_HEADROOM = 0.97
_BURST = 0.01  # Seconds' worth of requests: timers have a resolution of a millisecond.


def manners(config: IdsConfig) -> Manners:
    """The whole budget of one identity; the pilot chooses the rate below it."""
    return Manners(
        rate=_HEADROOM * config.max_rps,
        burst=max(1, math.floor(_BURST * config.max_rps)),
        concurrency=in_flight(config),
        steered=True,
    )


def budget_of(manners: Manners) -> float:
    """The configured requests a second."""
    return manners.rate / _HEADROOM


# Further requests in flight of the classic law, beside its workers: after a gap, and for retries.
_SUPERCHARGE = 1000


def in_flight(config: IdsConfig) -> int:
    extra = _SUPERCHARGE if config.scaling is Scaling.CLASSIC else 0
    return config.most_workers + extra


def limits(config: IdsConfig) -> Limits:
    return Limits(
        batch=1024,
        # Answers that come one by one share a commit; the pilot has them already.
        linger=0.05,
        backlog=1024,
        # The pilot always has more ids.
        follow=True,
        most_tasks=config.max_tasks,
        most_seconds=config.max_seconds,
    )
