"""Where the registry of PDSes is: in the workspace, in a file, or on a server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from trawlnet.crawlers.pds.config import PdsConfig
from trawlnet.tables.registry.entry import Terms
from trawlnet.tables.registry.registry import Registry, open_registry

REGISTRY = "registry.db"  # In the state folder.


def registry_place(config: PdsConfig, workspace: Path) -> Path | str:
    if "://" in config.registry:
        return config.registry
    if config.registry:
        return Path(config.registry)
    return state_folder(workspace) / REGISTRY


def state_folder(workspace: Path) -> Path:
    return workspace / "state" / "pds"


@asynccontextmanager
async def opened_registry(config: PdsConfig, workspace: Path) -> AsyncIterator[Registry]:
    terms = Terms(config.allow_private_hosts, config.domain_budget)
    registry = await open_registry(registry_place(config, workspace), terms)
    try:
        yield registry
    finally:
        await registry.close()
