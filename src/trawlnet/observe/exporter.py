"""Serves the metrics of a running crawl over HTTP, for Prometheus to scrape."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # Only a crawl that serves its metrics pays for the import of a server.
    from aiohttp import web


class MetricsAddressError(Exception):
    """The address cannot be used."""

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(f"{message}; {hint}")
        self.message = message
        self.hint = hint  # What to type instead.


def parse_address(text: str) -> tuple[str, int]:
    """`HOST:PORT`, `:PORT` or `PORT`; without a host nobody outside this machine can connect."""
    host, colon, port = text.rpartition(":")
    if not port.isascii() or not port.isdigit() or int(port) > 65535 or (colon and "/" in host):
        raise MetricsAddressError(
            f"metrics address {text!r} is not HOST:PORT",
            "write it like --metrics-address 127.0.0.1:9464",
        )
    return host.strip("[]") or "127.0.0.1", int(port)


@asynccontextmanager
async def serving_metrics(
    scrape: Callable[[], Awaitable[bytes]], address: str
) -> AsyncIterator[str]:
    """Serve `/metrics` while the body runs; gives the URL, whose port is the real one for 0."""
    from aiohttp import web
    from prometheus_client import CONTENT_TYPE_LATEST

    host, port = parse_address(address)

    async def metrics(request: web.Request) -> web.Response:
        return web.Response(body=await scrape(), headers={"Content-Type": CONTENT_TYPE_LATEST})

    app = web.Application()
    app.router.add_get("/metrics", metrics)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=_SHUTDOWN)
    await runner.setup()
    try:
        yield await _listen(runner, host, port)
    finally:
        await runner.cleanup()


_SHUTDOWN = 1.0  # Seconds that a scrape in progress has when the crawl ends.


async def _listen(runner: web.AppRunner, host: str, port: int) -> str:
    from aiohttp import web

    try:
        await web.TCPSite(runner, host, port).start()
    except OSError as error:
        raise MetricsAddressError(
            f"cannot serve metrics on {host}:{port}: {os.strerror(error.errno or 0).lower()}",
            f"choose another port, or have one picked: --metrics-address {host}:0",
        ) from error
    bound_host, bound_port, *_ = runner.addresses[0]
    shown_host = f"[{bound_host}]" if ":" in bound_host else bound_host
    return f"http://{shown_host}:{bound_port}/metrics"
