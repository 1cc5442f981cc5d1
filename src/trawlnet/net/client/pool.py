"""Connections that are made when needed, and kept for a while in case they are needed again."""

from __future__ import annotations

import asyncio
import ssl
from base64 import b64encode
from collections import OrderedDict
from contextlib import nullcontext

from yarl import URL

from trawlnet.net.client.connection import SCRATCH, Connection
from trawlnet.net.client.dial import Endpoint, GuardedResolver, Pools, connected, info_of
from trawlnet.net.client.framing import bounded_handshake, received_by
from trawlnet.net.client.low_water import SocketLowWater
from trawlnet.net.client.patience import Patience
from trawlnet.net.guard import Guard

# The user names a proxy, so it may be on a private network. That opens its address to nothing
# else: a guard of its own, for the connection to it.
_FOR_PROXIES = Guard(allow_private=True)


class ConnectionPool:
    def __init__(self, guard: Guard, pools: Pools, resolver: GuardedResolver) -> None:
        self._guard = guard
        self._pools = pools
        self._resolver = resolver
        self._loop = asyncio.get_running_loop()
        self._scratch = memoryview(bytearray(SCRATCH))
        self._kept: dict[
            Endpoint, list[Connection]
        ] = {}  # The last one used is the last of a list.
        self._by_age: OrderedDict[Connection, None] = OrderedDict()
        self._sweep: asyncio.TimerHandle | None = None
        self._secure: ssl.SSLContext | None = None

    def kept(self, place: Endpoint) -> Connection | None:
        """One that is open and idle."""
        while connection := self._pop(place):
            if connection.is_open:
                return connection
        return None

    async def dial(self, place: Endpoint, deadline: float) -> Connection:
        """A new one, or what went wrong within so many seconds."""
        try:
            async with asyncio.timeout(deadline):
                return await self._connection(place, Patience(deadline))
        except TimeoutError as error:
            raise TimeoutError(f"no connection within {deadline:g} s") from error

    def give_back(self, connection: Connection) -> None:
        if not connection.is_reusable or self._pools.kept == 0:
            connection.close()
            return
        if len(self._by_age) >= self._pools.kept:
            self._drop(next(iter(self._by_age)))
        connection.idle_since = self._loop.time()
        self._kept.setdefault(connection.place, []).append(connection)
        self._by_age[connection] = None
        if self._sweep is None:
            self._sweep = self._loop.call_later(self._pools.idle, self._drop_old)

    def close(self) -> None:
        if self._sweep is not None:
            self._sweep.cancel()
        for connection in list(self._by_age):
            self._drop(connection)

    def _pop(self, place: Endpoint) -> Connection | None:
        connections = self._kept.get(place)
        if not connections:
            return None
        connection = connections.pop()
        if not connections:
            del self._kept[place]
        del self._by_age[connection]
        return connection

    def _drop(self, connection: Connection) -> None:
        connections = self._kept[connection.place]
        connections.remove(connection)
        if not connections:
            del self._kept[connection.place]
        del self._by_age[connection]
        connection.close()

    def _drop_old(self) -> None:
        self._sweep = None
        now = self._loop.time()
        while self._by_age:
            oldest = next(iter(self._by_age))
            due = oldest.idle_since + self._pools.idle
            if oldest.is_open and due > now:
                self._sweep = self._loop.call_at(due, self._drop_old)
                return
            self._drop(oldest)

    async def _connection(self, place: Endpoint, patience: Patience) -> Connection:
        host, port, guard = place.host, place.port, self._guard
        if place.proxy:
            proxy = URL(place.proxy)
            host, port, guard = proxy.raw_host or "", proxy.port or 80, _FOR_PROXIES
        if ":" in host or host.rpartition(".")[2].isdigit():
            infos = [info_of(host, port)]
        else:
            infos = await self._resolver.resolve(host, port, guard)
        socket = await connected(guard, infos)
        direct_tls = place.is_tls and not place.proxy
        low_water = None if place.is_tls else SocketLowWater(socket)
        received = received_by(socket) if place.is_tls else None
        connection = Connection(place, self._scratch, low_water, received)
        with bounded_handshake(socket) if place.is_tls else nullcontext():
            try:
                await self._loop.create_connection(
                    lambda: connection,
                    sock=socket,
                    ssl=self._secured() if direct_tls else None,
                    server_hostname=_certified(place.host) if direct_tls else None,
                )
            except BaseException:
                socket.close()
                raise
            if place.is_tunnel:
                try:
                    await connection.tunnel(
                        _connect_request(place), self._secured(), _certified(place.host), patience
                    )
                except BaseException:
                    connection.close()
                    raise
        return connection

    def _secured(self) -> ssl.SSLContext:
        # Not before it is needed: to read the authorities takes a while.
        if self._secure is None:
            self._secure = ssl.create_default_context()
            self._secure.set_alpn_protocols(["http/1.1"])
        return self._secure


def proxy_authorization(proxy: str) -> str:
    """A header line for a proxy whose URL has a password; else nothing."""
    url = URL(proxy)
    if url.user is None:
        return ""
    credentials = b64encode(f"{url.user}:{url.password or ''}".encode()).decode()
    return f"Proxy-Authorization: Basic {credentials}\r\n"


def _connect_request(place: Endpoint) -> bytes:
    host = f"[{place.host}]" if ":" in place.host else place.host
    authority = f"{host}:{place.port}"
    lines = f"CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n"
    return f"{lines}{proxy_authorization(place.proxy)}\r\n".encode()


def _certified(host: str) -> str:
    """A trailing dot is not part of the name in a certificate."""
    return host.rstrip(".")
