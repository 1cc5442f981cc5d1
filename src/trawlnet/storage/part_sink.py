"""The sink of a shard: gathers results in a part until it is large or old enough to upload."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from trawlnet.engine.ports import Clock
from trawlnet.engine.task import Task
from trawlnet.storage.errors import SinkUnreachable
from trawlnet.storage.objects import Objects
from trawlnet.storage.s3 import ObjectsError

_PUTS = 3  # Concurrent uploads.


@dataclass(frozen=True, slots=True)
class PartLimits:
    size: int = 32 << 20  # Bytes at which a part is uploaded,
    age: float = 30.0  # or seconds since its first result.
    memory: int = 256 << 20  # Bytes in memory at which further results wait.


@dataclass(frozen=True, slots=True)
class PartForm:
    """How parts of one kind are built: from pieces of any type, one for each result."""

    piece: Callable[[Task, Any], Any]  # Makes the piece of an item; runs off the event loop.
    size: Callable[[Any], int]
    # The objects of a part by name, in the order of their upload; with its time in microseconds.
    objects: Callable[[str, Sequence[Any], int], Sequence[tuple[str, bytes]]]


@dataclass(slots=True)
class _Part:
    name: str
    durable: asyncio.Future[None]
    pieces: list[Any] = field(default_factory=list)
    size: int = 0
    sealed: bool = False
    unsettled: set[str] = field(default_factory=set)  # Keys.


class PartSink:
    """An engine Sink, and the Places that the store asks for the part of a key."""

    def __init__(
        self,
        objects: Objects,
        token: str,
        clock: Clock,
        limits: PartLimits,
        may_put: Callable[[], Awaitable[None]],
        form: PartForm,
    ) -> None:
        """`may_put` raises when the token is no longer valid: then nothing more is uploaded."""
        self._form = form
        self._objects = objects
        self._token = token
        self._clock = clock
        self._limits = limits
        self._may_put = may_put
        self._current: _Part | None = None
        self._places: dict[str, _Part] = {}
        self._puts = asyncio.Semaphore(_PUTS)
        self._tasks: set[asyncio.Task[None]] = set()
        self._begun = 0
        self._held = 0  # Bytes that are not uploaded yet.
        self._less = asyncio.Event()  # Set when `_held` has become less.
        self.parts_put = 0
        self.bytes_put = 0

    async def write(self, batch: Sequence[tuple[Task, Sequence[Any]]]) -> None:
        """Returns when the parts with these results are in the object store."""
        items = [(task, item) for task, found in batch for item in found]
        if not items:
            return
        piece_of = self._form.piece
        pieces = await asyncio.to_thread(lambda: [piece_of(task, item) for task, item in items])
        waiting = {}
        for (task, _), piece in zip(items, pieces, strict=True):
            part = self._add(task.key, piece)
            waiting[part.name] = part.durable
        # Shielded: many batches share a part, which outlives a cancelled caller.
        await asyncio.gather(*map(asyncio.shield, waiting.values()))

    async def room(self) -> None:
        """Returns when there is memory for more results."""
        while self._held > self._limits.memory:
            self._less.clear()
            await self._less.wait()

    @property
    def gathering(self) -> bool:
        """Whether results wait for the upload of their part."""
        return self._current is not None

    def hurry(self) -> None:
        """Upload the gathered results now."""
        if self._current is not None:
            self._seal(self._current)

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def part_of(self, key: str) -> str:
        part = self._places.get(key)
        return "" if part is None else part.name

    def settled(self, keys: Iterable[str]) -> list[str]:
        closed = []
        for key in keys:
            part = self._places.pop(key, None)
            if part is not None:
                part.unsettled.discard(key)
                if part.sealed and not part.unsettled:
                    closed.append(part.name)
        return closed

    def _add(self, key: str, piece: Any) -> _Part:
        part, size = self._current or self._begin(), self._form.size(piece)
        part.pieces.append(piece)
        part.size += size
        self._held += size
        part.unsettled.add(key)
        self._places[key] = part
        if part.size >= self._limits.size:
            self._seal(part)
        return part

    def _begin(self) -> _Part:
        self._begun += 1
        name = f"{self._token}.{self._begun:06d}"
        part = self._current = _Part(name, asyncio.get_running_loop().create_future())
        part.durable.add_done_callback(_noticed)
        self._start(self._age(part))
        return part

    async def _age(self, part: _Part) -> None:
        await self._clock.sleep(self._limits.age)
        self._seal(part)

    def _seal(self, part: _Part) -> None:
        if part.sealed:
            return
        part.sealed = True
        self._current = None
        self._start(self._put(part))

    async def _put(self, part: _Part) -> None:
        pieces, part.pieces = part.pieces, []
        at_us = int(self._clock.now() * 1e6)
        try:
            async with self._puts:
                made = await asyncio.to_thread(self._form.objects, part.name, pieces, at_us)
                await self._may_put()
                for name, data in made:
                    await asyncio.to_thread(self._objects.put, name, data)
        except ObjectsError as error:
            part.durable.set_exception(SinkUnreachable(error.message, error.hint))
            return
        except asyncio.CancelledError:
            part.durable.cancel()
            raise
        except Exception as error:
            # The coroutines that wait for the part get the error.
            part.durable.set_exception(error)
            raise
        finally:
            self._held -= part.size
            self._less.set()
        self.parts_put += 1
        self.bytes_put += sum(len(data) for _, data in made)
        part.durable.set_result(None)

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(_noticed)


def _noticed(done: asyncio.Future[None]) -> None:
    """Mark the error as retrieved: the waiting coroutines get it, and there may be none."""
    if not done.cancelled():
        done.exception()
