"""Scrapy as people usually write it: CrawlSpider, LinkExtractor, JOBDIR, a feed. `SEED FOLDER`.

Items name the page, its body's sha256 and its links; bodies are files by sha256.
"""

from __future__ import annotations

import hashlib
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

    async def start(self) -> AsyncIterator[Request]:
        """Not by start_urls: those are asked for again when a page leads to them."""
        yield Request(SEED)

    def parse_start_url(self, response: Response, **kwargs: Any) -> Any:
        return [self.keep(response)]

    def keep(self, response: Response) -> dict[str, Any]:
        sha256 = hashlib.sha256(response.body).hexdigest()
        file = FOLDER / "store" / sha256[:2] / sha256[2:4] / f"{sha256}.html"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(response.body)
        return {
            "url": response.url,
            "status": response.status,
            "depth": response.meta["depth"],
            "content_type": response.headers.get("Content-Type", b"").decode(),
            "etag": response.headers.get("ETag", b"").decode(),
            "sha256": sha256,
            "bytes": len(response.body),
            "links": [
                (response.urljoin(one.attrib["href"]), one.css("::text").get(""))
                for one in response.css("a[href]")
            ],
        }


process = CrawlerProcess(
    {
        "JOBDIR": str(FOLDER / "job"),
        "FEEDS": {str(FOLDER / "pages.jsonl"): {"format": "jsonlines"}},
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
