"""A registry served on loopback as `pds serve` does, and a small world of hosts to register."""

from __future__ import annotations

import asyncio
import base64
import http.client
import json
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping
from concurrent.futures import Future
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from aiohttp import web

from tests.support.program import PATIENCE
from trawlnet.atproto.cid import cid_of
from trawlnet.atproto.identity.keys import Curve
from trawlnet.crawlers.pds.build import open_kit, scan_parts
from trawlnet.crawlers.pds.config import PdsConfig
from trawlnet.crawlers.pds.site.app import make_app
from trawlnet.crawlers.pds.site.context import SiteContext
from trawlnet.crawlers.pds.site.serving import Door, open_site
from trawlnet.net.clock import SystemClock
from trawlnet.net.server.http import listening, server_for
from trawlnet.observe.metrics.crawl import CrawlMetrics
from trawlnet.sim.private_key import PrivateKey
from trawlnet.sim.serve import Call, bind_ports, serve
from trawlnet.tables.registry.registry import Registry

T = TypeVar("T")
METHOD = "pub.chive.sync.registerPDS"
SERVICE = "did:web:registry.test"
CID = str(cid_of(b"some block"))
WIDE_OPEN: Mapping[str, Any] = {
    "service_did": SERVICE,
    "registrations_per_minute": 10_000,
    "hosts_per_hour": 1000,
    "visits_per_minute": 100_000,
}
KINDS = (
    "pds",
    "other_pds",
    "relay",
    "listing",
    "html",
    "redirect",
    "canary",
    "huge",
    "error",
    "busy",
    "plc",
)


@dataclass
class World:
    """Hosts by what they are, each at a loopback URL; `plc` is the directory."""

    urls: dict[str, str] = field(default_factory=dict)
    documents: dict[str, Any] = field(default_factory=dict)
    asked: Counter[str] = field(default_factory=Counter)
    # What the accounts of every PDS have, by DID and collection.
    records: dict[str, dict[str, list[Any]]] = field(default_factory=dict)

    async def answer(self, call: Call) -> web.StreamResponse:
        kind = next(one for one, url in self.urls.items() if url.endswith(f":{call.port}"))
        path = call.request.path
        self.asked[kind] += 1
        if kind == "plc":
            document = self.documents.get(path.removeprefix("/"))
            return web.json_response(document) if document else web.Response(status=404)
        if (did := call.request.query.get("repo") or call.request.query.get("did")) is not None:
            return self._about(did, path.rpartition(".")[2], call.request.query)
        if path.endswith("listHosts") and kind != "listing":
            return web.json_response({"error": "MethodNotImplemented"}, status=501)
        if path.endswith("listHosts"):
            return web.json_response({"hosts": [{"hostname": "pds.test"}]})
        if kind == "html":
            return web.Response(text="<h1>Welcome</h1>", content_type="text/html")
        if kind == "redirect":
            raise_to = f"{self.urls['canary']}{path}"
            return web.Response(status=302, headers={"Location": raise_to})
        if kind == "huge":
            return web.Response(
                body=b'{"did": "did:web:x.test", "pad": "' + b"x" * (1 << 20) + b'"}'
            )
        if kind == "busy":
            return web.Response(status=429, headers={"Retry-After": "120"})
        if kind == "error":
            return web.Response(status=500)
        headers = {"Server": "atproto-relay/1.2"} if kind == "relay" else {}
        described = {"did": "did:web:localhost", "availableUserDomains": [".test"]}
        return web.json_response(described, headers=headers)

    def _about(self, did: str, method: str, query: Mapping[str, str]) -> web.Response:
        kept = self.records.get(did)
        if kept is None:
            return web.json_response({"error": "RepoNotFound", "message": did}, status=400)
        match method:
            case "getLatestCommit":
                return web.json_response({"cid": CID, "rev": "3lscuqc52or2x"})
            case "describeRepo":
                return web.json_response({"did": did, "handle": "a.test", "collections": [*kept]})
            case _:
                collection = query["collection"]
                rows = [
                    {"uri": f"at://{did}/{collection}/3lscuqc52or{n}x", "cid": CID, "value": value}
                    for n, value in enumerate(kept[collection], start=2)
                ]
                return web.json_response({"records": rows})


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Running:
    url: str
    port: int
    world: World
    site: SiteContext
    registry: Registry
    loop: asyncio.AbstractEventLoop
    scans: list[tuple[str, str]]

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(PATIENCE)

    def ask(
        self, method: str, path: str, body: bytes = b"", headers: Mapping[str, str] | None = None
    ) -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        try:
            connection.request(method, path, body or None, dict(headers or {}))
            response = connection.getresponse()
            return Answer(response.status, dict(response.getheaders()), response.read())
        finally:
            connection.close()

    def register(self, url: object, **headers: str) -> Answer:
        body = json.dumps({"pdsUrl": url}).encode()
        said = {"Content-Type": "application/json", **headers}
        return self.ask("POST", f"/xrpc/{METHOD}", body, said)


Scan = Callable[[str, str], Awaitable[int]]


@contextmanager
def serving(
    where: Path | str,
    *,
    scan: Scan | None = None,
    proxies: tuple[str, ...] = (),
    seed: Callable[[Registry, float], Awaitable[None]] | None = None,
    allow_private: bool = True,
    **door: Any,
) -> Iterator[Running]:
    """The whole service in a thread of its own: real sockets, a real registry."""
    ready: Future[Running] = Future()
    over = threading.Event()
    opened = Door(**{**WIDE_OPEN, **door})
    thread = threading.Thread(
        target=lambda: asyncio.run(
            _serve(where, scan, proxies, seed, allow_private, opened, ready, over)
        )
    )
    thread.start()
    try:
        yield ready.result(PATIENCE)
    finally:
        over.set()
        thread.join(PATIENCE)
        assert not thread.is_alive()


async def _serve(
    where: Path | str,
    scan: Scan | None,
    proxies: tuple[str, ...],
    seed: Callable[[Registry, float], Awaitable[None]] | None,
    allow_private: bool,
    door: Door,
    ready: Future[Running],
    over: threading.Event,
) -> None:
    try:
        async with AsyncExitStack() as stack:
            clock = SystemClock()
            world = await _open_world(stack, clock)
            config = PdsConfig.model_validate(
                {
                    "registry": str(where),
                    # Who may not ask loopback needs a directory by a name; this leads nowhere.
                    "plc_url": world.urls["plc"] if allow_private else "https://plc.atproto.garden",
                    "allow_private_hosts": allow_private,
                    "requests_per_minute": 6000,
                    "contact": "nobody@private.invalid",
                }
            )
            metrics = CrawlMetrics("pds", clock)
            kit = await stack.enter_async_context(open_kit(config, Path(), clock, metrics))
            if seed is not None:
                await seed(kit.registry, clock.now())
            scans: list[tuple[str, str]] = []

            async def noted(url: str, did: str, deadline: float) -> int:
                scans.append((url, did))
                return await scan(url, did) if scan else 0

            site = open_site(kit, await scan_parts(kit), door, noted)
            sock = listening("127.0.0.1", 0)
            port = sock.getsockname()[1]
            server = server_for(make_app(site), proxies)
            task = asyncio.create_task(server.serve([sock]))
            loop = asyncio.get_running_loop()
            ready.set_result(
                Running(f"http://127.0.0.1:{port}", port, world, site, kit.registry, loop, scans)
            )
            await asyncio.to_thread(over.wait)
            server.should_exit = True
            await task
    except BaseException as error:
        if not ready.done():
            ready.set_exception(error)
        raise


@contextmanager
def hosts() -> Iterator[World]:
    """The world alone, for a program that runs elsewhere."""
    ready: Future[World] = Future()
    over = threading.Event()

    async def stay() -> None:
        async with AsyncExitStack() as stack:
            ready.set_result(await _open_world(stack, SystemClock()))
            await asyncio.to_thread(over.wait)

    thread = threading.Thread(target=lambda: asyncio.run(stay()))
    thread.start()
    try:
        yield ready.result(PATIENCE)
    finally:
        over.set()
        thread.join(PATIENCE)


async def _open_world(stack: AsyncExitStack, clock: SystemClock) -> World:
    world = World()
    sockets = bind_ports(len(KINDS))
    for kind, sock in zip(KINDS, sockets, strict=True):
        world.urls[kind] = f"http://127.0.0.1:{sock.getsockname()[1]}"
    served = await serve(world.answer, sockets, clock=clock)
    stack.push_async_callback(served.close)
    return world


@dataclass(frozen=True)
class Account:
    """Somebody with a DID, a key and a PDS."""

    did: str
    key: PrivateKey
    pds: str

    @property
    def document(self) -> dict[str, Any]:
        method = {"id": f"{self.did}#atproto", "type": "Multikey", "controller": self.did}
        service = {"id": "#atproto_pds", "type": "AtprotoPersonalDataServer"}
        return {
            "id": self.did,
            "verificationMethod": [method | {"publicKeyMultibase": self.key.public.multibase}],
            "service": [service | {"serviceEndpoint": self.pds}],
        }

    def token(self, now: float, *, header: Mapping[str, Any] | None = None, **claims: Any) -> str:
        alg = "ES256" if self.key.curve is Curve.P256 else "ES256K"
        head = {"typ": "JWT", "alg": alg} | dict(header or {})
        usual = {"iss": self.did, "aud": SERVICE, "lxm": METHOD, "iat": int(now)}
        said = usual | {"exp": int(now) + 60, "jti": "first"} | claims
        kept = {name: value for name, value in said.items() if value is not None}
        signed = f"{_part(json.dumps(head).encode())}.{_part(json.dumps(kept).encode())}"
        return f"{signed}.{_part(self.key.sign(signed.encode()))}"


def _part(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def account(number: int, pds: str, curve: Curve = Curve.K256) -> Account:
    return Account(f"did:plc:{'abcdefgh'[number] * 24}", PrivateKey(curve, 1000 + number), pds)
