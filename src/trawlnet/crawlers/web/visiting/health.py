"""Checks whether a host works although its pages fail: fetches a page that succeeded before."""

from __future__ import annotations

import asyncio
from typing import NamedTuple, Protocol

from trawlnet.crawlers.metered import Getter
from trawlnet.engine.outcome import Outcome, Reason
from trawlnet.engine.rules import Manners
from trawlnet.net.client.answer import RequestLimits, Stream
from trawlnet.net.trouble import Trouble

_REMEMBERED = 10_000  # Hosts.


class FailingGate(Protocol):
    def failures(self, lane: str) -> int: ...

    def is_answering(self, lane: str) -> bool: ...

    def manners(self, lane: str) -> Manners: ...


class HealthCheck(NamedTuple):
    """The result of a check."""

    is_well: bool
    rest: Outcome | None = None  # The host asked to wait.


UNKNOWN = HealthCheck(False)


class HostHealth:
    """Checks once for every few failures in a row, before the next one would slow the host down. Of
    several pages that fail together, one checks and the others wait for the result."""

    def __init__(self, http: Getter, gate: FailingGate, limits: RequestLimits) -> None:
        self._http = http
        self._gate = gate
        self._limits = limits
        self._good: dict[str, str] = {}  # Lane -> the URL of its last successful page.
        self._looks: dict[str, asyncio.Future[HealthCheck]] = {}  # Running checks, by lane.

    def answered(self, lane: str, url: str) -> None:
        """A page of this host came."""
        if lane not in self._good and len(self._good) >= _REMEMBERED:
            del self._good[next(iter(self._good))]
        self._good[lane] = url

    def has_answered(self, lane: str) -> bool:
        """Whether a page of this host has come in this run."""
        return lane in self._good

    def is_suspended(self, lane: str) -> bool:
        """Whether only probes are sent to this host."""
        return self._gate.failures(lane) >= self._gate.manners(lane).block_at

    def in_doubt(self, lane: str) -> bool:
        """Whether one more failure would slow the host down. A host that said "slow down" twice in
        a row may say it of these pages only."""
        if not self._gate.is_answering(lane):
            return True
        failures = self._gate.failures(lane) + 1
        manners = self._gate.manners(lane)
        return failures % manners.halve_every == 0 or failures >= manners.block_at

    async def look(self, lane: str, front: str) -> HealthCheck:
        """`front` is the page to fetch from a host without a successful page; may be empty."""
        under_way = self._looks.get(lane)
        if under_way is None:
            url = self._good.get(lane, front)
            if not url:
                return UNKNOWN
            under_way = self._looks[lane] = asyncio.ensure_future(self._ask(lane, url))
            under_way.add_done_callback(lambda _: self._looks.pop(lane, None))
        return await asyncio.shield(under_way)

    async def _ask(self, lane: str, url: str) -> HealthCheck:
        async with self._http.stream(url, limits=self._limits) as answer:
            look = UNKNOWN if isinstance(answer, Trouble) else _look_of(answer)
        if look.is_well:
            self.answered(lane, url)
        return look


def _look_of(answer: Stream) -> HealthCheck:
    if answer.wait or answer.reason is Reason.RATE_LIMITED:
        detail = f"HTTP {answer.status} for another page"
        return HealthCheck(False, Outcome(answer.reason, wait=answer.wait, detail=detail))
    return HealthCheck(answer.status < 500)
