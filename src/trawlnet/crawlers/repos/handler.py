"""One task in, one outcome out: a page of a listing, or a repository."""

from __future__ import annotations

import asyncio
from typing import TypeGuard
from urllib.parse import quote

from trawlnet.crawlers.metered import Getter
from trawlnet.crawlers.repos.answers import error_outcome
from trawlnet.crawlers.repos.check import trouble_with
from trawlnet.crawlers.repos.listing import PAGE_BYTES, HostRules, listing_url, read_page
from trawlnet.crawlers.repos.work import Listing, RepoVisit, read_task
from trawlnet.engine.outcome import Outcome, Reason
from trawlnet.engine.task import Task
from trawlnet.net.answer import Limits, Response, outcome_of
from trawlnet.net.trouble import Trouble

_CAR = {"Accept": "application/vnd.ipld.car"}
_LIST_SECONDS = 60.0


class ReposHandler:
    def __init__(self, http: Getter, rules: HostRules, repo_limits: Limits) -> None:
        self._http = http
        self._rules = rules
        self._repo_limits = repo_limits
        self._list_limits = Limits(
            total=min(_LIST_SECONDS, repo_limits.total),
            connect=repo_limits.connect,
            wire=PAGE_BYTES,
            inflated=PAGE_BYTES,
        )

    async def __call__(self, task: Task) -> Outcome:
        work = read_task(task)
        if isinstance(work, Listing):
            return await self._list(work, task.lane)
        return await self._fetch(work, task.lane)

    async def _list(self, listing: Listing, lane: str) -> Outcome:
        url = listing_url(listing)
        answer = await self._http.get(url, lane=lane, limits=self._list_limits)
        if not _succeeded(answer):
            return _without_body(answer)
        return read_page(listing, answer.body, self._rules)

    async def _fetch(self, visit: RepoVisit, lane: str) -> Outcome:
        url = f"{visit.pds}/xrpc/com.atproto.sync.getRepo?did={quote(visit.did, safe=':')}"
        answer = await self._http.get(url, lane=lane, headers=_CAR, limits=self._repo_limits)
        if not _succeeded(answer):
            return _without_body(answer)
        if trouble := await asyncio.to_thread(trouble_with, answer.body, visit.did):
            return Outcome(Reason.PARSE_ERROR, detail=trouble)
        return Outcome(Reason.OK, items=[answer.body])


def _succeeded(answer: Response | Trouble) -> TypeGuard[Response]:
    return isinstance(answer, Response) and answer.reason is Reason.OK


def _without_body(answer: Response | Trouble) -> Outcome:
    return outcome_of(answer) if isinstance(answer, Trouble) else error_outcome(answer)
