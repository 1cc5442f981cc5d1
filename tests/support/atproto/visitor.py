"""A client of a simulated ATProto world, with the truth about it at hand."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import aiohttp
from multidict import CIMultiDictProxy

from trawlnet.sim.atproto import AtprotoWorld, serve_atproto

XRPC = "/xrpc/com.atproto."
T = TypeVar("T")


class Visitor:
    """A client of one world, with the truth at hand."""

    def __init__(self, world: AtprotoWorld, session: aiohttp.ClientSession) -> None:
        self.world = world
        self.session = session
        self.truth = json.loads(world.manifest.read_text())
        self.dids: dict[str, dict[str, Any]] = self.truth["dids"]

    async def get(self, url: str, **params: Any) -> tuple[int, CIMultiDictProxy[str], bytes]:
        async with self.session.get(url, params=params, allow_redirects=False) as response:
            return response.status, response.headers, await response.read()

    async def json(self, url: str, **params: Any) -> tuple[int, Any]:
        status, _, body = await self.get(url, **params)
        return status, json.loads(body)

    async def call(self, pds: str, method: str, **params: Any) -> tuple[int, Any]:
        return await self.json(f"{pds}{XRPC}{method}", **params)

    async def car(self, did: str, pds: str | None = None, **params: Any) -> bytes:
        url = f"{pds or self.dids[did]['pds']}{XRPC}sync.getRepo"
        status, headers, body = await self.get(url, did=did, **params)
        assert status == 200, body
        assert headers["Content-Type"] == "application/vnd.ipld.car"
        return body

    async def document(self, did: str) -> Any:
        if did.startswith("did:web:"):
            host = did.removeprefix("did:web:").replace("%3A", ":")
            return (await self.json(f"http://{host}/.well-known/did.json"))[1]
        return (await self.json(f"{self.world.plc}/{did}"))[1]

    def some(self, **wanted: object) -> list[str]:
        return [
            did
            for did, row in self.dids.items()
            if all(row.get(name) == value for name, value in wanted.items())
        ]


def visit(
    test: Callable[[Visitor], Awaitable[T]], seed: int = 11, **options: Any
) -> Callable[[Path], T]:
    """Run an async test against a world of its own."""

    async def run(folder: Path) -> T:
        async with open_world(folder, seed, **options) as visitor:
            return await test(visitor)

    return lambda folder: asyncio.run(run(folder))


@asynccontextmanager
async def open_world(folder: Path, seed: int = 11, **options: Any) -> AsyncIterator[Visitor]:
    world = await serve_atproto(seed, manifest=Path(folder) / f"manifest-{seed}.json", **options)
    try:
        async with aiohttp.ClientSession() as session:
            yield Visitor(world, session)
    finally:
        await world.close()
