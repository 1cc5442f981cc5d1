"""Who waits in Redis to take over from whoever is active; each says so again and again."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from redis.asyncio import Redis

from trawlnet.stores.redis.scripts import Scripts, connect


class StandbyKeys:
    """For prefixes with few keys: all of them are looked through."""

    def __init__(self, url: str, prefix: str) -> None:
        self._client: Redis = connect(url)
        self._scripts = Scripts(self._client, url, prefix, ())
        self._prefix = f"{prefix}standby:".encode()

    async def wait(self, name: str, row: Mapping[str, Any], stands: float) -> None:
        """To be said again before so many seconds are over."""
        told = json.dumps({"name": name, **row})
        await self._scripts.ask("SET", f"standby:{name}", told, "PX", int(stands * 1000))

    async def leave(self, name: str) -> None:
        await self._scripts.ask("DEL", f"standby:{name}")

    async def waiting(self) -> list[Mapping[str, Any]]:
        found: list[Mapping[str, Any]] = []
        async for keys in self._scripts.names():
            for key in keys:
                name = key.removeprefix(self._prefix)
                if name != key and (
                    told := await self._scripts.ask("GET", f"standby:{name.decode()}")
                ):
                    found.append(json.loads(told))
        return sorted(found, key=lambda row: str(row["name"]))

    async def close(self) -> None:
        await self._client.aclose()
