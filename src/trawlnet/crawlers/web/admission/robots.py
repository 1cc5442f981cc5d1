"""The cache of robots.txt rules: each file is requested once, for any number of waiting links."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Protocol

from trawlnet.crawlers.metered import Getter
from trawlnet.crawlers.web.admission.robots_file import RobotsFile, SavedRobots
from trawlnet.engine.gate import LaneParked
from trawlnet.engine.outcome import Blame, Outcome, Reason
from trawlnet.engine.ports import Clock
from trawlnet.engine.rules import Manners, RetryPolicy
from trawlnet.net.client.answer import RequestLimits
from trawlnet.net.lane import lane_of
from trawlnet.net.trouble import Trouble
from trawlnet.webpage.robots import MAX_ROBOTS, RobotsRules
from trawlnet.webpage.robots_answer import (
    MOST_REDIRECTS,
    RobotsEntry,
    RobotsPolicy,
    crawl_delay,
    is_fresh,
    next_entry,
    robots_from,
)

_REMEMBERED = 10_000  # Hosts whose rules stay in memory.
_TRIES = 3  # Attempts while connections break; any answer counts.
_BREAKS = (Reason.CONNECTION_ERROR, Reason.TRUNCATED)
# Reading stops at the size limit of the parser.
_LIMITS = RequestLimits(wire=1 << 40, inflated=1 << 40, redirects=MOST_REDIRECTS)
_NO_FILE = 404


_MOMENT = 1.0  # Seconds until a failing host that is not parked yet is tried again.


class TreatingGate(Protocol):
    def treat(self, lane: str, manners: Manners) -> None: ...

    def ready_at(self, lane: str) -> float: ...


@dataclass(frozen=True, slots=True)
class Ruling:
    entry: RobotsEntry
    # Without rules: the outcome of a page of this host.
    trouble: Outcome | None = None
    asked_at: float = 0.0  # When the request failed.
    is_private: bool = False  # Its address is refused, unless private ones are allowed.

    @property
    def rules(self) -> RobotsRules:
        return self.entry.rules


@dataclass(frozen=True, slots=True)
class _Answer:
    status: int | None
    body: bytes = b""
    trouble: Outcome | None = None
    is_private: bool = False


class RobotsCache:
    def __init__(
        self,
        http: Getter,
        gate: TreatingGate,
        clock: Clock,
        policy: RobotsPolicy,
        manners: Manners,
        file: RobotsFile,
        retry: RetryPolicy,
        timeout: float,
    ) -> None:
        self._http = http
        self._gate = gate
        self._clock = clock
        self._policy = policy
        self._manners = manners  # Of a host without a Crawl-delay.
        self._file = file
        self._retry = retry
        self._limits = replace(_LIMITS, total=timeout)
        self._known: dict[str, Ruling] = {}
        self._flights: dict[str, asyncio.Future[Ruling]] = {}
        self._slowed: set[str] = set()  # Lanes with a Crawl-delay.

    def known(self, origin: str) -> RobotsRules | None:
        """The cached rules of `scheme://host`; None if the file must be requested."""
        known = self._known.get(origin)
        if known is None or not is_fresh(known.entry, self._clock.now()):
            return None
        return None if known.trouble else known.rules

    async def ruling(self, origin: str) -> Ruling:
        """Only the page that requested the file gets its failure, so that no other page pays for
        it. Raises LaneParked for the others, and if the host must not be contacted now.

        A failure is not cached here. It suspends the host, so that the next request is a probe,
        which must request the file again."""
        known = self._known.get(origin) or self._load(origin)
        if known is not None and _is_lanes(known):
            self._await_suspension(origin, known.asked_at)
        if known is None or _is_lanes(known) or not is_fresh(known.entry, self._clock.now()):
            known = await self._alone(origin, lambda: self._ask(origin))
        return known

    async def _alone(self, origin: str, ask: Callable[[], Awaitable[Ruling]]) -> Ruling:
        """One task sends the request, the others wait for its result."""
        flight = self._flights.get(origin)
        if flight is not None:
            known = await asyncio.shield(flight)
            if _is_lanes(known):
                self._await_suspension(origin, known.asked_at)
            return known
        flight = self._flights[origin] = asyncio.get_running_loop().create_future()
        try:
            known = await ask()
        except BaseException as error:
            # A parked lane counts for all waiting tasks; a cancelled task for none of them.
            flight.cancel() if isinstance(error, asyncio.CancelledError) else _fail(flight, error)
            raise
        else:
            flight.set_result(known)
            return known
        finally:
            del self._flights[origin]

    def _await_suspension(self, origin: str, asked_at: float) -> None:
        """Between a failure and the host's suspension, no second request is sent."""
        lane, moment = lane_of(origin), asked_at + _MOMENT
        if self._clock.now() < moment:
            raise LaneParked(lane, max(self._gate.ready_at(lane), moment))

    async def _ask(self, origin: str) -> Ruling:
        answer = await self._answer(origin)
        before = self._known.get(origin)
        now = self._clock.now()
        entry = next_entry(
            before.entry if before else None, answer.status, answer.body, self._policy, now
        )
        trouble = answer.trouble
        if trouble is not None and trouble.wait:
            # If the server names a time, ask again then, instead of after `failure_ttl`.
            entry = replace(entry, until=min(entry.until, now + trouble.wait))
        elif trouble is not None and trouble.reason is not Reason.RATE_LIMITED:
            trouble = replace(trouble, lane_is_down=True)
        known = Ruling(entry, trouble if entry.good is None else None, now, answer.is_private)
        self._save(origin, entry, answer)
        self._remember(origin, known)
        return known

    async def _answer(self, origin: str) -> _Answer:
        for number in range(_TRIES):
            answer = await self._read(origin)
            if answer.trouble is None or answer.trouble.reason not in _BREAKS:
                break
            if number + 1 < _TRIES:
                await self._clock.sleep(self._retry.delay(origin, number))
        return answer

    async def _read(self, origin: str) -> _Answer:
        async with self._http.stream(f"{origin}/robots.txt", limits=self._limits) as stream:
            if isinstance(stream, Trouble):
                return _no_answer(stream)
            if stream.reason is Reason.RATE_LIMITED or stream.status >= 500:
                detail = f"robots.txt: HTTP {stream.status}"
                trouble = Outcome(stream.reason, wait=stream.wait, detail=detail)
                return _Answer(None, trouble=trouble)
            body = bytearray()
            if 200 <= stream.status < 300:
                async for piece in stream:
                    if isinstance(piece, Trouble):
                        return _no_answer(piece)
                    body += piece
                    if len(body) > MAX_ROBOTS:
                        break
            return _Answer(stream.status, bytes(body))

    def _save(self, origin: str, entry: RobotsEntry, answer: _Answer) -> None:
        if answer.trouble is None:
            body = answer.body[: MAX_ROBOTS + 1]
            saved = SavedRobots(origin, entry.until, answer.status, body, entry.good_at)
        elif entry.good is None or (before := self._file.get(origin)) is None:
            return  # There are no rules to save.
        else:
            saved = replace(before, until=entry.until)
        self._file.put(saved)

    def _load(self, origin: str) -> Ruling | None:
        saved = self._file.get(origin)
        if saved is None or saved.status is None:  # Older versions saved failures, too.
            return None
        rules = robots_from(saved.status, saved.body, self._policy.agent)
        known = Ruling(RobotsEntry(rules, saved.until, rules, saved.at))
        self._remember(origin, known)
        return known

    def _remember(self, origin: str, known: Ruling) -> None:
        if len(self._known) >= _REMEMBERED:
            del self._known[next(iter(self._known))]
        self._known[origin] = known
        self._slow_down(lane_of(origin), known.entry.rules)

    def _slow_down(self, lane: str, rules: RobotsRules) -> None:
        delay = crawl_delay(rules, self._policy)
        if delay > 0.0 and (rate := paced(delay)) < self._manners.rate:
            self._slowed.add(lane)
            self._gate.treat(lane, replace(self._manners, rate=rate, concurrency=1))
        elif lane in self._slowed:
            self._slowed.discard(lane)
            self._gate.treat(lane, self._manners)


# A server may see its answer end a little later than we do.
_MARGIN = 0.005  # Seconds added to a gap,
_MARGIN_SHARE = 0.05  # but at most this share of it.


def paced(gap: float) -> float:
    """The rate that leaves a host this gap, in seconds, even by the server's own clock."""
    return 1.0 / (gap + min(_MARGIN, gap * _MARGIN_SHARE))


def _is_lanes(known: Ruling) -> bool:
    """Whether the host failed, and not our own policy refused."""
    return known.trouble is not None and known.trouble.reason.blame is Blame.LANE


def _fail(flight: asyncio.Future[Ruling], error: BaseException) -> None:
    flight.set_exception(error)
    flight.exception()  # Retrieved, so that asyncio does not report it.


def _no_answer(trouble: Trouble) -> _Answer:
    if trouble.reason is Reason.LOOP:
        return _Answer(_NO_FILE)
    detail = f"robots.txt: {trouble.detail}"
    outcome = Outcome(trouble.reason, wait=trouble.wait, detail=detail)
    return _Answer(None, trouble=outcome, is_private=trouble.is_private)
