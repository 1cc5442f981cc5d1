"""Crawlee for Python with its SQLite storage and the Parsel crawler. `SEED FOLDER`.

Items name the page, its body's sha256 and its links; bodies are files by sha256.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import sys
import warnings
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

from crawlee import ConcurrencySettings
from crawlee.configuration import Configuration
from crawlee.crawlers import ParselCrawler, ParselCrawlingContext
from crawlee.storage_clients import SqlStorageClient

SEED, FOLDER = sys.argv[1], Path(sys.argv[2])
STATISTICS_EVERY = timedelta(hours=1)  # Nobody reads them here.


async def main() -> None:
    place = f"sqlite+aiosqlite:///{FOLDER / 'crawlee.db'}"
    async with SqlStorageClient(connection_string=place) as storage:
        crawler = ParselCrawler(
            storage_client=storage,
            configuration=Configuration(
                storage_dir=str(FOLDER), persist_state_interval=STATISTICS_EVERY
            ),
            concurrency_settings=ConcurrencySettings(
                min_concurrency=32, max_concurrency=32, desired_concurrency=32
            ),
            respect_robots_txt_file=True,
            use_session_pool=False,
            configure_logging=False,
        )

        @crawler.router.default_handler
        async def page(context: ParselCrawlingContext) -> None:
            body = await context.http_response.read()
            await context.push_data(kept(context, body))
            await context.enqueue_links()

        await crawler.run([SEED])


def kept(context: ParselCrawlingContext, body: bytes) -> dict[str, Any]:
    sha256 = hashlib.sha256(body).hexdigest()
    file = FOLDER / "store" / sha256[:2] / sha256[2:4] / f"{sha256}.html"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(body)
    url, headers = context.request.url, context.http_response.headers
    return {
        "url": url,
        "status": context.http_response.status_code,
        "depth": context.request.crawl_depth,
        "content_type": headers.get("content-type", ""),
        "etag": headers.get("etag", ""),
        "sha256": sha256,
        "bytes": len(body),
        "links": [
            (urljoin(url, one.attrib["href"]), one.css("::text").get(""))
            for one in context.selector.css("a[href]")
        ],
    }


logging.basicConfig(level=logging.WARNING)
warnings.simplefilter("ignore")
asyncio.run(main())
