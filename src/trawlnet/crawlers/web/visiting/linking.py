"""From the links of a page to tasks: cheap for the many known ones, exact for the few new."""

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
    """Why a URL is not asked for."""

    why: str
    count: str  # Under which name such refusals are counted.
    word: str  # The rule that says no, for a list of what was left out.


class Linker:
    """The one door into the frontier: seeds, links, sitemaps and redirects all come through it."""

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
        self._rules = rules  # Of an origin, if they are known already.
        self._recent = Recent()
        self._lanes: dict[str, str] = {}
        self.left_out = left_out
        self.counts: Counter[str] = Counter()

    def tasks(self, urls: Sequence[str], depth: int, referrer: str) -> list[Task]:
        """Tasks for the request URLs that are news. A key and its membership come before any
        object: most links of a site lead where others have led before."""
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
        """Why a URL is not asked for; None if it is."""
        verdict = self._policy.verdict(url)
        return self._refusal(url, verdict)

    def _task(self, visit: PageVisit, key: str) -> Task | LinkRefusal:
        url, depth = visit.url, visit.depth
        verdict = self._policy.verdict(url)
        if refusal := self._refusal(url, verdict):
            return refusal
        typed = PageVisit(url, verdict.page_type, depth, visit.referrer, visit.via)
        least = depth * PER_DEPTH
        # Within its depth, whatever the priority: the depth is read back from the score.
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
        """Only the host counts for what is no page: patterns are written for pages."""
        return self._policy.host_allowed(url)

    def key(self, url: str) -> str:
        return self._keys.key(url)

    def fresh(self, key: str) -> bool:
        """Whether something that is no page, like a sitemap, was not met lately."""
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


_KEPT = 200_000  # Of each generation; a key takes about 130 bytes.
REFUSED = -1  # Closer than any depth: a refused link is not looked at again.


class Recent:
    """Keys by hash, each with the lowest depth it was met with. Two generations: a key that is
    met again moves to the younger one, and the older one is dropped when the younger is full.

    Forgetting is harmless, because the store knows every key; remembering is, too, because a
    process that dies before a link is stored forgets it with everything else. Two keys with one
    hash of 64 bits, seeded anew in each process, would hide a page: at 10^8 links the odds of
    that are about two in a million.
    """

    def __init__(self, kept: int = _KEPT) -> None:
        self._kept = kept
        self._young: dict[int, int] = {}
        self._old: dict[int, int] = {}

    def news(self, keys: Iterable[str], depth: int) -> list[int]:
        """Which of these are worth a task: not met, or only further away. All are met now."""
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
        if len(young) > self._kept:
            self._young, self._old = {}, young
        return found

    def refuse(self, key: str) -> None:
        self._young[hash(key)] = REFUSED
