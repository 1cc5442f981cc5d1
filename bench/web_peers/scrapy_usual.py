"""Scrapy as people usually write it: CrawlSpider, LinkExtractor, JOBDIR. `SEED FOLDER`."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from scrapy import Request
from scrapy.crawler import CrawlerProcess
from scrapy.http import Response
from scrapy.linkextractors import LinkExtractor
from scrapy.spiders import CrawlSpider, Rule

SEED, FOLDER = sys.argv[1], Path(sys.argv[2])


class Usual(CrawlSpider):
    name = "usual"
    allowed_domains = ("127.0.0.1",)
    rules = (Rule(LinkExtractor(), callback="keep", follow=True),)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.bodies = (FOLDER / "bodies").open("ab")

    async def start(self) -> AsyncIterator[Request]:
        """Not by start_urls: those are asked for again when a page leads to them."""
        yield Request(SEED)

    def parse_start_url(self, response: Response, **kwargs: Any) -> Any:
        self.keep(response)
        return ()

    def keep(self, response: Response) -> None:
        self.bodies.write(b"%s %d\n" % (response.url.encode(), len(response.body)))
        self.bodies.write(response.body)

    def closed(self, reason: str) -> None:
        self.bodies.close()


process = CrawlerProcess(
    {
        "JOBDIR": str(FOLDER / "job"),
        "USER_AGENT": "bench/1.0 (+http://bench.invalid/)",
        "ROBOTSTXT_OBEY": True,
        "CONCURRENT_REQUESTS": 32,
        "CONCURRENT_REQUESTS_PER_DOMAIN": 32,
        "DOWNLOAD_DELAY": 0,
        "COOKIES_ENABLED": False,
        "TELNETCONSOLE_ENABLED": False,
        "LOG_LEVEL": "WARNING",
    }
)
process.crawl(Usual)
process.start()
