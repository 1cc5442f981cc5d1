"""Dialling: names are looked up and sockets made under the guard's eyes, for every connection."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple

from aiohappyeyeballs import start_connection

from trawlnet.net.guard import Guard
from trawlnet.net.trouble import Unresolved

AddressInfo = tuple[int, int, int, str, tuple[Any, ...]]  # As getaddrinfo has it.


class Endpoint(NamedTuple):
    """Where a connection leads."""

    host: str
    port: int
    is_tls: bool
    proxy: str = ""  # URL of the one in between.

    @property
    def is_tunnel(self) -> bool:
        return self.is_tls and bool(self.proxy)


@dataclass(frozen=True, slots=True)
class Pools:
    """How much is kept between requests. What is in use is bounded by the workers and the gate."""

    kept: int = 512  # Connections.
    idle: float = 15.0  # Seconds that one is kept for.
    names: int = 10_000  # Hosts whose addresses are remembered.
    names_for: float = 60.0  # Seconds.
    lookups: int = 32  # Names looked up at a time.


class GuardedResolver:
    """Looks names up in threads of its own, and tells only of addresses that we may reach."""

    def __init__(self, guard: Guard, pools: Pools, deadline: float) -> None:
        self._guard = guard
        self._pools = pools
        self._deadline = deadline
        self._threads = ThreadPoolExecutor(pools.lookups, thread_name_prefix="lookup")
        self._known: dict[str, tuple[list[AddressInfo], float]] = {}  # And until when.
        self._asked: dict[str, asyncio.Future[list[AddressInfo]]] = {}

    async def resolve(
        self, host: str, port: int = 0, guard: Guard | None = None
    ) -> list[AddressInfo]:
        """Raises Unresolved, or Refused when we may reach none of the addresses."""
        return permitted(guard or self._guard, host, port, await self._infos(host))

    async def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def _infos(self, host: str) -> list[AddressInfo]:
        loop = asyncio.get_running_loop()
        infos, until = self._known.get(host, ([], 0.0))
        if loop.time() < until:
            return infos
        lookup = self._asked.get(host)
        if lookup is None:
            lookup = self._asked[host] = asyncio.ensure_future(
                loop.run_in_executor(self._threads, _lookup, host)
            )
            lookup.add_done_callback(lambda done: self._learn(host, done))
        try:
            # Shielded: whoever gives up does not take the others' answer away.
            return await asyncio.wait_for(asyncio.shield(lookup), self._deadline)
        except TimeoutError:
            raise Unresolved(f"no address for {host} within {self._deadline:g} s") from None

    def _learn(self, host: str, done: asyncio.Future[list[AddressInfo]]) -> None:
        del self._asked[host]
        if done.cancelled() or done.exception() is not None:
            return
        if len(self._known) >= self._pools.names:
            del self._known[next(iter(self._known))]
        until = asyncio.get_running_loop().time() + self._pools.names_for
        self._known[host] = (done.result(), until)


_MOST_ADDRESSES = 8  # Of one name; each may take a whole connect deadline to fail.


def _lookup(host: str) -> list[AddressInfo]:
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG)
    except UnicodeError as error:
        raise Unresolved(f"{host} is not a name that can be looked up") from error
    except OSError as error:
        raise Unresolved(f"no address for {host}: {error.strerror or error}") from error
    return list(found)


def permitted(
    guard: Guard, host: str, port: int, infos: Sequence[AddressInfo]
) -> list[AddressInfo]:
    """The addresses that the guard lets through. Raises Refused when there is none."""
    addresses = list(dict.fromkeys(str(info[4][0]) for info in infos))
    fine = [address for address in addresses if guard.refusal(address, port) is None]
    if not fine:
        whys = {guard.refusal(address, port) for address in addresses}
        why = ", ".join(sorted(map(str, whys))) or "no address"
        raise guard.refused(f"{host}: {why}", addresses)
    return [info_of(address, port) for address in fine[:_MOST_ADDRESSES]]


def info_of(address: str, port: int) -> AddressInfo:
    if ":" in address:
        return (socket.AF_INET6, socket.SOCK_STREAM, 0, "", (address, port, 0, 0))
    return (socket.AF_INET, socket.SOCK_STREAM, 0, "", (address, port))


async def connected(guard: Guard, infos: Sequence[AddressInfo]) -> socket.socket:
    """A socket to whichever of the addresses answers first; a family that does not answer holds
    the other one up for a moment only."""
    return await start_connection(
        infos, happy_eyeballs_delay=_HEAD_START, socket_factory=guarded_socket(guard)
    )


_HEAD_START = 0.25  # Seconds that an address has before the next one is tried as well.


def guarded_socket(guard: Guard) -> Callable[[Any], socket.socket]:
    """Sees the final address, also that of a URL with an address in it, which no resolver sees."""

    def make(info: AddressInfo) -> socket.socket:
        family, kind, protocol, _, sockaddr = info
        guard.check_address(sockaddr[0], sockaddr[1])
        made = socket.socket(family, kind, protocol)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return made

    return make
