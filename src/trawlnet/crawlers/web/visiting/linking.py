"""Turns the links of a page into tasks: cheaply for the many known URLs, exactly for new ones."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from trawlnet.crawlers.web.admission.caps import PageCaps, cap_named
from trawlnet.crawlers.web.admission.left_out import ROBOTS, TOO_DEEP, LeftOut
from trawlnet.crawlers.web.admission.policy import PER_DEPTH, Policy, UrlVerdict
from trawlnet.crawlers.web.work import PageVisit
from trawlnet.engine.task import Task
from trawlnet.net.lane import lane_of
from trawlnet.webpage.robots import RobotsRules
from trawlnet.webpage.url import UrlKeys

_LANES_KEPT = 50_000


@dataclass(frozen=True, slots=True)
class LinkRefusal:
    """Why a URL is not requested."""

    why: str
    count: str  # The name of the counter for such refusals.
    word: str  # The rule that refuses it, for the list of left-out links.


class Linker:
    """The only way into the frontier, for seeds, links, sitemaps and redirects."""

    def __init__(
        self,
        keys: UrlKeys,
        policy: Policy,
        caps: PageCaps,
        rules: Callable[[str], RobotsRules | None],
        left_out: LeftOut,
    ) -> None:
        self._keys = keys
        self._policy = policy
        self._caps = caps
        self._rules = rules  # The cached rules of an origin, if any.
        self._recent = Recent()
        self._lanes: dict[str, str] = {}
        self.left_out = left_out
        self.counts: Counter[str] = Counter()

    def tasks(self, urls: Sequence[str], depth: int, referrer: str) -> list[Task]:
        """Tasks for the URLs that are new. Keys are compared before any object is made, because
        most links of a site lead to known pages."""
        self.counts["links_extracted"] += len(urls)
        if self._policy.too_deep(depth):
            self.counts["too_deep"] += len(urls)
            self.left_out.add(TOO_DEEP, len(self._recent.news(self._keys.keys(urls), depth)))
            return []
        keys = self._keys.keys(urls)
        news = self._recent.news(keys, depth)
        self.counts["already_seen"] += len(urls) - len(news)
        found = []
        for number in news:
            task = self._task(PageVisit(urls[number], "", depth, referrer), keys[number])
            if isinstance(task, Task):
                found.append(task)
            else:
                self.counts[task.count] += 1
                self.left_out.add(task.word)
                self._recent.refuse(keys[number])
        return found

    def task(self, visit: PageVisit) -> Task | LinkRefusal:
        """The task of one visit, or why there is none."""
        return self._task(visit, self._keys.key(visit.url))

    def refusal(self, url: str) -> LinkRefusal | None:
        """Why a URL is not requested; None if it is."""
        verdict = self._policy.verdict(url)
        return self._refusal(url, verdict)

    def _task(self, visit: PageVisit, key: str) -> Task | LinkRefusal:
        url, depth = visit.url, visit.depth
        verdict = self._policy.verdict(url)
        if refusal := self._refusal(url, verdict):
            return refusal
        typed = PageVisit(url, verdict.page_type, depth, visit.referrer, visit.via)
        least = depth * PER_DEPTH
        # Clamped to its depth at any priority: the depth is read back from the score.
        score = min(max(self._policy.score(depth, verdict.page_type), least), least + 99)
        return typed.task(key, score, self._lane(halves(url)[0]))

    def _refusal(self, url: str, verdict: UrlVerdict) -> LinkRefusal | None:
        if not verdict.ok:
            why = f"{verdict.reason} ({verdict.detail})" if verdict.detail else verdict.reason
            return LinkRefusal(why, "policy_denied", verdict.reason)
        if why := self._caps.full(url, verdict.page_type):
            return LinkRefusal(why, "cap_exceeded", cap_named(why))
        origin, target = halves(url)
        rules = self._rules(origin)
        if rules is not None and not rules.allows(target):
            return LinkRefusal(ROBOTS, "robots_denied", ROBOTS)
        return None

    def host_allowed(self, url: str) -> bool:
        """Only the host counts for URLs that are no pages: patterns are written for pages."""
        return self._policy.host_allowed(url)

    def key(self, url: str) -> str:
        return self._keys.key(url)

    def fresh(self, key: str) -> bool:
        """Whether something that is no page, like a sitemap, was not seen recently."""
        return bool(self._recent.news([key], 0))

    def _lane(self, origin: str) -> str:
        lane = self._lanes.get(origin)
        if lane is None:
            if len(self._lanes) >= _LANES_KEPT:
                self._lanes.clear()
            lane = self._lanes[origin] = lane_of(origin)
        return lane


def halves(url: str) -> tuple[str, str]:
    """A request URL as `scheme://host:port`, and the path with the query."""
    slash = url.index("/", len("https://"))
    return url[:slash], url[slash:]


_GENERATION = 200_000  # Keys of each generation; a key takes about 130 bytes.
REFUSED = -1  # Less than any depth: a refused link is not checked again.


class Recent:
    """Keys by hash, each with the lowest depth at which it was seen. Two generations: a key that is
    seen again moves to the younger one, and the older one is dropped when the younger is full.

    Dropping a key is harmless, because the store has every key; so is keeping it, because a process
    that dies before a link is stored loses this memory, too. Two keys with the same 64-bit hash,
    which each process seeds anew, would hide a page: at 10^8 links the odds are about two in a
    million.
    """

    def __init__(self, most: int = _GENERATION) -> None:
        self._most = most
        self._young: dict[int, int] = {}
        self._old: dict[int, int] = {}

    def news(self, keys: Iterable[str], depth: int) -> list[int]:
        """The indexes of keys that were not seen, or only at a larger depth; marks all as seen."""
        found = []
        young, old = self._young, self._old
        for number, key in enumerate(keys):
            digest = hash(key)
            known = young.get(digest)
            if known is None:
                known = old.get(digest)
                if known is not None:
                    young[digest] = known
            if known is None or depth < known:
                young[digest] = depth
                found.append(number)
        if len(young) > self._most:
            self._young, self._old = {}, young
        return found

    def refuse(self, key: str) -> None:
        self._young[hash(key)] = REFUSED
