"""The kinds of tasks in a web crawl, and their formats.

A page's depth is not in its payload but in its score: the store keeps the lowest score when a key
is found again, and with it the shortest way to the page.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from trawlnet.crawlers.web.admission.policy import PER_DEPTH, REVISITS_AFTER
from trawlnet.engine.task import Task
from trawlnet.net.lane import lane_of

_SITEMAP = "sitemap:"
_SITEMAPS_FIRST = -1.0  # Score.


def depth_of(score: float) -> int:
    first = score - REVISITS_AFTER if score >= REVISITS_AFTER - PER_DEPTH else score
    return max(0, int(first // PER_DEPTH))


class PageVisit(NamedTuple):
    """One URL to fetch."""

    url: str
    page_type: str = ""
    depth: int = 0  # Links from a seed.
    referrer: str = ""  # The page that led here.
    via: tuple[str, ...] = ()  # The redirects that led here, oldest first.

    def task(self, key: str, score: float, lane: str = "") -> Task:
        url = "" if self.url == page_key(key) else self.url
        payload = [url, self.page_type, self.referrer, list(self.via)]
        lane = lane or lane_of(self.url)
        return Task(key, lane, payload, score=score)


@dataclass(frozen=True, slots=True)
class SitemapVisit:
    """One sitemap, or an index of them."""

    url: str
    level: int = 0  # Indexes that led here.
    is_source: bool = False  # The config names it: a crawl is not complete without it.

    def task(self) -> Task:
        payload = {"sitemap": self.url, "level": self.level, "source": self.is_source}
        return Task(_SITEMAP + self.url, lane_of(self.url), payload, score=_SITEMAPS_FIRST)


def changed_key(key: str, lastmod: float) -> str:
    """The key of one more visit to a known page, because it changed then. No page's own key has a
    fragment."""
    return f"{key}#{int(lastmod)}"


def page_key(key: str) -> str:
    return key.partition("#")[0]


def read_task(task: Task) -> PageVisit | SitemapVisit:
    """Read a task. We write the payloads, so a wrong one is a bug and raises."""
    payload: Any = task.payload
    if isinstance(payload, dict):
        # Tasks of older versions do not say whether they are a source.
        return SitemapVisit(payload["sitemap"], payload["level"], payload.get("source", False))
    url, page_type, referrer, via = payload
    return PageVisit(
        url or page_key(task.key), page_type, depth_of(task.score), referrer, tuple(via)
    )


def url_of_key(key: str) -> str:
    """The URL of a key, for display."""
    return page_key(key.removeprefix(_SITEMAP))


def may_be_conditional(task: Task, seen_at: float) -> bool:
    """Whether a request may be conditional on the content seen at that instant.

    Only if it is certain: a visit whose receipt was lost in a crash needs the body again, for its
    links. So the content must be from before this visit was due; and a retried revisit, which looks
    like a retried first visit, is unconditional.
    """
    _, mark, changed = task.key.rpartition("#")
    if mark:
        return seen_at < float(changed)
    return seen_at < task.due and task.attempt == 0 and task.waits == 0
