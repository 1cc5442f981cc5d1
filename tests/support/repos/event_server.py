"""`repos serve` in the loop of a test, on a real socket."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from websockets.asyncio.client import ClientConnection, connect

from trawlnet.crawlers.repos.serving.app import make_app
from trawlnet.crawlers.repos.serving.subscriber import EventSite, open_event_site
from trawlnet.net.clock import SystemClock
from trawlnet.net.server.http import listening, server_for
from trawlnet.net.server.websocket import BoundedWebSocket


class ImpatientWebSocket(BoundedWebSocket):
    stall_seconds = 1.0


class Served:
    def __init__(self, site: EventSite, port: int) -> None:
        self.site = site
        self.host = f"127.0.0.1:{port}"

    def subscribe(self, query: str = "", **options: object) -> connect:
        url = f"ws://{self.host}/subscribe?{query}"
        return connect(url, compression=None, max_size=1 << 24, **options)  # type: ignore[arg-type]


@asynccontextmanager
async def event_server(workspace: Path, most_clients: int = 10) -> AsyncIterator[Served]:
    site = await open_event_site(workspace, SystemClock(), most_clients)
    sock = listening("127.0.0.1", 0)
    server = server_for(make_app(site), sockets=ImpatientWebSocket)
    async with asyncio.TaskGroup() as group:
        tailing = group.create_task(site.tail.run())
        serving = group.create_task(server.serve([sock]))
        try:
            yield Served(site, sock.getsockname()[1])
        finally:
            server.should_exit = True
            await serving
            tailing.cancel()
    sock.close()


async def texts(client: ClientConnection, count: int) -> list[str]:
    return [str(await client.recv()) for _ in range(count)]
