"""What the repos crawler can be told: a section of trawlnet.yaml, variables and flags."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field, field_validator

from trawlnet.crawlers.units import Seconds, Size
from trawlnet.engine.crawl import Limits
from trawlnet.engine.rules import Manners, RetryPolicy


class ReposConfig(BaseModel):
    """Field names are the YAML keys; with dashes they are the flags."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    relay: tuple[str, ...] = Field(
        (), description="Relays to ask for PDS hosts (URLs, asked in this order)."
    )
    skip_pds: tuple[str, ...] = Field((), description="PDS hosts to leave alone (host or URL).")
    workers: int = Field(50, ge=1, le=10_000, description="Tasks worked on at the same time.")
    default_pds_rps: float = Field(
        5.0, gt=0, le=1000, description="Requests per second to one PDS."
    )
    pds_concurrency: int = Field(
        4, ge=1, le=100, description="Requests in flight to one PDS, whatever its rate."
    )
    halve_after: int = Field(
        5, ge=1, description="Failures in a row after which a PDS is asked half as often."
    )
    min_pds_rps: float = Field(0.5, gt=0, description="Halving never goes below this rate.")
    block_after: int = Field(
        10, ge=1, description="Failures in a row after which a PDS is left alone for this run."
    )
    attempts: int = Field(5, ge=1, le=100, description="Tries per repository, the first included.")
    retry_base: Seconds = Field(
        2.0, gt=0, description="Seconds before the first retry; each further one doubles."
    )
    retry_cap: float = Field(
        3600.0, gt=0, description="Seconds that a retry waits at most, however many went before."
    )
    max_repo_size: Size = Field(
        100 << 20, ge=1, description="Largest repository to keep (bytes, or 100MB)."
    )
    request_timeout: Seconds = Field(300.0, gt=0, description="Seconds for one whole request.")
    connect_timeout: Seconds = Field(15.0, gt=0, description="Seconds to get a connection.")
    store_url: str = Field(
        "", description="Where the crawl remembers: redis://HOST:PORT/DB, or empty for LMDB."
    )
    allow_private_hosts: bool = Field(
        False, description="Open loopback and private addresses, any port, plain http."
    )
    contact: str = Field("", description="Mail address or URL that the User-Agent names.")
    metrics_address: str = Field(
        "", description="Serve Prometheus metrics on HOST:PORT (port 0 picks one)."
    )
    max_tasks: int | None = Field(None, ge=1, description="Stop after starting so many tasks.")
    max_seconds: Seconds | None = Field(None, gt=0, description="Stop after so many seconds.")

    @field_validator("relay", "skip_pds", mode="before")
    @classmethod
    def _one_is_a_list_of_one(cls, value: object) -> object:
        return (value,) if isinstance(value, str) else value


def manners(config: ReposConfig) -> Manners:
    """How every PDS is treated."""
    return Manners(
        rate=config.default_pds_rps,
        concurrency=config.pds_concurrency,
        halve_every=config.halve_after,
        floor=config.min_pds_rps,
        block_at=config.block_after,
    )


def limits(config: ReposConfig) -> Limits:
    return Limits(
        retry=RetryPolicy(config.attempts, base=config.retry_base, cap=config.retry_cap),
        most_tasks=config.max_tasks,
        most_seconds=config.max_seconds,
    )
