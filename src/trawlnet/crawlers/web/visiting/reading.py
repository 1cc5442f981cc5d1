"""Reads a fetched page: a capture for the sink, and the URLs that it links to."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from trawlnet.captures.capture import Capture, Edge, Headers, Hop
from trawlnet.captures.page import KnownPage
from trawlnet.crawlers.web.revisit import LastLook, RevisitRule, next_interval
from trawlnet.crawlers.web.work import PageVisit
from trawlnet.net.client.answer import Response
from trawlnet.webpage.html import LinkChoice, PageLink, read_page
from trawlnet.webpage.robots_tag import RobotsWords, robots_words
from trawlnet.webpage.simhash import simhash

_LARGE = 256 << 10  # Bytes; larger pages are parsed in a thread.
_HTML = ("text/html", "application/xhtml+xml")
_LEAST_WORDS = 20  # Shorter texts are not compared.


@dataclass(frozen=True, slots=True)
class ReadingRules:
    """The configured rules for reading pages."""

    agent: str  # Product token.
    choice: LinkChoice = field(default_factory=LinkChoice)
    store_all_types: bool = False
    obey_noindex: bool = True
    obey_nofollow: bool = True  # In a meta tag or a header, for the whole page.
    obey_rel_nofollow: bool = True
    edges: bool = True
    near_bits: int | None = None  # Most bits in which duplicates differ; None: do not compare.
    skip_near: bool = False  # Do not follow the links of duplicates.
    headers: bool = False  # Store request and response headers, for the WARC.
    revisit: RevisitRule | None = None


@dataclass(frozen=True, slots=True)
class FetchedPage:
    """An answer, with its request."""

    visit: PageVisit
    url: str  # The URL that answered: the visit's, or the target of a redirect.
    at: float
    response: Response
    retries: int
    before: KnownPage | None = None  # The index's entry of an earlier visit.
    hops: tuple[Hop, ...] = ()
    sent: Headers = ()
    proxy: str = ""

    @property
    def content_type(self) -> str:
        return self.response.headers.get("Content-Type", "")

    def sha256(self) -> str:
        return hashlib.sha256(self.response.body).hexdigest()


@dataclass(frozen=True, slots=True)
class PageReading:
    capture: Capture
    urls: Sequence[str] = ()
    again_in: float | None = None
    cut: bool = False  # The page has links beyond those that are read.


def is_html(content_type: str) -> bool:
    """A missing type counts as HTML, as in browsers."""
    return not content_type.strip() or content_type.partition(";")[0].strip().lower() in _HTML


async def read(
    got: FetchedPage, rules: ReadingRules, is_near: Callable[[int, int, str], bool]
) -> PageReading:
    """The reading of a 200."""
    if not is_html(got.content_type):
        return _other_type(got, rules)
    work = _ReadingWork(got, rules)
    if len(got.response.body) > _LARGE:
        page = await asyncio.to_thread(work.page)
    else:
        page = work.page()
    said = page.robots | _header_words(got, rules)
    fingerprint = _fingerprint(page.text, rules)
    near = fingerprint is not None and is_near(fingerprint, rules.near_bits or 0, got.visit.url)
    followed = [] if near and rules.skip_near else _followed(page.links, said, rules)
    again_in = _again_in(got, rules, got.sha256)
    may_store = not (said.noindex and rules.obey_noindex)
    metadata: dict[str, Any] = {"links": len(page.links)}
    metadata |= {"links_cut": True} if page.cut else {}
    metadata |= {"noindex": True} if said.noindex else {}
    metadata |= {"nofollow": True} if said.nofollow else {}
    metadata |= {"near_duplicate": True} if near else {}
    capture = _capture(
        got,
        rules,
        body=got.response.body if may_store else None,
        encoding=page.codec,
        simhash=fingerprint,
        metadata=metadata,
        links=_edges(page.links) if rules.edges else (),
        revisit_in=again_in,
        final_url=got.url if got.hops else "",
        discover=True,
    )
    return PageReading(capture, followed, again_in, page.cut)


def not_modified(got: FetchedPage, rules: ReadingRules) -> PageReading:
    before = got.before.sha256 if got.before else ""
    again_in = _again_in(got, rules, lambda: before)
    return PageReading(_capture(got, rules, revisit_in=again_in, discover=False), (), again_in)


def redirected(got: FetchedPage, rules: ReadingRules, target: str) -> Capture:
    return _capture(got, rules, metadata={"redirect": target}, discover=False)


def _other_type(got: FetchedPage, rules: ReadingRules) -> PageReading:
    again_in = _again_in(got, rules, got.sha256)
    body = got.response.body if rules.store_all_types else None
    metadata = {"not_html": True}
    capture = _capture(
        got, rules, body=body, metadata=metadata, revisit_in=again_in, discover=False
    )
    return PageReading(capture, (), again_in)


@dataclass(frozen=True, slots=True)
class _ReadingWork:
    got: FetchedPage
    rules: ReadingRules

    def page(self) -> Any:
        response = self.got.response
        return read_page(
            response.body,
            self.got.url,
            self.rules.choice,
            content_type=self.got.content_type,
            link_headers=response.headers.getall("PageLink", ()),
            with_text=self.rules.near_bits is not None,
        )


def _header_words(got: FetchedPage, rules: ReadingRules) -> RobotsWords:
    return robots_words(got.response.headers.getall("X-Robots-Tag", ()), rules.agent)


def _followed(links: Sequence[PageLink], said: RobotsWords, rules: ReadingRules) -> list[str]:
    if said.nofollow and rules.obey_nofollow:
        return []
    obey = rules.obey_rel_nofollow
    return [url for url, _, nofollow, _, _ in links if not (nofollow and obey)]


def _edges(links: Sequence[PageLink]) -> list[Edge]:
    return [(url, text, context) for url, _, _, text, context in links]


def _fingerprint(text: str, rules: ReadingRules) -> int | None:
    if rules.near_bits is None or len(text.split(maxsplit=_LEAST_WORDS)) <= _LEAST_WORDS:
        return None
    return simhash(text)


def _again_in(got: FetchedPage, rules: ReadingRules, sha256: Callable[[], str]) -> float | None:
    if rules.revisit is None:
        return None
    page = got.before
    before = LastLook(page.timestamp, page.revisit_in, page.sha256) if page else None
    return next_interval(rules.revisit, before, sha256())


def _capture(got: FetchedPage, rules: ReadingRules, **more: Any) -> Capture:
    response, visit = got.response, got.visit
    if rules.headers:
        more |= {"request_headers": got.sent, "response_headers": list(response.headers.items())}
    return Capture(
        timestamp=got.at,
        url=visit.url,
        http_status=response.status,
        page_type=visit.page_type,
        depth=visit.depth,
        referrer=visit.referrer or None,
        content_type=got.content_type,
        etag=response.headers.get("ETag", ""),
        last_modified=response.headers.get("Last-Modified", ""),
        fetch_latency_ms=response.elapsed * 1000.0,
        retries=got.retries,
        proxy_id=got.proxy,
        hops=got.hops,
        **more,
    )
