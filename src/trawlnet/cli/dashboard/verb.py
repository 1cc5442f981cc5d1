"""`trawlnet dashboard`: a page about the crawls of a workspace, in a process of its own."""

from __future__ import annotations

import asyncio
import os
import secrets
import socket
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer

from trawlnet.cli.common.errors import Exit, UsageTrouble, explain
from trawlnet.cli.common.flags import Folder, Json, flag
from trawlnet.cli.common.output import emit, say
from trawlnet.cli.common.verb import READS, Verb
from trawlnet.cli.common.workspace import find
from trawlnet.cli.crawl.serving import serve_until_signal
from trawlnet.cli.dashboard.places import fleets_of, places_of
from trawlnet.cli.pds.serve import listen_on, registry_app, url_of
from trawlnet.engine.ports import Clock
from trawlnet.loading import load
from trawlnet.net.clock import SystemClock
from trawlnet.net.loop import new_loop
from trawlnet.net.redact import redact
from trawlnet.net.server.http import server_for
from trawlnet.observe.dashboard.app import DashboardSite, closed, make_app
from trawlnet.observe.dashboard.board import Board
from trawlnet.observe.dashboard.door import DoorKeys, is_loopback
from trawlnet.observe.logs.writer import logging_to

TOKEN = "TRAWLNET_DASHBOARD_TOKEN"  # noqa: S105 - the name of a variable.
_SHORTEST_TOKEN = 16  # Characters.
_SWEEP_EVERY = 1.0

Host = Annotated[
    str,
    flag(
        "--host ADDRESS",
        "Address to listen on; any but loopback needs a token.",
        envvar="TRAWLNET_DASHBOARD_HOST",
    ),
]
Port = Annotated[
    int,
    flag(
        "--port N",
        "Port to listen on; 0 picks a free one.",
        min=0,
        max=65535,
        envvar="TRAWLNET_DASHBOARD_PORT",
    ),
]
Token = Annotated[
    str,
    flag(
        "--token TEXT",
        "Token that opens the dashboard; better set as " + TOKEN + ".",
        envvar=TOKEN,
        show_default=False,
    ),
]
Store = Annotated[
    str,
    flag(
        "--store URL",
        "Redis of a fleet, as redis://HOST:PORT/0; needs no workspace.",
        envvar="TRAWLNET_DASHBOARD_STORE",
        show_default=False,
    ),
]
WhilePid = Annotated[int, typer.Option(metavar="PID", hidden=True, help="End with this parent.")]


def dashboard(
    workspace: Folder,
    host: Host = "127.0.0.1",
    port: Port = 8080,
    token: Token = "",
    store: Store = "",
    json: Json = False,
    while_pid: WhilePid = 0,
) -> int:
    """Serve a web page about the crawls of a workspace.

    Works whether a crawl is running or not, until SIGTERM. While nobody looks at the page, it
    costs a crawl nothing.
    """
    if not store:
        find(workspace, "repos")
    if not token and not is_loopback(host):
        raise UsageTrouble(
            f"--host {host}: others can reach this address, and there is no token",
            f"make one: export {TOKEN}=$(openssl rand -hex 16); or leave --host out",
        )
    if token and len(token) < _SHORTEST_TOKEN:
        raise UsageTrouble(
            f"the token has {len(token)} characters",
            f"use {_SHORTEST_TOKEN} or more, such as from: openssl rand -hex 16",
        )
    keys = DoorKeys(host, token, secrets.token_bytes(32))
    fleets = fleets_of(workspace, store)
    if not fleets:
        places_of(workspace, SystemClock())  # Raises now if there is nothing to show.
    subject = _Subject(workspace, fleets)
    return _run(subject, (host, port), keys, json, while_pid)


@dataclass(frozen=True, slots=True)
class _Subject:
    """The crawls that the page shows."""

    path: Path
    fleets: Mapping[str, str]  # Crawler -> address of its Redis.

    @property
    def name(self) -> str:
        if self.path.is_dir() or not self.fleets:
            return self.path.resolve().name
        return redact(next(iter(self.fleets.values())))


def _run(subject: _Subject, at: tuple[str, int], keys: DoorKeys, as_json: bool, parent: int) -> int:
    name = f"dashboard-{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{os.getpid()}"
    logs = subject.path / "logs"
    with (
        listen_on(*at) as sock,
        logging_to(logs, name, say) if subject.path.is_dir() else nullcontext(),
        asyncio.Runner(loop_factory=new_loop) as runner,
    ):
        if as_json:
            emit({"url": url_of(sock)})
        say(f"dashboard on {url_of(sock)}")
        runner.run(_serve(subject, sock, keys, parent))
    return Exit.DONE


def _fleet_places(subject: _Subject, clock: Clock) -> list[Any]:
    if not subject.fleets:
        return []
    place = load("trawlnet.cli.dashboard.fleet:FleetPlace")  # Needs Redis, an extra.
    return [place(url, crawler, clock, subject.path) for crawler, url in subject.fleets.items()]


async def _serve(subject: _Subject, sock: socket.socket, keys: DoorKeys, parent: int) -> None:
    clock = SystemClock()
    fleets = _fleet_places(subject, clock)
    board = Board(lambda: places_of(subject.path, clock, fleets), clock)
    async with _inner(subject.path, board.places) as inner:
        site = DashboardSite(board, keys, subject.name, lambda: server.should_exit, inner)
        server = server_for(make_app(site))
        sweeping = asyncio.create_task(_sweep(board, server, parent))
        try:
            await serve_until_signal(server, [sock])
        finally:
            sweeping.cancel()
            await asyncio.gather(sweeping, return_exceptions=True)
            _sweep_once(board)
            for fleet in fleets:
                await fleet.close()
    say("dashboard stopped")


async def _sweep(board: Board, server: Any, parent: int) -> None:
    """Remove the control files of finished crawls; and end with the parent process, even if it was
    killed."""
    while True:
        _sweep_once(board)
        if parent and os.getppid() != parent:
            server.should_exit = True
        await asyncio.sleep(_SWEEP_EVERY)


def _sweep_once(board: Board) -> None:
    for place in board.places.values():
        place.sweep()


@asynccontextmanager
async def _inner(path: Path, places: Collection[str]) -> AsyncIterator[Mapping[str, Any]]:
    """The apps inside this one: the registry's page, if there is a registry."""
    async with AsyncExitStack() as stack:
        inner: dict[str, Any] = {}
        if "pds" in places:
            inner["/registry"] = await stack.enter_async_context(_registry(path))
        yield inner


@asynccontextmanager
async def _registry(path: Path) -> AsyncIterator[Any]:
    """The registry's app, or a page that says why it cannot be served."""
    async with AsyncExitStack() as stack:
        try:
            app = await stack.enter_async_context(registry_app(path))
        except Exception as error:
            known = explain(error)
            if known is None:
                raise
            app = closed("The registry is closed", f"{known.message}; {known.hint}.")
        yield app


DASHBOARD = Verb(dashboard, "dashboard -w ./net --port 8080", READS)
