"""A server that runs until it is interrupted; apart from the other signals, as few verbs serve."""

from __future__ import annotations

import socket

from uvicorn import Server

from trawlnet.cli.crawl.signals import interruptible


async def serve_until_signal(server: Server, sockets: list[socket.socket]) -> None:
    """The first signal lets the server finish open requests, the second closes them."""

    def first() -> str:
        server.should_exit = True
        return "finishing open requests"

    def second() -> None:
        server.force_exit = True

    with interruptible(first, second):
        await server.serve(sockets)
