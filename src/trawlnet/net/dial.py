"""Dialling: names are looked up and sockets made under the guard's eyes, for every connection."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from aiohttp.abc import AbstractResolver, ResolveResult

from trawlnet.net.guard import Guard, Refused


@dataclass(frozen=True, slots=True)
class Pools:
    """How many connections there may be. Waiting for a free one counts against the request's
    deadline, so `total` is at least the number of workers and `per_host` the lane's concurrency."""

    total: int = 1024  # In use.
    per_host: int = 32  # In use.
    idle_hosts: int = 512  # Hosts with connections kept open between requests.
    idle: float = 15.0  # Seconds that a connection is kept for.
    names: int = 10_000  # Addresses remembered.
    names_for: int = 60  # Seconds.
    lookups: int = 32  # Names looked up at a time.


class Dialled:
    """Whether a request opened a connection, or went over one that was kept."""

    __slots__ = ("fresh",)

    def __init__(self) -> None:
        self.fresh = False


# Sockets are made deep inside the library; the context says for which request.
dialled: ContextVar[Dialled] = ContextVar("dialled")


def guarded_socket(guard: Guard) -> Callable[[Any], socket.socket]:
    """Sees the final address, also that of a URL with an address in it, which no resolver sees."""

    def make(info: Any) -> socket.socket:
        family, kind, protocol, _, sockaddr = info
        guard.check_address(sockaddr[0], sockaddr[1])
        dialled.get().fresh = True
        return socket.socket(family, kind, protocol)

    return make


class GuardedResolver(AbstractResolver):
    """Looks names up in threads of its own, and tells only of addresses that we may reach."""

    def __init__(self, guard: Guard, pools: Pools, deadline: float) -> None:
        self._guard = guard
        self._deadline = deadline
        self._threads = ThreadPoolExecutor(pools.lookups, thread_name_prefix="lookup")

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        loop = asyncio.get_running_loop()
        lookup = loop.run_in_executor(self._threads, _lookup, host, port, family)
        try:
            infos = await asyncio.wait_for(lookup, self._deadline)
        except TimeoutError:
            raise OSError(f"no address for {host} within {self._deadline:g} s") from None
        return permitted(self._guard, host, port, infos)

    async def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)


_MOST_ADDRESSES = 8  # Of one name; each may take a whole connect deadline to fail.


def _lookup(host: str, port: int, family: socket.AddressFamily) -> list[tuple[Any, ...]]:
    try:
        return socket.getaddrinfo(
            host, port, family, socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG
        )
    except UnicodeError as error:
        raise OSError(f"{host} is not a name that can be looked up") from error


def permitted(
    guard: Guard, host: str, port: int, infos: Sequence[tuple[Any, ...]]
) -> list[ResolveResult]:
    """The addresses that the guard lets through. Raises Refused when there is none."""
    addresses = dict.fromkeys((info[0], str(info[4][0])) for info in infos)
    fine = [pair for pair in addresses if guard.refusal(pair[1], port) is None]
    if not fine:
        whys = {guard.refusal(address, port) for _, address in addresses}
        raise Refused(f"{host}: {', '.join(sorted(map(str, whys))) or 'no address'}")
    return [
        ResolveResult(
            hostname=host, host=address, port=port, family=family, proto=0, flags=_NUMERIC
        )
        for family, address in fine[:_MOST_ADDRESSES]
    ]


_NUMERIC = socket.AI_NUMERICHOST | socket.AI_NUMERICSERV
