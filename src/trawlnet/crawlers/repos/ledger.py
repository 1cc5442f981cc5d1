"""The store of a crawl by itself, for commands that look back."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from trawlnet.crawlers.repos.config import ReposConfig
from trawlnet.engine.ports import Ledger
from trawlnet.stores.open import open_store

STORE = "store"  # In the state folder.


@asynccontextmanager
async def open_ledger(config: ReposConfig, state: Path) -> AsyncIterator[Ledger]:
    """Without a name, it takes no work over."""
    store = await open_store(config.redis_address or state / STORE, begin=False)
    try:
        yield store
    finally:
        await store.close()
