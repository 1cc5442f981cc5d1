"""The store of a crawl with what a scrape could not fetch, for commands that look back."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from trawlnet.captures.page_index import PageIndex
from trawlnet.captures.role import INDEX
from trawlnet.crawlers.web.config import WebConfig
from trawlnet.crawlers.web.discoveries import spool_without_bound
from trawlnet.crawlers.web.unscraped import FILE as UNSCRAPED
from trawlnet.crawlers.web.unscraped import BothLedgers, FetchedAt
from trawlnet.engine.ports import Ledger
from trawlnet.stores.open import open_store


@asynccontextmanager
async def open_ledger(config: WebConfig, state: Path) -> AsyncIterator[Ledger]:
    """Does not start a crawl."""
    async with AsyncExitStack() as stack:
        store = await open_store(redis_url(config) or state / config.frontier.db_name, begin=False)
        stack.push_async_callback(store.close)
        workspace = state.parent.parent
        last_fetched: FetchedAt = _never
        if (workspace / INDEX / "data.mdb").exists():
            index = PageIndex(workspace / INDEX, readonly=True)
            stack.callback(index.close)
            last_fetched = fetched_at(index)
        yield BothLedgers(
            store, state / UNSCRAPED, last_fetched, lambda: spool_without_bound(config, workspace)
        )


def _never(url: str) -> float:
    return 0.0


def fetched_at(pages: PageIndex) -> FetchedAt:
    def last(url: str) -> float:
        page = pages.get(url)
        return page.timestamp if page is not None and page.fetched else 0.0

    return last


def redis_url(config: WebConfig) -> str:
    address = config.redis_address
    return address if not address or "://" in address else f"redis://{address}"
