"""Flags of `trawlnet web` for what is asked for often; `--set` reaches every other key."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from trawlnet.cli.errors import UsageTrouble
from trawlnet.cli.sections import load_section
from trawlnet.cli.settings import (
    Settings,
    expected,
    first_of,
    flag_of,
    is_list,
    keys_under,
    quoted,
    suggestion,
    variable_of,
)
from trawlnet.cli.workspace import Workspace
from trawlnet.crawlers.web.config import WebConfig
from trawlnet.crawlers.web.presets import beneath


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


def load_web(path: Path, flags: Mapping[str, Any]) -> Settings[WebConfig]:
    """The effective config: the file, then variables, then flags; sections are merged."""
    settings = load_section(Workspace(path, "web"), WebConfig)
    given = _nested({**_from_variables(), **_present(flags)})
    if not given:
        return settings
    below = settings.config.model_dump(exclude_unset=True)
    try:
        return Settings(WebConfig.model_validate(beneath(below, given)), settings.sources)
    except ValidationError as error:
        raise _wrong(error) from None


def _from_variables() -> dict[str, Any]:
    found = {}
    for key in WebFlags.model_fields:
        text = os.environ.get(variable_of("web", key))
        if text is not None:
            found[key] = text.split(",") if is_list(WebFlags, key) else text
    return found


def _present(flags: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in flags.items() if value is not None}


def _nested(given: Mapping[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in given.items():
        if key != "set":
            found = beneath(found, _at(PLACES[key], value))
    for pair in given.get("set", ()):
        place, equals, text = pair.partition("=")
        if not equals or not place.strip():
            raise UsageTrouble(f"--set {pair}: expected KEY=VALUE", "--set limits.max_retries=5")
        found = beneath(found, _at(place.strip(), _value(pair, text)))
    return found


def _at(place: str, value: Any) -> dict[str, Any]:
    for name in reversed(place.split(".")):
        value = {name: value}
    return dict(value)


def _value(pair: str, text: str) -> Any:
    from trawlnet.cli.yaml_text import read_value  # Slow to load: only --set pays.

    try:
        return read_value(text)
    except ValueError:
        raise UsageTrouble(f"--set {pair}: not YAML", "put the value in quotes") from None


def _wrong(error: ValidationError) -> UsageTrouble:
    first = first_of(error)
    path = [str(part) for part in first["loc"]]
    place = ".".join(path)
    flag = next((flag_of(key) for key, where in PLACES.items() if where == place), "--set")
    if first["type"] == "extra_forbidden":
        under = "".join(f"{part}." for part in path[:-1])
        known = keys_under(WebConfig, path[:-1])
        hint = suggestion(path[-1], known, "known keys", under)
        return UsageTrouble(f"{flag} {place}: no such key", hint)
    return UsageTrouble(
        f"{place} ({flag}): expected {expected(first)}, got {quoted(first['input'], place)}",
        "see every key with: trawlnet config web",
    )
