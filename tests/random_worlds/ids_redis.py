"""The ledger of a killed crawl in a private Redis: each process takes it over under a token."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

from redis import Redis

from tests.support.servers import RedisServer
from trawlnet.crawlers.ids.storing.locations import KEYS
from trawlnet.crawlers.share import ShardOwnership
from trawlnet.engine.partition import BUCKETS
from trawlnet.stores.lmdb.spans import SpanFile
from trawlnet.stores.redis.fleet.shards import FleetKeys, FleetPlan, Word
from trawlnet.stores.redis.spans import SpanKeys
from trawlnet.stores.spans import Span

_STANDS = 3600.0  # Seconds of the real clock: nobody else claims it.


@dataclass
class RedisHome:
    server: RedisServer
    spans_class: type[SpanFile | SpanKeys] = SpanKeys
    restarts: int = 0
    _past: list[str] = field(default_factory=list)  # Tokens of those who died.

    @classmethod
    def emptied(cls, server: RedisServer) -> RedisHome:
        with closing(Redis.from_url(server.url)) as client:
            client.flushall()
        return cls(server)

    def config(self) -> Mapping[str, Any]:
        return {"redis_address": self.server.url}

    def mandate(self) -> ShardOwnership:
        self._past.append(asyncio.run(self._claim()))
        return ShardOwnership(self._past[-1])

    def restart(self) -> None:
        self.restarts += 1
        self.server.kill()
        self.server.start()

    def spans(self) -> list[Span]:
        with closing(SpanKeys(self.server.url, KEYS)) as keys:
            return list(keys.spans())

    async def _claim(self) -> str:
        keys = await FleetKeys.open(self.server.url, shard=0, prefix=KEYS)
        try:
            plan = await keys.plan()
            if plan == FleetPlan():
                plan = await keys.change(run=1, shards=1, word=Word.RUN)
            claim = await keys.claim(plan, range(BUCKETS), self._past, _STANDS)
            assert claim is not None and claim.granted
            return keys.token
        finally:
            await keys.close()
