"""The sink: publishes found items durably, before the ledger records them."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from trawlnet.engine.task import Task
from trawlnet.queues.queue import Message, Queue


@dataclass(frozen=True, slots=True)
class FoundId:
    """An id that exists and is wanted."""

    message: Message


class QueueingSink:
    """A crash between the two writes publishes an item twice; its key shows that."""

    def __init__(
        self,
        found: Queue,
        on_published: Callable[[int], None],
        may_put: Callable[[], Awaitable[None]],
    ) -> None:
        self._found = found
        self._on_published = on_published  # Called with the number of new messages.
        self._may_put = may_put  # Raises when another process has taken over.

    async def write(self, batch: Sequence[tuple[Task, Sequence[Any]]]) -> None:
        found = [item.message for _, items in batch for item in items]
        await self._may_put()
        if found:
            await self._found.publish(found)
        self._on_published(len(found))
