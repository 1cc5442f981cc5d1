"""Requests of one scan: counted, tried again while a server is unwell, ended by the deadline."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from trawlnet.crawlers.atproto.answers import error_outcome
from trawlnet.crawlers.pds.scanning.ending import OUT_OF_TIME, SliceEnd, failed, put_off
from trawlnet.crawlers.pds.scanning.parts import ScanParts
from trawlnet.engine.gate import LaneParked
from trawlnet.engine.outcome import Blame, Outcome, Reason
from trawlnet.net.client.answer import RequestLimits, Response, outcome_of
from trawlnet.net.lane import lane_of
from trawlnet.net.trouble import Trouble

_RELAY_SOFTWARE = "atproto-relay"
_UNTOLD_WAIT = 300.0  # Seconds, after a "slow down" that names no time: a server's usual window.
_SHORT_PAUSE = 10.0  # Seconds: no longer than two turns at the usual pace.
# One that hangs must not take all the time of a scan, or no scan would ever come past it.
_REQUESTS_AT_LEAST = 3


@dataclass(slots=True)
class ScanClient:
    parts: ScanParts
    pds: str
    deadline: float
    budget: float  # Seconds from the beginning of the scan to its deadline.
    requests: int = 0
    is_answered: bool = False  # At least once.

    @property
    def patience(self) -> float:
        """Seconds for one answer."""
        return min(self.parts.limits.request_seconds, self.budget / _REQUESTS_AT_LEAST)

    @property
    def lane(self) -> str:
        return lane_of(self.pds)

    async def ask(self, url: str, body_bytes: int | None = None) -> bytes | Outcome | SliceEnd:
        """The body, or what came instead after a few tries."""
        limits = self.parts.limits
        most = min(body_bytes or limits.page_bytes, limits.page_bytes)
        outcome: Outcome | None = None
        for _ in range(limits.tries):
            answer = await self._get(url, most, outcome)
            if isinstance(answer, SliceEnd):
                return answer
            if isinstance(answer, Response) and answer.status < 300:
                self.is_answered = True
                return answer.body
            outcome = _outcome(answer)
            if outcome.reason is Reason.RATE_LIMITED:
                wait = outcome.wait or _UNTOLD_WAIT
                if not await self._slow_down(wait):
                    return _sent_away(wait)
            elif outcome.wait:
                self._stay_away(outcome.wait)
                break
            elif not _may_pass(answer, outcome.reason):
                break
        assert outcome is not None  # There is a first try.
        if outcome.reason is Reason.RATE_LIMITED:
            return _sent_away(outcome.wait or _UNTOLD_WAIT)
        return outcome

    async def _slow_down(self, wait: float) -> bool:
        """A pause that is short is made here; anything longer is for others to use."""
        self._stay_away(wait)
        if wait > min(_SHORT_PAUSE, self.deadline - self.parts.clock.now()):
            return False
        await self.parts.clock.sleep(wait)
        return True

    async def _get(
        self, url: str, body_bytes: int, before: Outcome | None
    ) -> Response | Trouble | SliceEnd:
        left = self.deadline - self.parts.clock.now()
        if left <= 0.0:
            return _out_of_time(before)
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
            return _out_of_time(before)
        except LaneParked as parked:
            wait = max(parked.until - self.parts.clock.now(), 1.0)
            return put_off(Reason.PARKED, "it was asked to wait before", wait)
        self.requests += 1
        if isinstance(answer, Response):
            return failed(Reason.REFUSED, "a relay, not a PDS") if _is_relay(answer) else answer
        if answer.reason is Reason.TIMEOUT and left < patience:
            return _out_of_time(before or (None if self.is_answered else outcome_of(answer)))
        return answer

    def _stay_away(self, wait: float) -> None:
        self.parts.park(self.lane, self.parts.clock.now() + wait)


def _out_of_time(before: Outcome | None) -> SliceEnd:
    """Who used the time up: a server that failed until then, or we with all our questions."""
    return OUT_OF_TIME if before is None else failed(before.reason, before.detail)


def _sent_away(wait: float) -> SliceEnd:
    return put_off(Reason.RATE_LIMITED, "it asked us to slow down", wait)


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
