"""Crawlee for Python with its SQLite storage and the Parsel crawler. `SEED FOLDER`."""

from __future__ import annotations

import asyncio
import logging
import sys
import warnings
from datetime import timedelta
from pathlib import Path

from crawlee import ConcurrencySettings
from crawlee.configuration import Configuration
from crawlee.crawlers import ParselCrawler, ParselCrawlingContext
from crawlee.storage_clients import SqlStorageClient

SEED, FOLDER = sys.argv[1], Path(sys.argv[2])
STATISTICS_EVERY = timedelta(hours=1)  # Nobody reads them here.


async def main() -> None:
    place = f"sqlite+aiosqlite:///{FOLDER / 'crawlee.db'}"
    with (FOLDER / "bodies").open("ab") as bodies:
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
                bodies.write(b"%s %d\n" % (context.request.url.encode(), len(body)))
                bodies.write(body)
                await context.enqueue_links()

            await crawler.run([SEED])


logging.basicConfig(level=logging.WARNING)
warnings.simplefilter("ignore")
asyncio.run(main())
