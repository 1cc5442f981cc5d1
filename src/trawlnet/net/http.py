"""The one way out: a GET that waits its turn, watches where it goes, and bounds what it reads."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import lru_cache
from types import MappingProxyType, TracebackType
from typing import Any, Protocol

import aiohttp

from trawlnet.engine.outcome import Reason
from trawlnet.engine.ports import Clock
from trawlnet.net.agent import require_contact
from trawlnet.net.answer import Limits, Patience, Response, Stream
from trawlnet.net.dial import Dialled, GuardedResolver, Pools, dialled
from trawlnet.net.guard import Guard
from trawlnet.net.ratelimit import wait_from
from trawlnet.net.redirect import Leg, first_leg, is_redirect, next_leg
from trawlnet.net.session import open_session
from trawlnet.net.trouble import EXPECTED, Trouble, trouble_from


class Turns(Protocol):
    """What is needed of the gate."""

    def turn(self, lane: str) -> AbstractAsyncContextManager[Any]:
        """Entered immediately before a request, left when its body has been read."""


_NO_HEADERS: Mapping[str, str] = MappingProxyType({})


class Http:
    """`async with Http(...) as http`: then `http.get(url)` or `async with http.stream(url)`.

    A parked lane is not trouble of the request: the gate's exception passes through to the worker.
    """

    def __init__(
        self,
        turns: Turns,
        clock: Clock,
        agent: str,
        *,
        guard: Guard | None = None,
        limits: Limits | None = None,
        pools: Pools | None = None,
        proxy_for: Callable[[str], str | None] = lambda host: None,
    ) -> None:
        """`proxy_for` names the http:// proxy of a host. The guard sees the proxy's address then,
        and not the host's: where that may lead is the proxy's to say."""
        require_contact(agent)
        self._turns = turns
        self._clock = clock
        self._agent = agent
        self._guard = guard or Guard()
        self._limits = limits or Limits()
        self._pools = pools or Pools()
        self._proxy_for = proxy_for
        self._kept = _KeptHosts(self._pools)

    async def __aenter__(self) -> Http:
        self._resolver = GuardedResolver(self._guard, self._pools, self._limits.connect)
        self._session = open_session(self._guard, self._pools, self._resolver, self._agent)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._session.close()
        await self._resolver.close()

    async def get(
        self,
        url: str,
        *,
        lane: str | None = None,
        headers: Mapping[str, str] = _NO_HEADERS,
        limits: Limits | None = None,
    ) -> Response | Trouble:
        """The whole response, whatever its status, or why there is none."""
        async with self.stream(url, lane=lane, headers=headers, limits=limits) as answer:
            return answer if isinstance(answer, Trouble) else await answer.whole()

    @asynccontextmanager
    async def stream(
        self,
        url: str,
        *,
        lane: str | None = None,
        headers: Mapping[str, str] = _NO_HEADERS,
        limits: Limits | None = None,
    ) -> AsyncIterator[Stream | Trouble]:
        """The response with its body still to be read. The turn lasts as long as the block, so
        asking the same lane again inside it may wait for ever."""
        limits = limits or self._limits
        patience = Patience(limits.total)
        leg: Leg | Trouble = self._first(url, lane, headers)
        may_repeat = True
        while not isinstance(leg, Trouble):
            async with self._turns.turn(leg.lane):
                answer, fresh = await self._ask(leg, limits, patience), dialled.get().fresh
                if isinstance(answer, Stream):
                    try:
                        if not (limits.redirects and is_redirect(answer.status, answer.headers)):
                            yield answer
                            return
                    finally:
                        answer.close()
            if isinstance(answer, Stream):
                leg = self._next(leg, answer, limits)
            elif answer.reason is Reason.CONNECTION_ERROR and not fresh and may_repeat:
                # The server gave up a connection that we had kept. That says nothing about its
                # health, so ask once more: a request of its own, with a turn of its own.
                may_repeat = False
            else:
                leg = answer
        yield leg

    def _first(self, url: str, lane: str | None, headers: Mapping[str, str]) -> Leg | Trouble:
        try:
            return first_leg(self._guard, url, lane, headers)
        except EXPECTED as error:
            return trouble_from(error, url)

    def _next(self, leg: Leg, answer: Stream, limits: Limits) -> Leg | Trouble:
        try:
            return next_leg(self._guard, leg, answer.headers["Location"], limits.redirects)
        except EXPECTED as error:
            return trouble_from(error, answer.url, answer.hops)

    async def _ask(self, leg: Leg, limits: Limits, patience: Patience) -> Stream | Trouble:
        """One request, up to the end of its response's headers."""
        dialled.set(Dialled())
        response = None
        try:
            async with patience:
                response = await self._session.get(
                    leg.url,
                    headers=self._kept.header_for(leg, self._clock.now()),
                    allow_redirects=False,
                    proxy=self._proxy_for(leg.url.raw_host or ""),
                    timeout=_connecting_within(limits.connect),
                    max_line_size=limits.header,
                    max_field_size=limits.header,
                )
            return self._stream_of(response, leg, limits, patience)
        except EXPECTED as error:
            if response is not None:
                response.close()
            return trouble_from(error, str(leg.url), leg.hops)

    def _stream_of(
        self, response: aiohttp.ClientResponse, leg: Leg, limits: Limits, patience: Patience
    ) -> Stream:
        status = response.status
        wait = None
        if status >= 400:
            wait = wait_from(
                response.headers, self._clock.now(), limits.longest_wait, status=status
            )
        return Stream(response, leg.hops, limits, patience, wait)


@lru_cache(maxsize=16)
def _connecting_within(seconds: float) -> aiohttp.ClientTimeout:
    """The other deadlines are ours."""
    return aiohttp.ClientTimeout(total=None, connect=seconds)


class _KeptHosts:
    """Which hosts may keep a connection open. The library bounds connections in use, not idle
    ones: a crawl over many hosts would otherwise collect them until files run out."""

    def __init__(self, pools: Pools) -> None:
        self._pools = pools
        self._until: dict[str, float] = {}  # Oldest first.

    def header_for(self, leg: Leg, now: float) -> Mapping[str, str]:
        host = leg.url.raw_authority
        if self._until.pop(host, None) is None:
            self._forget(now)
            if len(self._until) >= self._pools.idle_hosts:
                return {**leg.headers, "Connection": "close"}
        self._until[host] = now + self._pools.idle
        return leg.headers

    def _forget(self, now: float) -> None:
        while self._until:
            host = next(iter(self._until))
            if self._until[host] > now:
                return
            del self._until[host]
