"""Whether a host is well whose pages fail: a page that it has delivered before is asked for."""

from __future__ import annotations

from typing import Protocol

from trawlnet.crawlers.metered import Getter
from trawlnet.engine.gate import LaneParked
from trawlnet.engine.outcome import Blame, Outcome, Reason
from trawlnet.engine.rules import Manners
from trawlnet.net.answer import Limits
from trawlnet.net.trouble import Trouble

_REMEMBERED = 10_000  # Hosts.


class FailingGate(Protocol):
    def failures(self, lane: str) -> int: ...

    def manners(self, lane: str) -> Manners: ...


class HostHealth:
    """Asks once for every few failures in a row, before the host would be slowed down for them."""

    def __init__(self, http: Getter, gate: FailingGate, limits: Limits) -> None:
        self._http = http
        self._gate = gate
        self._limits = limits
        self._good: dict[str, str] = {}  # By lane the URL of a page that came last.
        self._asking: set[str] = set()

    def answered(self, lane: str, url: str) -> None:
        """A page of this host came as it should."""
        if lane not in self._good and len(self._good) >= _REMEMBERED:
            del self._good[next(iter(self._good))]
        self._good[lane] = url

    def in_doubt(self, lane: str, outcome: Outcome) -> bool:
        """Whether one more such outcome would count against the host, and it is time to ask."""
        if outcome.reason.blame is not Blame.LANE or outcome.reason is Reason.RATE_LIMITED:
            return False
        manners, failures = self._gate.manners(lane), self._gate.failures(lane) + 1
        due = failures % manners.halve_every == 0 or failures >= manners.block_at
        return due and lane not in self._asking

    async def is_well(self, lane: str, front: str) -> bool:
        """`front` is the page to ask for at a host that has delivered none yet."""
        url = self._good.get(lane, front)
        if not url:
            return False
        self._asking.add(lane)
        try:
            async with self._http.stream(url, limits=self._limits) as answer:
                return not isinstance(answer, Trouble) and _shows_health(answer.status)
        except LaneParked:
            return False
        finally:
            self._asking.discard(lane)


def _shows_health(status: int) -> bool:
    return status < 500 and status != 429
