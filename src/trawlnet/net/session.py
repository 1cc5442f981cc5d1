"""The library's session with its conveniences off, and its holes mended."""

from __future__ import annotations

import asyncio
from typing import Any
from weakref import WeakKeyDictionary

import aiohttp

from trawlnet.net.dial import GuardedResolver, Pools, guarded_socket
from trawlnet.net.guard import Guard
from trawlnet.net.inflate import ACCEPTED


def open_session(
    guard: Guard, pools: Pools, resolver: GuardedResolver, agent: str
) -> aiohttp.ClientSession:
    """No proxies from the environment, no cookies, no inflating, no repeating behind our back."""
    connector = aiohttp.TCPConnector(
        limit=pools.total,
        limit_per_host=pools.per_host,
        keepalive_timeout=pools.idle,
        ttl_dns_cache=pools.names_for,
        dns_cache_max_size=pools.names,
        resolver=resolver,
        socket_factory=guarded_socket(guard),
    )
    return aiohttp.ClientSession(
        connector=connector,
        headers={"User-Agent": agent, "Accept-Encoding": ACCEPTED},
        cookie_jar=aiohttp.DummyCookieJar(),
        auto_decompress=False,
        trust_env=False,
        response_class=_WatchedResponse,
        middlewares=(_sent_once,),
    )


class _Dropped(aiohttp.ClientError):
    """The connection broke before there was an answer."""


async def _sent_once(
    request: aiohttp.ClientRequest, send: aiohttp.ClientHandlerType
) -> aiohttp.ClientResponse:
    """The library would repeat a request by itself, without a turn: this hides from it why."""
    try:
        return await send(request)
    except aiohttp.ClientConnectorError:
        raise
    except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError) as error:
        raise _Dropped(str(error)) from error


class _WatchedResponse(aiohttp.ClientResponse):
    async def start(self, connection: Any) -> aiohttp.ClientResponse:
        protocol = connection.protocol
        # What came before we asked cannot be the answer: the last response ran over its length.
        if protocol.should_close:
            raise aiohttp.ServerDisconnectedError("bytes left over from an earlier response")
        # The server may ignore this wish, so we see to it ourselves.
        if self.request_info.headers.get("Connection") == "close":
            protocol.force_close()
        await super().start(connection)
        if not self.content.is_eof():
            _watch(protocol.closed, self.content)
        return self


class _Watch:
    """Ends the body that is being read when its connection ends. After bad framing within a body
    the library closes the connection without telling the reader, who would wait for ever."""

    __slots__ = ("content",)

    def __init__(self, content: aiohttp.StreamReader) -> None:
        self.content = content

    def over(self, closed: asyncio.Future[None] | None = None) -> None:
        if closed is not None and not closed.cancelled():
            closed.exception()  # Looked at, so that it is not reported as forgotten.
        if not self.content.is_eof() and self.content.exception() is None:
            self.content.set_exception(
                aiohttp.ClientPayloadError("the connection ended within the body")
            )


# One for each connection, however many responses come over it.
_watches: WeakKeyDictionary[asyncio.Future[None], _Watch] = WeakKeyDictionary()


def _watch(closed: asyncio.Future[None] | None, content: aiohttp.StreamReader) -> None:
    if closed is None:
        _Watch(content).over()
    elif (watch := _watches.get(closed)) is not None:
        watch.content = content
    else:
        watch = _watches[closed] = _Watch(content)
        closed.add_done_callback(watch.over)
