"""`trawlnet repos serve`: what happens to repositories, for WebSocket clients."""

from __future__ import annotations

import asyncio
import socket
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

from trawlnet.archive.reader import check_versions
from trawlnet.cli.common.errors import Exit
from trawlnet.cli.common.flags import Folder, Json, flag
from trawlnet.cli.common.output import emit, say
from trawlnet.cli.common.verb import READS, Verb
from trawlnet.cli.common.workspace import find
from trawlnet.cli.crawl.serving import serve_until_signal
from trawlnet.cli.pds.serve import Host, Port, listen_on, url_of
from trawlnet.crawlers.repos.serving.app import make_app
from trawlnet.crawlers.repos.serving.subscriber import open_event_site
from trawlnet.net.clock import SystemClock
from trawlnet.net.loop import new_loop
from trawlnet.net.server.http import server_for
from trawlnet.net.server.websocket import BoundedWebSocket
from trawlnet.observe.logs.writer import logging_to

_PORT = 6008  # As Jetstream has it.

MostClients = Annotated[
    int, flag("--max-clients N", "Most clients connected at the same time.", min=1, max=900)
]


def serve(
    *,
    workspace: Folder,
    host: Host = "127.0.0.1",
    port: Port = _PORT,
    max_clients: MostClients = 100,
    json: Json = False,
) -> int:
    """Serve events as JSON over WebSockets, as Jetstream does, to its clients.

    Reads the event log and the archive, beside a crawl that follows or without one, until SIGTERM.
    A client whose cursor is older than the log gets the archive first.
    """
    place = find(workspace, "repos")
    check_versions(place.path / "archive")
    name = f"events-{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
    with (
        listen_on(host, port) as sock,
        logging_to(place.logs, name, say),
        asyncio.Runner(loop_factory=new_loop) as runner,
    ):
        runner.run(_serve(place.path, sock, max_clients, json))
    return Exit.DONE


async def _serve(path: Path, sock: socket.socket, max_clients: int, as_json: bool) -> None:
    site = await open_event_site(path, SystemClock(), max_clients)
    url = url_of(sock).replace("http", "ws", 1) + "/subscribe"
    async with asyncio.TaskGroup() as group:
        following = group.create_task(site.tail.run())
        if as_json:
            emit({"url": url})
        say(f"serving events on {url}")
        await serve_until_signal(server_for(make_app(site), sockets=BoundedWebSocket), [sock])
        following.cancel()
    say("stopped")


SERVE = Verb(serve, "repos serve -w ./net --port 6008", READS, "repos")
