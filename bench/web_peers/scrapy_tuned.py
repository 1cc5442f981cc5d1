"""Scrapy tuned as well as we can: known links cost a set lookup, never a Request. `SEED FOLDER`.

Lexbor finds the links; the set of known ones comes before any object, and Scrapy keeps it in JOBDIR
when it ends in peace (a kill loses it); the duplicate filter and middlewares without work are off.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

from scrapy import Request, Spider
from scrapy.crawler import CrawlerProcess
from scrapy.http import Response
from selectolax.lexbor import LexborHTMLParser

SEED, FOLDER = sys.argv[1], Path(sys.argv[2])
ORIGIN = SEED[: SEED.index("/", len("http://"))]


class Tuned(Spider):
    name = "tuned"
    start_urls = (SEED,)
    state: dict[str, Any]  # Scrapy keeps it in JOBDIR.

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.bodies = (FOLDER / "bodies").open("ab")

    def parse(self, response: Response, **kwargs: Any) -> Iterator[Request]:
        body = response.body
        self.bodies.write(b"%s %d\n" % (response.url.encode(), len(body)))
        self.bodies.write(body)
        seen = self.state.setdefault("seen", {SEED.removeprefix(ORIGIN)})
        for link in LexborHTMLParser(body).css("a[href]"):
            path = (link.attributes["href"] or "").partition("#")[0]
            if path in seen:
                continue
            seen.add(path)
            url = urljoin(response.url, path)
            if url.startswith(ORIGIN):
                yield Request(url, dont_filter=True)

    def closed(self, reason: str) -> None:
        self.bodies.close()


OFF = {
    "DOWNLOADER_MIDDLEWARES": (
        "downloadermiddlewares.httpauth.HttpAuthMiddleware",
        "downloadermiddlewares.cookies.CookiesMiddleware",
        "downloadermiddlewares.httpproxy.HttpProxyMiddleware",
        "downloadermiddlewares.stats.DownloaderStats",
        "downloadermiddlewares.redirect.MetaRefreshMiddleware",
        "downloadermiddlewares.offsite.OffsiteMiddleware",
    ),
    "SPIDER_MIDDLEWARES": (
        "spidermiddlewares.referer.RefererMiddleware",
        "spidermiddlewares.urllength.UrlLengthMiddleware",
        "spidermiddlewares.depth.DepthMiddleware",
    ),
    "EXTENSIONS": (
        "extensions.logstats.LogStats",
        "extensions.memusage.MemoryUsage",
        "extensions.corestats.CoreStats",
        "extensions.feedexport.FeedExporter",
        "extensions.throttle.AutoThrottle",
    ),
}

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
        "STATS_CLASS": "scrapy.statscollectors.DummyStatsCollector",
        **{setting: {f"scrapy.{one}": None for one in names} for setting, names in OFF.items()},
    }
)
process.crawl(Tuned)
process.start()
