"""All requests leave through here: a GET waits for its turn, checks its target, bounds its body."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from types import MappingProxyType, TracebackType
from typing import Protocol

from trawlnet.engine.outcome import Reason
from trawlnet.engine.ports import Clock
from trawlnet.net.agent import require_contact
from trawlnet.net.client.answer import RequestLimits, Response, Stream
from trawlnet.net.client.connection import Connection
from trawlnet.net.client.dial import GuardedResolver, Pools
from trawlnet.net.client.patience import Patience
from trawlnet.net.client.pool import ConnectionPool
from trawlnet.net.client.request import Requests
from trawlnet.net.guard import Guard
from trawlnet.net.rate_limit import wait_from
from trawlnet.net.redirect import Leg, first_leg, is_redirect, next_leg
from trawlnet.net.trouble import EXPECTED, Trouble, trouble_from


class Leaving(Protocol):
    async def leave(self) -> None:
        """Returns when the request may be sent over its connection."""


class Turns(Protocol):
    """The method of the gate that is used here."""

    def turn(self, lane: str) -> AbstractAsyncContextManager[Leaving]:
        """Entered immediately before a request, exited when its body has been read."""


_NO_HEADERS: Mapping[str, str] = MappingProxyType({})


class Http:
    """`async with Http(...) as http`: then `http.get(url)` or `async with http.stream(url)`.

    A parked lane is no failure of the request: the gate's exception passes through to the worker.
    """

    def __init__(
        self,
        turns: Turns,
        clock: Clock,
        agent: str,
        *,
        guard: Guard | None = None,
        limits: RequestLimits | None = None,
        pools: Pools | None = None,
        proxy_for: Callable[[str], str | None] = lambda host: None,
    ) -> None:
        """`proxy_for` returns the http:// proxy of a host. The guard then checks only the URL and
        no address, because the proxy resolves the name."""
        require_contact(agent)
        self._turns = turns
        self._clock = clock
        self._requests = Requests(agent)
        self._guard = guard or Guard()
        self._limits = limits or RequestLimits()
        self._pools = pools or Pools()
        self._proxy_for = proxy_for

    async def __aenter__(self) -> Http:
        self._resolver = GuardedResolver(self._guard, self._pools, self._limits.connect)
        self._pool = ConnectionPool(self._guard, self._pools, self._resolver)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._pool.close()
        await self._resolver.close()

    async def get(
        self,
        url: str,
        *,
        lane: str | None = None,
        headers: Mapping[str, str] = _NO_HEADERS,
        limits: RequestLimits | None = None,
    ) -> Response | Trouble:
        """The whole response, with any status, or why there is none."""
        async with self.stream(url, lane=lane, headers=headers, limits=limits) as answer:
            return answer if isinstance(answer, Trouble) else await answer.whole()

    def stream(
        self,
        url: str,
        *,
        lane: str | None = None,
        headers: Mapping[str, str] = _NO_HEADERS,
        limits: RequestLimits | None = None,
        on_end: Callable[[Stream | Trouble], None] = lambda answer: None,
    ) -> Asking:
        """The response with its body still to be read; `on_end` is called with it after the block.
        The turn lasts as long as the block, so a second request on the same lane inside it may
        wait for ever."""
        return Asking(self, url, lane, headers, limits or self._limits, on_end)

    def _first(self, url: str, lane: str | None, headers: Mapping[str, str]) -> Leg | Trouble:
        try:
            return first_leg(self._guard, url, lane, headers)
        except EXPECTED as error:
            return trouble_from(error, url)

    def _next(self, leg: Leg, answer: Stream, limits: RequestLimits) -> Leg | Trouble:
        try:
            return next_leg(self._guard, leg, answer.headers["Location"], limits.redirects)
        except EXPECTED as error:
            return trouble_from(error, answer.url, answer.hops)

    async def _ask(
        self, leg: Leg, limits: RequestLimits, patience: Patience, turn: Leaving
    ) -> tuple[Stream | Trouble, bool]:
        """Send one request and read the head of its response; also returns whether the connection
        was new, not reused."""
        place, request = self._requests.of(leg, self._proxy_for(leg.origin.host))
        connection = self._pool.kept(place)
        is_fresh = connection is None
        try:
            if connection is None:
                async with patience:
                    connection = await self._pool.dial(place, limits.connect)
            await turn.leave()
            await connection.ask(request, limits.header, patience)
            return self._stream_of(connection, leg, limits, patience), is_fresh
        except BaseException as error:
            if connection is not None:
                connection.close()
            if isinstance(error, EXPECTED):
                return trouble_from(error, leg.url, leg.hops), is_fresh
            raise

    def _stream_of(
        self, connection: Connection, leg: Leg, limits: RequestLimits, patience: Patience
    ) -> Stream:
        status = connection.status
        wait = None
        if status >= 400:
            wait = wait_from(
                connection.headers, self._clock.now(), limits.longest_wait, status=status
            )
        return Stream(connection, self._pool, leg, limits, patience, wait)


class Asking:
    """`async with`: one request and those that its redirects lead to, each with a turn."""

    __slots__ = ("_answer", "_headers", "_http", "_lane", "_limits", "_on_end", "_turn", "_url")
    _answer: Stream | Trouble
    _turn: AbstractAsyncContextManager[Leaving]  # Of the answer, if there is one.

    def __init__(
        self,
        http: Http,
        url: str,
        lane: str | None,
        headers: Mapping[str, str],
        limits: RequestLimits,
        on_end: Callable[[Stream | Trouble], None],
    ) -> None:
        self._http = http
        self._url = url
        self._lane = lane
        self._headers = headers
        self._limits = limits
        self._on_end = on_end

    async def __aenter__(self) -> Stream | Trouble:
        http, limits = self._http, self._limits
        patience = Patience(limits.total)
        leg = http._first(self._url, self._lane, self._headers)
        may_repeat = True
        while not isinstance(leg, Trouble):
            turn = http._turns.turn(leg.lane)
            leaving = await turn.__aenter__()
            try:
                answer, is_fresh = await http._ask(leg, limits, patience, leaving)
                if isinstance(answer, Stream):
                    if not (limits.redirects and is_redirect(answer.status, answer.headers)):
                        self._answer, self._turn = answer, turn
                        return answer
                    answer.close()
            except BaseException as error:
                await turn.__aexit__(type(error), error, error.__traceback__)
                raise
            await turn.__aexit__(None, None, None)
            if isinstance(answer, Stream):
                leg = http._next(leg, answer, limits)
            elif answer.reason is Reason.CONNECTION_ERROR and not is_fresh and may_repeat:
                # The server closed an idle connection of the pool. That is no sign of a failing
                # server, so send the request once more, with a turn of its own.
                may_repeat = False
            else:
                leg = answer
        self._answer = leg
        return leg

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        answer = self._answer
        if isinstance(answer, Trouble):
            self._on_end(answer)
            return
        try:
            answer.close()  # First, so that the connection is returned even if the callback fails.
            self._on_end(answer)
        finally:
            await self._turn.__aexit__(kind, error, trace)
