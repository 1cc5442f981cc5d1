"""Turns that all shards of a fleet share, or all processes of a workspace: one request at a time
to a host and to its address, with the gap between requests of all of them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol

from trawlnet.crawlers.web.config import WebConfig
from trawlnet.crawlers.web.plan import manners_of
from trawlnet.engine.gate import Gate, LaneParked
from trawlnet.engine.ports import Clock
from trawlnet.net.address import AddressTurns
from trawlnet.net.http import Leaving, Turns

_LEAST = 0.001  # Seconds; a shorter gap counts as none.
_SLACK = 5.0  # Seconds beyond the longest request after which its turn ends by itself.
_LONGEST_NAP = 0.5  # Seconds until a waiting turn notices that the crawl is being drained.
_WORTH_WAITING = 5.0  # Seconds; for a longer wait the worker is freed.


class PacingGate(Protocol):
    """The methods of the gate that are used here."""

    def interval(self, lane: str) -> float: ...

    def park(self, lane: str, until: float) -> None: ...

    closing: Callable[[], bool]


class TurnKeys(Protocol):
    """The shared record of turns: Redis, or a file."""

    async def turn(
        self, gaps: Mapping[str, float], longest: float, lane: str | None = None
    ) -> float: ...

    async def turned(self, gaps: Mapping[str, float]) -> None: ...


@dataclass(frozen=True, slots=True)
class SharedTurns:
    """The gate's own turn comes first, so that in each process at most one worker waits here for a
    crowded address; the others wait as tasks."""

    turns: Turns
    keys: TurnKeys
    clock: Clock
    gate: PacingGate
    address_of: Callable[[str], Awaitable[str]]
    address_gap: float  # Seconds between two requests to one address; 0: no limit.
    longest: float  # Seconds that a request takes at most.
    owns: Callable[[str], bool]

    def turn(self, lane: str) -> _SharedTurn:
        return _SharedTurn(self, self.turns.turn(lane), lane)

    async def gaps(self, lane: str) -> dict[str, float]:
        """The gap after a request on this lane, by name of the host and of its address."""
        found = {lane: self.gate.interval(lane)}
        if self.address_gap and (address := await self.address_of(lane)):
            found[f"@{address}"] = self.address_gap
        return {name: gap for name, gap in found.items() if gap >= _LEAST}


class _SharedTurn:
    __slots__ = ("_gaps", "_lane", "_shared", "_turn")

    def __init__(
        self, shared: SharedTurns, turn: AbstractAsyncContextManager[Leaving], lane: str
    ) -> None:
        self._shared = shared
        self._turn = turn
        self._lane = lane
        self._gaps: dict[str, float] = {}

    async def __aenter__(self) -> Leaving:
        turn = await self._turn.__aenter__()
        try:
            await self._wait()
        except BaseException as error:
            await self._turn.__aexit__(type(error), error, error.__traceback__)
            raise
        return turn

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            if self._gaps:
                await self._shared.keys.turned(self._gaps)
        finally:
            await self._turn.__aexit__(kind, error, trace)

    async def _wait(self) -> None:
        shared, lane = self._shared, self._lane
        gaps = await shared.gaps(lane)
        fenced = lane if shared.owns(lane) else None
        while gaps and (wait := await shared.keys.turn(gaps, shared.longest, fenced)):
            # Longer than the gap of an address: the host has a gap left from another owner.
            if wait > shared.address_gap + _WORTH_WAITING:
                until = shared.clock.now() + wait
                shared.gate.park(lane, until)
                raise LaneParked(lane, until)
            # A drained crawl does not wait out a long gap.
            if shared.gate.closing():
                raise LaneParked(lane, shared.clock.now() + wait)
            await shared.clock.sleep(min(wait, _LONGEST_NAP))
        self._gaps = gaps


def turns_of(
    config: WebConfig,
    turns: AddressTurns,
    gate: Gate,
    keys: TurnKeys,
    clock: Clock,
    owns: Callable[[str], bool] = lambda lane: False,
) -> SharedTurns:
    limits, manners = config.limits, manners_of(config)
    return SharedTurns(
        turns if limits.per_address else gate,
        keys,
        clock,
        gate,
        turns.address_of,
        1.0 / manners.rate if limits.per_address else 0.0,  # Nothing for an infinite rate.
        limits.request_timeout + _SLACK,
        owns,
    )
