"""The firehoses of a crawl of PDSes: those of relays, or else of the PDSes that it knows."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from trawlnet.crawlers.atproto.streams.subscription import Dialler, Subscription
from trawlnet.crawlers.atproto.streams.upstream import Upstream
from trawlnet.crawlers.pds.following.hints import HintBatch
from trawlnet.crawlers.pds.following.stream_reader import HintReader
from trawlnet.crawlers.pds.schedule import RegistryStore
from trawlnet.engine.control import Control
from trawlnet.tables.registry.looks import RegistryLooks

_EVERY = 5.0  # Seconds between two looks at which PDSes there are.


class Firehoses:
    def __init__(
        self, reader: HintReader, dialler: Dialler, relays: Sequence[str], *, from_start: bool
    ) -> None:
        self.reader = reader
        self._dialler = dialler
        self._from_start = from_start
        self._streams = {
            url: self._stream(Upstream(url, is_pds=False)) for url in dict.fromkeys(relays)
        }

    def _stream(self, upstream: Upstream) -> Subscription[HintBatch]:
        return Subscription(upstream, self._dialler, self.reader, from_start=self._from_start)

    @property
    def began(self) -> Sequence[asyncio.Event]:
        return [one.began for one in self._streams.values()]

    async def run(self, control: Control) -> None:
        async with asyncio.TaskGroup() as group:
            for one in self._streams.values():
                group.create_task(one.run(control))

    async def run_pdses(
        self, control: Control, looks: RegistryLooks, store: RegistryStore, most: int
    ) -> None:
        """Of PDSes that answer, `most` at a time; which ones changes while the crawl runs."""
        running: dict[str, asyncio.Task[None]] = {}
        async with asyncio.TaskGroup() as group:
            while True:
                urls = await store.patiently(lambda: looks.sure_places(most))
                for url in [url for url in running if url not in urls]:
                    running.pop(url).cancel()
                    del self._streams[url]
                for url in [url for url in urls if url not in running]:
                    one = self._streams[url] = self._stream(Upstream(url, is_pds=True))
                    running[url] = group.create_task(one.run(control))
                await self._dialler.clock.sleep(_EVERY)

    def behind(self) -> float | None:
        """Seconds, of the one that is furthest behind; None before any has said something."""
        now = self._dialler.clock.now()
        found = [one.behind(now) for one in self._streams.values()]
        return max((seconds for seconds in found if seconds is not None), default=None)

    def troubles(self) -> dict[str, str]:
        streams = self._streams.values()
        return {one.upstream.host: one.trouble for one in streams if one.trouble}

    @property
    def connected(self) -> int:
        return sum(one.is_connected for one in self._streams.values())
