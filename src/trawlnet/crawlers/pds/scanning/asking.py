"""Requests of one scan: counted, bounded by its deadline, and told what may pass."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, replace

from trawlnet.crawlers.atproto.answers import error_outcome
from trawlnet.crawlers.pds.scanning.ending import (
    OUT_OF_TIME,
    Halt,
    SliceEnd,
    TryAgain,
    failed,
    put_off,
)
from trawlnet.crawlers.pds.scanning.parts import ScanParts
from trawlnet.engine.gate import LaneParked
from trawlnet.engine.outcome import Blame, Outcome, Reason
from trawlnet.net.client.answer import RequestLimits, Response, outcome_of
from trawlnet.net.trouble import Trouble

_RELAY_SOFTWARE = "atproto-relay"
_UNTOLD_WAIT = 300.0  # Seconds, after a "slow down" that names no time: a server's usual window.
# One that hangs must not take all the time of a scan, or no scan would ever come past it.
_REQUESTS_AT_LEAST = 3


@dataclass(slots=True)
class ScanClient:
    parts: ScanParts
    lane: str  # Of the PDS.
    deadline: float
    budget: float  # Seconds from the beginning of the scan to its deadline.
    requests: int = 0
    is_answered: bool = False  # At least once.
    is_last_try: bool = False  # Of the step under way.
    before: Outcome | None = None  # What came of the try before, of the same step.

    @property
    def patience(self) -> float:
        """Seconds for one answer."""
        return min(self.parts.limits.request_seconds, self.budget / _REQUESTS_AT_LEAST)

    async def ask(self, url: str, body_bytes: int | None = None) -> bytes | Outcome | Halt:
        """The body, or what came instead."""
        limits = self.parts.limits
        answer = await self._get(url, min(body_bytes or limits.page_bytes, limits.page_bytes))
        if isinstance(answer, SliceEnd):
            return answer
        if isinstance(answer, Response) and answer.status < 300:
            self.is_answered = True
            return answer.body
        outcome = _outcome(answer)
        if outcome.reason is Reason.RATE_LIMITED:
            return TryAgain(replace(outcome, wait=outcome.wait or _UNTOLD_WAIT))
        is_final = self.is_last_try or outcome.wait or not _may_pass(answer, outcome.reason)
        return outcome if is_final else TryAgain(outcome)

    async def _get(self, url: str, body_bytes: int) -> Response | Trouble | SliceEnd:
        left = self.deadline - self.parts.clock.now()
        if left <= 0.0:
            return self.out_of_time()
        patience = self.patience
        limits = RequestLimits(
            total=min(patience, left),
            connect=min(patience, left),
            wire=body_bytes,
            inflated=body_bytes,
            # A PDS answers for itself; whoever redirects may mean somebody's private network.
            redirects=0,
        )
        try:
            async with asyncio.timeout(left):
                answer = await self.parts.http.get(url, lane=self.lane, limits=limits)
        except TimeoutError:
            # Mostly while it waited for its turn, which is nobody's fault.
            return self.out_of_time()
        except LaneParked as parked:
            wait = max(parked.until - self.parts.clock.now(), 1.0)
            return put_off(Reason.PARKED, "it asked for a pause earlier, which is not over", wait)
        self.requests += 1
        if isinstance(answer, Response):
            return failed(Reason.REFUSED, "a relay, not a PDS") if _is_relay(answer) else answer
        if answer.reason is Reason.TIMEOUT and left < patience:
            if self.before is None and not self.is_answered:
                self.before = outcome_of(answer)
            return self.out_of_time()
        return answer

    def out_of_time(self) -> SliceEnd:
        """Who used the time up: a server that failed until then, or we with all our questions."""
        before = self.before
        return OUT_OF_TIME if before is None else failed(before.reason, before.detail)


def _is_relay(answer: Response) -> bool:
    return _RELAY_SOFTWARE in answer.headers.get("Server", "").lower()


def _outcome(answer: Response | Trouble) -> Outcome:
    if isinstance(answer, Trouble):
        return outcome_of(answer)
    if 300 <= answer.status < 400:
        return Outcome(Reason.REFUSED, detail=f"HTTP {answer.status}: redirects are not followed")
    return error_outcome(answer)


def _may_pass(answer: Response | Trouble, reason: Reason) -> bool:
    """Whether asking again at once makes sense: not where a method is not there, nor where all the
    time for an answer has been waited already."""
    if reason is Reason.TIMEOUT or (isinstance(answer, Response) and answer.status == 501):
        return False
    return reason is Reason.TRUNCATED or reason.blame in (Blame.LANE, Blame.US)


def is_missing(outcome: Outcome) -> bool:
    """Whether a server may not know a method: each kind says it in its own way."""
    statuses = ("HTTP 404", "HTTP 405", "HTTP 401", "HTTP 403")
    return outcome.detail.startswith(statuses) or is_surely_missing(outcome)


def is_surely_missing(outcome: Outcome) -> bool:
    """Said in words that mean nothing else."""
    return outcome.detail.startswith("HTTP 501") or "MethodNotImplemented" in outcome.detail
