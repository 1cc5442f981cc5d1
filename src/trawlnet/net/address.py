"""Turns that also count for the address: hosts at one address share one pace."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import NamedTuple, Protocol

from trawlnet.engine.ports import Clock
from trawlnet.net.client.dial import GuardedResolver
from trawlnet.net.http import Leaving
from trawlnet.net.trouble import EXPECTED

_KNOWN_FOR = 600.0  # Seconds until a name is looked up again.
_UNKNOWN_FOR = 60.0  # Seconds until the lookup is retried after a failure.
_MOST_KNOWN = 50_000  # Lanes.
_PORT = 443  # For the lookup only; every policy allows it.


class _KnownAddress(NamedTuple):
    address: str
    until: float  # When to look it up again.


class SharingGate(Protocol):
    """The methods of the gate that are used here."""

    def turn(self, lane: str) -> AbstractAsyncContextManager[Leaving]: ...

    def share(self, lane: str, common: str) -> None: ...


class AddressTurns:
    """Looks up the host before a lane's turn, and lets the lane share its pace with all others
    at the same address. A host that cannot be looked up keeps its own pace: the request itself
    will report the error."""

    def __init__(
        self,
        gate: SharingGate,
        clock: Clock,
        resolver: GuardedResolver,
        proxy_for: Callable[[str], str | None] = lambda host: None,
    ) -> None:
        """A host behind a proxy is not looked up: only the proxy knows its address."""
        self._proxy_for = proxy_for
        self._gate = gate
        self._clock = clock
        self._resolver = resolver
        self._known: dict[str, _KnownAddress] = {}  # By lane.

    def turn(self, lane: str) -> AbstractAsyncContextManager[Leaving]:
        known = self._known.get(lane)
        if known is None or known.until <= self._clock.now():
            return SharedTurn(self, self._gate.turn(lane), lane)
        if known.address:
            self._gate.share(lane, known.address)
        return self._gate.turn(lane)

    async def share(self, lane: str) -> None:
        if address := await self.address_of(lane):
            self._gate.share(lane, address)

    async def address_of(self, lane: str) -> str:
        """The address of the lane's host; empty if it is unknown or behind a proxy."""
        known = self._known.get(lane)
        if known is None or known.until <= self._clock.now():
            known = await self._looked_up(host_of(lane), known.address if known else "")
            if len(self._known) >= _MOST_KNOWN:
                self._known.clear()
            self._known[lane] = known
        return known.address

    async def _looked_up(self, host: str, before: str) -> _KnownAddress:
        if self._proxy_for(host):
            return _KnownAddress("", math.inf)
        if is_literal(host):
            return _KnownAddress(host, math.inf)
        now = self._clock.now()
        try:
            found = await self._resolver.resolve(host, _PORT)
        except EXPECTED:
            return _KnownAddress(before, now + _UNKNOWN_FOR)
        # The least of several, so that names with the same set of addresses share a pace.
        return _KnownAddress(min(str(info[4][0]) for info in found), now + _KNOWN_FOR)


class SharedTurn:
    """A lane's turn, after the lookup of its address."""

    __slots__ = ("_lane", "_turn", "_turns")

    def __init__(
        self, turns: AddressTurns, turn: AbstractAsyncContextManager[Leaving], lane: str
    ) -> None:
        self._turns = turns
        self._turn = turn
        self._lane = lane

    async def __aenter__(self) -> Leaving:
        await self._turns.share(self._lane)
        return await self._turn.__aenter__()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._turn.__aexit__(kind, error, trace)


def host_of(lane: str) -> str:
    """A lane's host, without its port; an IPv6 address without its brackets."""
    if lane.startswith("["):
        return lane[1:].partition("]")[0]
    return lane.partition(":")[0]


def is_literal(host: str) -> bool:
    return ":" in host or host.rpartition(".")[2].isdigit()
