"""The flags of `trawlnet web` for common settings, and the config keys that they set."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from trawlnet.cli.common.settings import variable_of


class WebFlags(BaseModel):
    """Each stands for the key of trawlnet.yaml in `PLACES`."""

    # Not validated here: the keys that the flags set are validated.
    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    user_agent: str = Field("", description="User-Agent with a contact: 'Bot/1.0 (+https://...)'.")
    allowed_host: tuple[str, ...] = Field((), description="Stay on this host (without its port).")
    max_depth: int | None = Field(
        None, description="Follow links at most this many steps from a seed."
    )
    max_pages: int | None = Field(None, description="Stop this run after this many pages.")
    max_bytes: str = Field(
        "", description="Stop this run after receiving this many bytes, such as 2GB."
    )
    max_seconds: str = Field("", description="Stop this run after this long, such as 30m.")
    req_per_sec: float | None = Field(
        None, description="Requests per second to one host; 0 means no limit."
    )
    concurrency: int | None = Field(None, description="Concurrent requests, all hosts together.")
    warc: bool = Field(False, description="Write WARC files and their index as well.")
    preset: str = Field("", description="Built-in settings for one site: github.")
    allow_private_hosts: bool = Field(
        False, description="Allow loopback and private addresses, any port, and plain http."
    )
    store: str = Field(
        "", description="Keep the crawl's state in Redis: HOST:PORT, or redis://HOST:PORT/DB."
    )
    redis_address: str = Field("", description="Another name of --store.")
    fleet: str = Field(
        "", description="Run the crawl as many processes: local, or ray://HOST:10001."
    )
    shards: int | None = Field(None, description="Number of processes that share the crawl.")
    archive: str = Field(
        "", description="Archive of a fleet: s3://BUCKET/FOLDER, or a shared folder."
    )
    part_seconds: str = Field(
        "", description="A fleet uploads its results at this age, such as 30s."
    )
    shard_timeout: str = Field(
        "",
        description="Give a shard's lanes to another when it has not reported for this long, "
        "such as 15s.",
    )
    metrics_address: str = Field("", description="Serve Prometheus metrics on HOST:PORT.")
    webhook: str = Field(
        "", description="Post alerts to this URL; without one, alerts are only logged."
    )
    webhook_shape: str = Field(
        "", description="Format of alerts: discord, slack or json; auto goes by the URL."
    )
    set: tuple[str, ...] = Field((), description="Set any key, such as limits.max_retries=5.")


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
    "store": "redis_address",
    "redis_address": "redis_address",
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
