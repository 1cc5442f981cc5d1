"""Sitemaps: named by robots.txt or by the config, read within bounds, turned into tasks."""

from __future__ import annotations

import itertools
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from trawlnet.crawlers.metered import Getter
from trawlnet.crawlers.web.admission.left_out import CUT_SITEMAPS
from trawlnet.crawlers.web.admission.policy import PER_DEPTH
from trawlnet.crawlers.web.revisit import LastLook, RevisitRule, due_by_sitemap
from trawlnet.crawlers.web.visiting.known import KnownPages
from trawlnet.crawlers.web.visiting.linking import Linker
from trawlnet.crawlers.web.work import PageVisit, SitemapVisit, changed_key
from trawlnet.engine.outcome import Outcome, Reason
from trawlnet.engine.task import Task
from trawlnet.malformed import Malformed
from trawlnet.net.client.answer import RequestLimits, Response, outcome_of
from trawlnet.net.redirect import is_redirect
from trawlnet.net.trouble import Trouble, clean
from trawlnet.webpage.sitemap import MOST_ENTRIES, SitemapEntry, looks_like_sitemap, read_sitemap
from trawlnet.webpage.url import request_url

MOST_BYTES = 50 * 1024 * 1024  # Inflated, as the protocol says.
_MOST_LEVELS = 3  # Of indexes in indexes.
_DEPTH = 1  # A page in a sitemap is one step from its site, so that depth 0 means seeds only.
_GZIP = b"\x1f\x8b"


@dataclass(frozen=True, slots=True)
class SitemapReader:
    http: Getter
    linker: Linker
    pages: KnownPages
    revisit: RevisitRule | None
    limits: RequestLimits  # Of any request; sitemaps may be larger than pages.
    most_files: int = 100  # Named by one robots.txt, or by one index.
    most_urls: int = MOST_ENTRIES  # Of one file.

    def announced(self, urls: Iterable[str], origin: str) -> list[Task]:
        """Sitemaps that a robots.txt names and that were not seen recently."""
        found = []
        for written in itertools.islice(urls, self.most_files):
            task = self._sitemap(written, f"{origin}/robots.txt", level=0)
            if task is not None and self.linker.fresh(task.key):
                found.append(task)
        return found

    async def __call__(self, visit: SitemapVisit) -> Outcome:
        outcome = await self._read(visit)
        return outcome.as_given_up("this sitemap was not read") if visit.is_source else outcome

    async def _read(self, visit: SitemapVisit) -> Outcome:
        limits = replace(self.limits, wire=MOST_BYTES, inflated=MOST_BYTES)
        answer = await self.http.get(visit.url, limits=limits)
        if isinstance(answer, Trouble):
            return outcome_of(answer)
        if is_redirect(answer.status, answer.headers):
            return self._moved(answer, visit)
        if answer.status != 200:
            return outcome_of(answer)
        body = _plain(answer.body)
        if body is None:
            return Outcome(Reason.TOO_LARGE, detail=f"more than {MOST_BYTES} bytes inflated")
        sitemap = read_sitemap(body, self.most_urls + 1)
        if visit.is_source and not (sitemap.entries or looks_like_sitemap(body)):
            return Outcome(Reason.PARSE_ERROR, detail="not a sitemap")
        if len(sitemap.entries) > self.most_urls:
            self.linker.left_out.add(CUT_SITEMAPS)
            sitemap = replace(sitemap, entries=sitemap.entries[: self.most_urls])
        if sitemap.is_index:
            found = self._further(sitemap.entries, visit)
        else:
            found = self._pages(sitemap.entries, visit)
        again_in = self.revisit.first if self.revisit else None
        return Outcome(Reason.OK, found=found, again_in=again_in)

    def _moved(self, answer: Response, visit: SitemapVisit) -> Outcome:
        """Treated like an index with one entry, so that the limit on levels ends loops."""
        target = location_of(answer)
        found = self._further([SitemapEntry(target)], visit)
        if visit.level >= _MOST_LEVELS:
            return Outcome(Reason.LOOP, detail="a sitemap that redirects too often")
        if visit.is_source and found:
            found = [SitemapVisit(found[0].payload["sitemap"], visit.level + 1, True).task()]
        if not found:
            return Outcome(Reason.REFUSED, detail=clean(f"a sitemap redirected to {target}"))
        return Outcome(Reason.OK, found=found)

    def _further(self, entries: Sequence[SitemapEntry], visit: SitemapVisit) -> list[Task]:
        if visit.level >= _MOST_LEVELS:
            return []
        some = entries[: self.most_files]
        tasks = (self._sitemap(entry.url, visit.url, visit.level + 1) for entry in some)
        return [task for task in tasks if task is not None]

    def _sitemap(self, written: str, base: str, level: int) -> Task | None:
        try:
            url = request_url(written, base)
        except Malformed:
            return None
        return SitemapVisit(url, level).task() if self.linker.host_allowed(url) else None

    def _pages(self, entries: Sequence[SitemapEntry], visit: SitemapVisit) -> list[Task]:
        urls: list[str] = []
        changed: list[Task] = []
        for entry in entries:
            try:
                url = request_url(entry.url, visit.url)
            except Malformed:
                continue
            urls.append(url)
            if self.revisit is not None and entry.lastmod is not None:
                changed += self._changed(url, entry.lastmod)
        return [*self.linker.tasks(urls, _DEPTH, visit.url), *changed]

    def _changed(self, url: str, lastmod: float) -> list[Task]:
        """One more visit to a known page that has changed since it was fetched."""
        page = self.pages.get(url)
        if page is None:
            return []
        if not due_by_sitemap(LastLook(page.timestamp, page.revisit_in, page.sha256), lastmod):
            return []
        visit = PageVisit(url, page.page_type, page.depth, "")
        return [visit.task(changed_key(self.linker.key(url), lastmod), page.depth * PER_DEPTH)]


def location_of(answer: Response) -> str:
    """The target of a redirect, as written; servers send raw bytes there."""
    raw = answer.headers["Location"].encode("utf-8", "surrogateescape")
    return raw.decode("utf-8", "replace").strip()


def _plain(body: bytes) -> bytes | None:
    """The body, inflated if it is a gzip file; None if it is too large."""
    if not body.startswith(_GZIP):
        return body
    inflater = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)
    try:
        plain = inflater.decompress(body, MOST_BYTES)
    except zlib.error:
        return b""
    return None if inflater.unconsumed_tail else plain
