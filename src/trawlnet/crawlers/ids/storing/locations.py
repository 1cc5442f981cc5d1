"""The places of queue and tables: in the workspace, or at a configured URL."""

from __future__ import annotations

from pathlib import Path

from trawlnet.crawlers.ids.config import IdsConfig

KEYS = "ids:"  # The prefix of all keys in Redis.
_SPOOL = "spool"
_DATABASE = Path("state", "ids", "instances.db")


def queue_place(config: IdsConfig, workspace: Path) -> str | Path:
    return config.queue or workspace / _SPOOL


def instances_place(config: IdsConfig, workspace: Path) -> str | Path:
    """SQLite in a file, or a PostgreSQL server."""
    return config.postgres or workspace / _DATABASE
