"""The standbys of an active process, in Redis; each renews its entry."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from redis.asyncio import Redis

from trawlnet.stores.redis.scripts import Scripts, connect


class StandbyKeys:
    """For prefixes with few keys: it scans all of them."""

    def __init__(self, url: str, prefix: str) -> None:
        self._client: Redis = connect(url)
        self._scripts = Scripts(self._client, url, prefix, ())
        self._prefix = f"{prefix}standby:".encode()

    async def wait(self, name: str, row: Mapping[str, Any], stands: float) -> None:
        """Enter a standby for `stands` seconds; call this again before they are over."""
        entry = json.dumps({"name": name, **row})
        await self._scripts.ask("SET", f"standby:{name}", entry, "PX", int(stands * 1000))

    async def leave(self, name: str) -> None:
        await self._scripts.ask("DEL", f"standby:{name}")

    async def waiting(self) -> list[Mapping[str, Any]]:
        found: list[Mapping[str, Any]] = []
        async for keys in self._scripts.names():
            for key in keys:
                name = key.removeprefix(self._prefix)
                if name != key and (
                    entry := await self._scripts.ask("GET", f"standby:{name.decode()}")
                ):
                    found.append(json.loads(entry))
        return sorted(found, key=lambda row: str(row["name"]))

    async def close(self) -> None:
        await self._client.aclose()
