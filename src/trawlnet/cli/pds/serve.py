"""`trawlnet pds serve`: the registry on the web, for programs and for people."""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from ipaddress import ip_network
from pathlib import Path
from typing import Annotated, Any

from starlette.types import ASGIApp

from trawlnet.atproto.syntax import is_did
from trawlnet.cli.common.errors import CliError, Exit, UsageTrouble
from trawlnet.cli.common.flags import Folder, Json, flag
from trawlnet.cli.common.output import emit, say
from trawlnet.cli.common.sections import load_section
from trawlnet.cli.common.verb import READS, Verb
from trawlnet.cli.common.workspace import Workspace, create
from trawlnet.cli.crawl.serving import serve_until_signal
from trawlnet.crawlers.pds.build import open_kit, scan_parts
from trawlnet.crawlers.pds.config import PdsConfig
from trawlnet.crawlers.pds.site.app import make_app
from trawlnet.crawlers.pds.site.serving import Door, open_site
from trawlnet.net.clock import SystemClock
from trawlnet.net.loop import new_loop
from trawlnet.net.server.http import listening, server_for
from trawlnet.observe.logs.writer import logging_to
from trawlnet.observe.metrics.crawl import CrawlMetrics

_KEYS = (
    *("registry", "plc_url", "plc_rps", "domain_budget", "collections", "index_tags"),
    *("requests_per_minute", "max_records_per_pds", "allow_private_hosts", "contact"),
)

Host = Annotated[str, flag("--host ADDRESS", "Address to listen on.")]
Port = Annotated[int, flag("--port N", "Port to listen on; 0 picks a free one.", min=0, max=65535)]
ServiceDid = Annotated[
    str,
    flag(
        "--service-did DID",
        "DID that callers' tokens must name as their audience, like did:web:pds.example.",
        show_default=False,
    ),
]
BehindProxy = Annotated[
    list[str] | None,
    flag(
        "--behind-proxy ADDRESS",
        "Address of a proxy whose X-Forwarded-For header is trusted; may be repeated.",
    ),
]
PerAddress = Annotated[
    int, flag("--registrations-per-minute N", "Registrations per minute from one address.", min=1)
]
PerDomain = Annotated[
    int, flag("--hosts-per-hour N", "Hosts of one domain that are checked per hour.", min=1)
]
Visits = Annotated[
    int, flag("--visits-per-minute N", "Requests per minute from one address.", min=1)
]


def serve(
    *,
    workspace: Folder,
    host: Host = "127.0.0.1",
    port: Port = 8080,
    service_did: ServiceDid = "",
    behind_proxy: BehindProxy = None,
    registrations_per_minute: PerAddress = 10,
    hosts_per_hour: PerDomain = 20,
    visits_per_minute: Visits = 300,
    json: Json = False,
    flags: Mapping[str, Any],
) -> int:
    """Serve the registry: a web page, JSON rows, and an endpoint to register a PDS.

    Runs beside a crawl of the same workspace, until SIGTERM.
    """
    config = load_section(Workspace(workspace, "pds"), PdsConfig, flags).config
    if service_did and not is_did(service_did.partition("#")[0]):
        raise UsageTrouble(f"{service_did} is not a DID", "--service-did did:web:pds.example")
    proxies = [_proxy(one) for one in behind_proxy or ()]
    door = Door(service_did, registrations_per_minute, hosts_per_hour, visits_per_minute)
    return _run(config, create(workspace, "pds"), (host, port), door, proxies, json)


def _proxy(text: str) -> str:
    try:
        return str(ip_network(text)) if "/" in text else str(ip_network(text).network_address)
    except ValueError:
        raise UsageTrouble(
            f"--behind-proxy {text}: not an address", "write it like 127.0.0.1 or 10.0.0.0/8"
        ) from None


def _run(
    config: PdsConfig,
    workspace: Workspace,
    at: tuple[str, int],
    door: Door,
    proxies: Sequence[str],
    as_json: bool,
) -> int:
    name = f"registry-{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
    with (
        listen_on(*at) as sock,
        logging_to(workspace.logs, name, say),
        asyncio.Runner(loop_factory=new_loop) as runner,
    ):
        runner.run(_serve(config, workspace.path, sock, door, proxies, as_json))
    return Exit.DONE


async def _serve(
    config: PdsConfig,
    path: Path,
    sock: socket.socket,
    door: Door,
    proxies: Sequence[str],
    as_json: bool,
) -> None:
    clock = SystemClock()
    async with open_kit(config, path, clock, CrawlMetrics("pds", clock)) as kit:
        site = open_site(kit, await scan_parts(kit), door)
        url = url_of(sock)
        if as_json:
            emit({"url": url})
        say(f"serving the registry on {url}")
        await serve_until_signal(server_for(make_app(site), proxies), [sock])
    say("stopped")


@asynccontextmanager
async def registry_app(path: Path) -> AsyncIterator[ASGIApp]:
    """The site as an app inside another one."""
    config, clock = load_section(Workspace(path, "pds"), PdsConfig).config, SystemClock()
    async with open_kit(config, path, clock, CrawlMetrics("pds", clock)) as kit:
        yield make_app(open_site(kit, await scan_parts(kit), Door()))


def listen_on(host: str, port: int) -> socket.socket:
    try:
        return listening(host, port)
    except socket.gaierror:
        raise UsageTrouble(
            f"--host {host}: no such address", "name one of this machine, such as 127.0.0.1"
        ) from None
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise CliError(f"cannot listen on {host}:{port}: {why}", _listen_hint(error)) from None


def _listen_hint(error: OSError) -> str:
    match error.errno:
        case errno.EADDRINUSE:
            return "choose another port: --port 8081, or --port 0 for any free one"
        case errno.EACCES:
            return "choose a port above 1023, such as --port 8080"
        case _:
            return "choose an address of this machine, such as --host 127.0.0.1"


def url_of(sock: socket.socket) -> str:
    host, port, *_ = sock.getsockname()
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


SERVE = Verb(
    serve,
    "pds serve -w ./net --port 8080 --contact you@example.org",
    READS,
    "pds",
    PdsConfig,
    _KEYS,
)
