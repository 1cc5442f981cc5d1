"""An Http over loopback for tests, with a gate that lets everybody through and keeps the books."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

from tests.support.net.hostile_server import HostileServer, Script, hostile
from trawlnet.net.agent import user_agent
from trawlnet.net.client.answer import RequestLimits
from trawlnet.net.clock import SystemClock
from trawlnet.net.guard import Guard
from trawlnet.net.http import Http

AGENT = user_agent("https://example.org/crawler")
T = TypeVar("T")


@dataclass
class CountedTurns:
    lanes: list[str] = field(default_factory=list)
    inside: int = 0
    left: int = 0  # Requests that went out over a connection.

    @asynccontextmanager
    async def turn(self, lane: str) -> AsyncIterator[CountedTurns]:
        self.lanes.append(lane)
        self.inside += 1
        try:
            yield self
        finally:
            self.inside -= 1

    async def leave(self) -> None:
        self.left += 1


@dataclass
class Visit:
    """One server, one client, and what passed between them."""

    http: Http
    server: HostileServer
    turns: CountedTurns

    async def get(self, path: str = "/", **options: Any) -> Any:
        return await self.http.get(self.server.url(path), **options)


def visit(
    script: Script,
    act: Callable[[Visit], Awaitable[T]],
    *,
    limits: RequestLimits | None = None,
    guard: Guard | None = None,
    new_loop: Callable[[], asyncio.AbstractEventLoop] | None = None,
    **options: Any,
) -> T:
    """Run `act` against a server that follows `script`. However it ended, every request must
    have had exactly one turn, and every turn must have ended."""

    async def run() -> T:
        async with hostile(script) as server:
            turns = CountedTurns()
            policy = guard or Guard(exempt=frozenset({("127.0.0.1", server.port)}))
            bounds = limits or RequestLimits(total=30.0)  # Only a test that fails waits that long.
            http = Http(turns, SystemClock(), AGENT, guard=policy, limits=bounds, **options)
            async with http:
                result = await act(Visit(http, server, turns))
            assert turns.inside == 0
            # Where a connection is refused or the URL forbidden, a turn sees no request.
            assert server.requests <= len(turns.lanes)
            return result

    with asyncio.Runner(loop_factory=new_loop) as runner:
        return runner.run(asyncio.wait_for(run(), 60.0))
