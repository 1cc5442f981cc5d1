"""A world served from a thread of the test: a machine that has no time for whoever kills crawls
has none for what they crawl, either, so that no crawl is done before it is killed."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar


class World(Protocol):
    async def close(self) -> None: ...


W = TypeVar("W", bound=World)


@contextmanager
def in_thread(making: Coroutine[Any, Any, W]) -> Iterator[W]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        world = asyncio.run_coroutine_threadsafe(making, loop).result()
        try:
            yield world
        finally:
            asyncio.run_coroutine_threadsafe(world.close(), loop).result()
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()
