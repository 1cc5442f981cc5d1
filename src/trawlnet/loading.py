"""The one loader: what is an extra, or slow and seldom needed, is imported when it is asked for."""

from __future__ import annotations

from importlib import import_module
from typing import Any, Final

# Each extra, by the packages that only it brings; the first is what `doctor` looks for.
EXTRAS: Final = {
    "fast": ("uvloop", "cryptography", "brotli"),
    "clickhouse": ("chdb", "clickhouse_connect"),
    "redis": ("redis", "hiredis"),
    "postgres": ("psycopg", "psycopg_pool"),
    "rabbitmq": ("aio_pika",),
    "s3": ("obstore",),
    "fleet": ("ray",),
    "plot": ("matplotlib",),
    "otel": ("opentelemetry.sdk", "opentelemetry"),
    "warc": ("warcio",),
    "sim": ("aiohttp",),
    "arrow": ("pyarrow",),
}


def load(place: str) -> Any:
    """What `package.module:name` names, or the module itself; raises ImportError."""
    module, _, name = place.partition(":")
    found = import_module(module)
    return getattr(found, name) if name else found


def extra_of(module: str) -> str:
    """The extra that brings a module; `all` if none of them is known to."""
    package = module.partition(".")[0]
    return next((extra for extra, brought in EXTRAS.items() if package in brought), "all")
