"""One visit: policy, robots.txt, caps, a request, and what its answer leads to."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from trawlnet.captures.capture import Headers, Hop
from trawlnet.captures.page import KnownPage
from trawlnet.crawlers.metered import Getter
from trawlnet.crawlers.web.admission.budget import Budget
from trawlnet.crawlers.web.admission.caps import PageCaps, cap_named
from trawlnet.crawlers.web.admission.left_out import CUT_PAGES, PRIVATE, ROBOTS
from trawlnet.crawlers.web.admission.robots import RobotsCache, Ruling
from trawlnet.crawlers.web.visiting.health import UNKNOWN, HealthCheck, HostHealth
from trawlnet.crawlers.web.visiting.known import KnownPages, assume_held
from trawlnet.crawlers.web.visiting.linking import Linker, LinkRefusal, halves
from trawlnet.crawlers.web.visiting.reading import (
    FetchedPage,
    ReadingRules,
    is_html,
    not_modified,
    read,
    redirected,
)
from trawlnet.crawlers.web.visiting.sitemaps import SitemapReader, location_of
from trawlnet.crawlers.web.work import (
    PageVisit,
    SitemapVisit,
    may_be_conditional,
    read_task,
)
from trawlnet.engine.gate import LaneParked
from trawlnet.engine.outcome import Again, Blame, Outcome, Reason
from trawlnet.engine.ports import Clock
from trawlnet.engine.rules import RetryPolicy
from trawlnet.engine.task import Task
from trawlnet.malformed import Malformed
from trawlnet.net.client.answer import RequestLimits, Response, Stream, outcome_of
from trawlnet.net.redirect import is_redirect
from trawlnet.net.trouble import Trouble, clean
from trawlnet.webpage.robots import ALLOW_ALL
from trawlnet.webpage.robots_answer import RobotsEntry
from trawlnet.webpage.url import request_url

_ACCEPT = "text/html,application/xhtml+xml;q=0.9,*/*;q=0.5"
_BUDGET_PAUSE = 1.0  # Seconds; the crawl is about to end, or another page will fail.
_BUSY = "HTTP 503"
_NOT_REACHED = (Reason.DNS_ERROR, Reason.CONNECTION_ERROR)
_MUCH_TYPED = 255  # Characters of a content type.
_UNRULED = Ruling(RobotsEntry(ALLOW_ALL, math.inf))


@dataclass(frozen=True, slots=True)
class WebHandler:
    http: Getter
    clock: Clock
    robots: RobotsCache
    linker: Linker
    caps: PageCaps
    budget: Budget
    pages: KnownPages
    sitemaps: SitemapReader
    rules: ReadingRules
    limits: RequestLimits
    retry: RetryPolicy
    agent: str
    health: HostHealth
    follow: bool = True  # False for a scrape, which follows no links.
    sitemaps_wanted: bool = True
    obey: bool = True  # robots.txt
    most_redirects: int = 5  # Redirects that lead to one page, as new URLs or within a visit.
    conditional: Callable[[Task, float], bool] = may_be_conditional
    proxy_of: Callable[[str], str] = lambda url: ""
    holds_body: Callable[[KnownPage], Awaitable[bool]] = assume_held
    headers: Mapping[str, str] = field(default_factory=dict)  # As configured.

    async def __call__(self, task: Task) -> Outcome:
        visit = read_task(task)
        origin, target = halves(visit.url)
        ruling = await self._ruling(origin)
        if ruling.trouble is not None:
            self.linker.left_out.add(PRIVATE, int(ruling.is_private))
            return self._sparing(ruling.trouble, task, is_hosts=True)
        if not ruling.rules.allows(target):
            self.linker.counts["robots_denied"] += 1
            self.linker.left_out.add(ROBOTS)
            return Outcome(Reason.REFUSED, detail=ROBOTS)
        look = await self._look(task, ruling)
        if look.rest is not None:
            return look.rest
        if isinstance(visit, SitemapVisit):
            return await self._blamed(await self.sitemaps(visit), look, task, ruling)
        outcome = await self._blamed(await self._page(visit, task), look, task, ruling)
        if brings_page(outcome):
            self.health.answered(task.lane, visit.url)
        if self.sitemaps_wanted and ruling.rules.sitemaps:
            news = self.sitemaps.announced(ruling.rules.sitemaps, origin)
            outcome = replace(outcome, found=[*outcome.found, *news])
        return outcome

    async def _blamed(
        self, outcome: Outcome, look: HealthCheck, task: Task, ruling: Ruling
    ) -> Outcome:
        outcome = await self._charged(outcome, look, task, ruling)
        is_hosts = outcome.reason in _NOT_REACHED and not ruling.asked_at
        return self._sparing(outcome, task, is_hosts=is_hosts)

    def _sparing(self, outcome: Outcome, task: Task, *, is_hosts: bool) -> Outcome:
        """A failure of a whole host uses up no try of the page that met it: its pages wait until
        the host answers or is blocked. `is_hosts`: it is one if nothing has answered before."""
        is_elsewhere = outcome.lane not in ("", task.lane)
        if outcome.reason.again is not Again.COUNTED or outcome.reason.blame is not Blame.LANE:
            return outcome
        if outcome.lane_is_well or is_elsewhere:
            return outcome
        if self.health.is_suspended(task.lane):
            return replace(outcome, again=Again.QUEUED)
        if is_hosts and not self.health.has_answered(task.lane):
            is_down = outcome.lane_is_down or outcome.reason in _NOT_REACHED
            return replace(outcome, again=Again.QUEUED, lane_is_down=is_down)
        return outcome

    async def _charged(
        self, outcome: Outcome, look: HealthCheck, task: Task, ruling: Ruling
    ) -> Outcome:
        """Whether a failure counts against the host. Other pages may have failed during this visit;
        a host that asked to wait is not checked."""
        if outcome.reason.blame is not Blame.LANE:
            return outcome
        if not look.is_well and not outcome.wait and outcome.reason is not Reason.RATE_LIMITED:
            try:
                look = await self._look(task, ruling)
            except LaneParked:
                return outcome
            if look.rest is not None:
                return replace(outcome, wait=look.rest.wait)
        if outcome.detail == _BUSY and not outcome.wait and not look.is_well:
            # The whole host waits as long as this page would.
            return replace(outcome, wait=self.retry.delay(task.key, task.attempt))
        return replace(outcome, lane_is_well=look.is_well)

    async def _look(self, task: Task, ruling: Ruling) -> HealthCheck:
        """Fetch another page, to tell a failing page from a failing host."""
        if not self.health.in_doubt(task.lane):
            return UNKNOWN
        front = f"{halves(read_task(task).url)[0]}/"
        may_ask = ruling.rules.allows("/") and self.linker.refusal(front) is None
        return await self.health.look(task.lane, front if may_ask else "")

    async def _ruling(self, origin: str) -> Ruling:
        return await self.robots.ruling(origin) if self.obey else _UNRULED

    async def _page(self, visit: PageVisit, task: Task) -> Outcome:
        """Check the URL again: the config may have changed since the link was found."""
        refusal = self.linker.refusal(visit.url)
        before = self.pages.get(visit.url)
        known = before is not None and before.fetched
        if refusal and not (known and refusal.count == "cap_exceeded"):
            self.linker.left_out.add(refusal.word)
            return Outcome(Reason.REFUSED, detail=refusal.why)
        if not known and (why := await self.caps.take(task, visit.url, visit.page_type)):
            self.linker.left_out.add(cap_named(why))
            return Outcome(Reason.REFUSED, detail=why)
        fetched = False
        try:
            if not await self.budget.take():
                raise LaneParked(task.lane, self.clock.now() + _BUDGET_PAUSE)
            try:
                outcome = await self._fetched(visit, task, before)
                fetched = brings_page(outcome)
                return outcome
            finally:
                self.budget.leave(fetched=fetched)
        finally:
            if not known:
                self.caps.leave(visit.url, visit.page_type, fetched=fetched)

    async def _fetched(self, visit: PageVisit, task: Task, before: KnownPage | None) -> Outcome:
        validators = {}
        if before is not None and self.conditional(task, before.timestamp):
            # "Not modified" is useless if the stored body is lost or damaged.
            validators = before.validators if await self.holds_body(before) else {}
        url, hops = visit.url, tuple[Hop, ...]()
        while True:
            sent = {"Accept": _ACCEPT, **self.headers, **validators}
            answer = await self._get(url, sent)
            if isinstance(answer, Trouble):
                self.linker.left_out.add(PRIVATE, int(answer.is_private))
                return outcome_of(answer)
            got = FetchedPage(
                visit,
                url,
                self.clock.now(),
                answer,
                task.attempt,
                before,
                hops,
                self._sent(sent) if self.rules.headers else (),
                self.proxy_of(url),
            )
            if not is_redirect(answer.status, answer.headers):
                return await self._answered(got)
            target = _target(answer, url)
            if target is None:
                return Outcome(Reason.HTTP_ERROR, detail=f"HTTP {answer.status} to no URL")
            # To another spelling of its own key: as a new task it would be known already.
            if self.linker.key(target) != self.linker.key(visit.url):
                return self._moved(got, target)
            hops = (*hops, Hop(url, answer.status, list(answer.headers.items())))
            if target in {hop.url for hop in hops} or len(hops) > self.most_redirects:
                return Outcome(Reason.LOOP, detail=clean(f"redirected back to {target}"))
            origin, path = halves(target)
            if not (await self._ruling(origin)).rules.allows(path):
                return Outcome(Reason.REFUSED, detail="redirected to a URL that robots.txt denies")
            url = target

    async def _get(self, url: str, headers: Mapping[str, str]) -> Response | Trouble:
        async with self.http.stream(url, headers=headers, limits=self.limits) as answer:
            if isinstance(answer, Trouble):
                return answer
            return await answer.whole() if self._wants_body(answer) else _head_only(answer)

    def _wants_body(self, answer: Stream) -> bool:
        content_type = answer.headers.get("Content-Type", "")[:_MUCH_TYPED]
        return answer.status != 200 or self.rules.store_all_types or is_html(content_type)

    async def _answered(self, got: FetchedPage) -> Outcome:
        match got.response.status:
            case 200 | 203 | 204 | 205:
                reading = await read(got, self.rules, self.pages.near)
                depth, referrer = got.visit.depth + 1, got.visit.url
                found = self.linker.tasks(reading.urls, depth, referrer) if self.follow else ()
                self.linker.left_out.add(CUT_PAGES, int(reading.cut and self.follow))
                return Outcome(
                    Reason.OK, items=[reading.capture], found=found, again_in=reading.again_in
                )
            case 304:
                reading = not_modified(got, self.rules)
                return Outcome(
                    Reason.NOT_MODIFIED, items=[reading.capture], again_in=reading.again_in
                )
            case status if 200 <= status < 300:
                return Outcome(Reason.HTTP_ERROR, detail=f"HTTP {status}")
            case _:
                return outcome_of(got.response)

    def _moved(self, got: FetchedPage, target: str) -> Outcome:
        """The target is a new URL, which policy, robots, caps and dedup check on their own."""
        via = (*got.visit.via, got.visit.url)
        if target in via:
            return Outcome(Reason.LOOP, detail=clean(f"redirected back to {target}"))
        if len(via) > self.most_redirects:
            return Outcome(Reason.LOOP, detail=f"redirected more than {self.most_redirects} times")
        further = PageVisit(target, depth=got.visit.depth, referrer=got.visit.url, via=via)
        task = self.linker.task(further)
        items = [redirected(got, self.rules, target)]
        if isinstance(task, LinkRefusal):
            detail = clean(f"redirected to {target}: {task.why}")
            return Outcome(Reason.REFUSED, items=items, detail=detail)
        return Outcome(Reason.OK, items=items, found=[task])

    def _sent(self, headers: Mapping[str, str]) -> Headers:
        return [("User-Agent", self.agent), *headers.items()]


def is_page(status: int) -> bool:
    """A success that counts as a page; a redirect does not."""
    return 200 <= status < 300 or status == 304


def brings_page(outcome: Outcome[Any]) -> bool:
    return outcome.reason.success and any(is_page(one.http_status) for one in outcome.items)


def _target(answer: Response, url: str) -> str | None:
    try:
        return request_url(location_of(answer), base=url)
    except Malformed:
        return None


def _head_only(answer: Stream) -> Response:
    """The response without its body, which is not stored; the connection is closed."""
    return Response(
        answer.status, answer.headers, b"", answer.url, answer.hops, answer.elapsed, 0, answer.wait
    )
