"""Opening a store to look at a crawl."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from trawlnet.engine.ports import Page
from trawlnet.engine.task import Task
from trawlnet.stores.errors import StoreError
from trawlnet.stores.open import open_store


def test_to_look_at_a_crawl_that_never_began_begins_none(tmp_path: Path) -> None:
    async def look() -> int:
        store = await open_store(tmp_path / "store", begin=False)
        try:
            return (await store.counts()).known
        finally:
            await store.close()

    assert asyncio.run(look()) == 0
    assert list(tmp_path.iterdir()) == []


def test_to_look_at_a_crawl_that_began_shows_it(tmp_path: Path) -> None:
    async def feed_and_look() -> int:
        store = await open_store(tmp_path / "store")
        await store.feed(Page([Task("a", "lane")], "cursor"))
        await store.close()
        again = await open_store(tmp_path / "store", begin=False)
        try:
            return (await again.counts()).open
        finally:
            await again.close()

    assert asyncio.run(feed_and_look()) == 1


def test_an_address_of_no_store_is_refused_to_readers_too() -> None:
    with pytest.raises(StoreError, match="http"):
        asyncio.run(open_store("http://example.org", begin=False))
