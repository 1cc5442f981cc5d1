"""Flags of `trawlnet web` for what is asked for often, and the keys that they stand for."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from trawlnet.cli.common.settings import variable_of


class WebFlags(BaseModel):
    """Each stands for the key of trawlnet.yaml in `PLACES`."""

    # Nobody validates it: the keys behind the flags are validated.
    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    user_agent: str = Field("", description="Who we say we are: 'Bot/1.0 (+https://...)'.")
    allowed_host: tuple[str, ...] = Field((), description="Host to stay on, without its port.")
    max_depth: int | None = Field(None, description="Links away from a seed.")
    max_pages: int | None = Field(None, description="Stop after so many pages.")
    max_bytes: str = Field("", description="Stop after so much was received, like 2GB.")
    max_seconds: str = Field("", description="Stop after so long, like 30m.")
    req_per_sec: float | None = Field(None, description="Requests per second to one host; 0: any.")
    concurrency: int | None = Field(None, description="Requests in flight, all hosts together.")
    warc: bool = Field(False, description="Write WARC files and their index, too.")
    preset: str = Field("", description="Settings made for one site: github.")
    allow_private_hosts: bool = Field(
        False, description="Open loopback and private addresses, any port, plain http."
    )
    redis_address: str = Field("", description="Keep the crawl's state in Redis: HOST:PORT.")
    store: str = Field("", description="The same as --redis-address.")
    fleet: str = Field("", description="Crawl with many processes: local, or ray://HOST:10001.")
    shards: int | None = Field(None, description="How many processes share the crawl.")
    archive: str = Field("", description="Where a fleet archives: s3://BUCKET/FOLDER, or a folder.")
    part_seconds: str = Field("", description="How long a fleet's results gather, like 30s.")
    shard_timeout: str = Field(
        "", description="A shard silent for so long loses its lanes, like 15s."
    )
    metrics_address: str = Field("", description="Serve Prometheus metrics on HOST:PORT.")
    webhook: str = Field("", description="URL that alerts are posted to; else they are logged.")
    webhook_shape: str = Field(
        "", description="How alerts are written: discord, slack, json, or by URL."
    )
    set: tuple[str, ...] = Field((), description="Any key, like limits.max_retries=5.")


PLACES = {
    "user_agent": "robots.user_agent",
    "allowed_host": "scope.allowed_hosts",
    "max_depth": "caps.max_depth",
    "max_pages": "caps.max_pages",
    "max_bytes": "caps.max_bytes",
    "max_seconds": "caps.max_seconds",
    "req_per_sec": "limits.req_per_sec",
    "concurrency": "limits.global_concurrency",
    "warc": "warc.enabled",
    "preset": "preset",
    "allow_private_hosts": "allow_private_hosts",
    "redis_address": "redis_address",
    "store": "redis_address",
    "fleet": "fleet",
    "shards": "shards",
    "archive": "archive",
    "part_seconds": "part_seconds",
    "shard_timeout": "shard_timeout",
    "metrics_address": "metrics_address",
    "webhook": "webhook",
    "webhook_shape": "webhook_shape",
}


# Of flags that stand for a key within a section.
VARIABLES = frozenset(
    variable_of("web", key) for key in WebFlags.model_fields if PLACES.get(key) != key
)
