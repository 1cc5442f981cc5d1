"""Scrapy tuned as well as we can: a known link costs a set lookup, never a Request.

`SEED FOLDER [durable]`. Lexbor finds the links; the duplicate filter and middlewares without work
are off. It leaves what ours leaves. Without `durable` it keeps its queue as JOBDIR does by default
and the known links in JOBDIR when it ends in peace: nothing is synced, and a kill loses both. With
it, the queue is Scrapy's SQLite one, known links are appended to a file, and all is synced as
often as ours is; requests under way are still lost by a kill, since Scrapy dequeues before it asks.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urldefrag, urljoin

from outputs import Link, Outputs
from scrapy import Request, Spider
from scrapy.crawler import CrawlerProcess
from scrapy.http import Response
from selectolax.lexbor import LexborHTMLParser, LexborNode

SEED, FOLDER = sys.argv[1], Path(sys.argv[2])
DURABLE = "durable" in sys.argv[3:]
ORIGIN = SEED[: SEED.index("/", len("http://"))]
AROUND = 60  # Characters on each side of a link.
KEPT_HEADERS = ("Content-Type", "ETag", "Last-Modified")


class Tuned(Spider):
    name = "tuned"
    state: dict[str, Any]  # Scrapy keeps it in JOBDIR.
    start_urls = (SEED,)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.outputs = Outputs(FOLDER, synced=DURABLE)
        self.known = (FOLDER / "known").open("a") if DURABLE else None

    def parse(self, response: Response, **kwargs: Any) -> Iterator[Request]:
        seen = self.state.setdefault("seen", {SEED})
        url, meta = response.url, response.meta
        depth = meta.get("depth", 0)
        links = links_of(response.body, url)
        headers = {name.lower(): _text(response, name) for name in KEPT_HEADERS}
        latency = meta.get("download_latency", 0.0)
        referrer = meta.get("referrer", "")
        self.outputs.keep(url, response.body, headers, links, depth, referrer, latency)
        for to, _, _ in links:
            if to in seen or not to.startswith(ORIGIN):
                continue
            seen.add(to)
            if self.known:
                self.known.write(f"{to}\n")
            yield Request(to, dont_filter=True, meta={"depth": depth + 1, "referrer": url})
        if self.known:
            self.known.flush()

    def closed(self, reason: str) -> None:
        self.outputs.close()


def links_of(body: bytes, base: str) -> list[Link]:
    """Each URL once; a path from the root needs no parser."""
    found: dict[str, Link] = {}
    for node in LexborHTMLParser(body).css("a[href]"):
        href = (node.attributes["href"] or "").partition("#")[0]
        plain = href.startswith("/") and not href.startswith("//")
        to = ORIGIN + href if plain else urldefrag(urljoin(base, href)).url
        if to not in found:
            text = node.text()
            around = f"{_beside(node.prev)[-AROUND:]}{text}{_beside(node.next)[:AROUND]}"
            found[to] = (to, text, around)
    return list(found.values())


def _beside(node: LexborNode | None) -> str:
    return (node.text_content or "") if node is not None else ""


def _text(response: Response, name: str) -> str:
    return (response.headers.get(name) or b"").decode("latin-1")


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
        "SCHEDULER_DISK_QUEUE": f"scrapy.squeues.PickleLifo{'SQLite' if DURABLE else 'Disk'}Queue",
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
