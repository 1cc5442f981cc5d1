"""A queue on a RabbitMQ server: durable queues, persistent messages, confirmed publishing."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import aio_pika
from aio_pika.abc import AbstractChannel, AbstractIncomingMessage
from aio_pika.exceptions import CONNECTION_EXCEPTIONS

from trawlnet.queues.queue import (
    Delivery,
    Message,
    QueueCounts,
    QueueOptions,
    decode_message,
    encode,
)
from trawlnet.queues.rabbitmq_connection import RabbitLink
from trawlnet.queues.wakeup import Wakeup, wait
from trawlnet.storage.errors import SinkUnreachable

log = logging.getLogger(__name__)

_IDLE_CHECK = 30.0  # How long a consumer without any message trusts its channel.
_FIRST_PAUSE = 0.1  # Before the second try at a lost connection; doubles up to the longest.
_LONGEST_PAUSE = 5.0


@dataclass(eq=False)
class ConsumerChannel:
    """A consumer's channel, and what the server has pushed on it that is not settled yet."""

    channel: AbstractChannel
    waiting: deque[AbstractIncomingMessage] = field(default_factory=deque)
    handed_out: set[int] = field(default_factory=set)  # Delivery tags.
    changed: Wakeup = field(default_factory=Wakeup)

    async def push(self, message: AbstractIncomingMessage) -> None:
        self.waiting.append(message)
        self.changed.fire()

    def lost(self, *_: Any) -> None:
        """The channel is gone, and with it every delivery: the server gives them out again."""
        self.waiting.clear()
        self.handed_out.clear()
        self.changed.fire()


class RabbitQueue:
    """The Queue over a server. Order holds within a connection; what was in flight when one broke
    is sent again. The backlog bound is an estimate from the server's count of ready messages."""

    def __init__(self, link: RabbitLink, name: str, options: QueueOptions) -> None:
        self._link = link
        self._name = name
        self._options = options
        self._closed = False
        self._inboxes: set[ConsumerChannel] = set()
        self._backlog_at_most: int | None = None  # Unknown before the first look.
        self._sent_messages = 0
        self._sent_bytes = 0
        self._poisoned = 0

    @classmethod
    async def connect(cls, url: str, name: str, options: QueueOptions) -> RabbitQueue:
        """One try: a wrong address should be said at once."""
        link = RabbitLink(url, (name, poison_of(name)))
        await link.publisher()
        return cls(link, name, options)

    async def publish(self, messages: Sequence[Message]) -> None:
        bodies = [encode(message) for message in messages]
        fitting = [body for body in bodies if len(body) <= self._options.message_bytes]
        self._sent_messages += len(fitting)
        self._sent_bytes += sum(map(len, fitting))
        await self._wait_for_room()
        await self._send(self._name, [_persistent(body) for body in fitting])
        if self._backlog_at_most is not None:
            self._backlog_at_most += sum(map(len, fitting))
        for body in bodies:
            if len(body) > self._options.message_bytes:
                await self._put_aside(body, f"too large: {len(body)} bytes")

    async def consume(
        self, prefetch: int = 100, *, drain: bool = False
    ) -> AsyncGenerator[Delivery]:
        inbox = await self._open_inbox(prefetch)
        try:
            while not self._closed:
                changed = inbox.changed.next
                if inbox.channel.is_closed:
                    # A new inbox too: whatever the old channel still says goes nowhere.
                    await self._leave(inbox)
                    inbox = await self._open_inbox(prefetch)
                elif inbox.waiting:
                    delivery = await self._deliver(inbox, inbox.waiting.popleft())
                    if delivery:
                        yield delivery
                elif drain and not inbox.handed_out and await self._empty(inbox):
                    return
                elif not await wait(changed, self._options.poll if drain else _IDLE_CHECK):
                    await self._renew(inbox, drain)
        finally:
            await self._leave(inbox)

    async def counts(self) -> QueueCounts:
        ready = await self._ready()
        return QueueCounts(None, ready, poisoned=self._poisoned)

    async def depth(self) -> int:
        return await self._ready()

    async def close(self) -> None:
        self._closed = True
        for inbox in list(self._inboxes):
            inbox.lost()
        await self._link.close()

    async def _send(self, queue: str, messages: Sequence[aio_pika.Message]) -> None:
        """Every message confirmed by the server; the unconfirmed ones again after a lost
        connection."""
        left = list(messages)
        attempt = _Attempt(self._options.patience)
        while left:
            failures = await self._try_sending(queue, left)
            unconfirmed = [m for m, failure in zip(left, failures, strict=True) if failure]
            if len(unconfirmed) < len(left):
                attempt = _Attempt(self._options.patience)
            left = unconfirmed
            if left:
                await self._link.drop_publisher()
                await attempt.pause(self._link.place, next(filter(None, failures)))

    async def _try_sending(
        self, queue: str, messages: Sequence[aio_pika.Message]
    ) -> Sequence[Exception | None]:
        """For each message None, or what kept the server from confirming it."""
        try:
            channel = await self._link.publisher()
        except SinkUnreachable as error:
            return [error] * len(messages)
        send = partial(channel.default_exchange.publish, routing_key=queue, mandatory=True)
        deadline = self._options.confirmation
        results = await asyncio.gather(
            *(send(message, timeout=deadline) for message in messages), return_exceptions=True
        )
        return [_failure(result) for result in results]

    async def _wait_for_room(self) -> None:
        limit = self._options.backlog_bytes
        if limit is None or (self._backlog_at_most is not None and self._backlog_at_most < limit):
            return
        paused = False
        while True:
            mean = self._sent_bytes / max(1, self._sent_messages)
            self._backlog_at_most = round(await self._ready() * mean)
            if self._backlog_at_most < limit:
                return
            if not paused:
                fields = {"queue": self._name, "backlog": self._backlog_at_most}
                log.info("publish paused", extra=fields)
                paused = True
            await asyncio.sleep(self._options.poll)

    async def _ready(self) -> int:
        """Messages on the server that no consumer holds."""
        attempt = _Attempt(self._options.patience)
        while True:
            try:
                channel = await self._link.publisher()
                queue = await channel.declare_queue(self._name, durable=True)
                return queue.declaration_result.message_count or 0
            except (SinkUnreachable, *CONNECTION_EXCEPTIONS) as error:
                await attempt.pause(self._link.place, error)

    async def _open_inbox(self, prefetch: int) -> ConsumerChannel:
        attempt = _Attempt(self._options.patience)
        while True:
            try:
                inbox = ConsumerChannel(await self._link.channel())
                inbox.channel.close_callbacks.add(inbox.lost)
                await inbox.channel.set_qos(prefetch_count=prefetch)
                queue = await inbox.channel.declare_queue(self._name, durable=True)
                await queue.consume(inbox.push)
            except (SinkUnreachable, *CONNECTION_EXCEPTIONS) as error:
                await attempt.pause(self._link.place, error)
            else:
                self._inboxes.add(inbox)
                return inbox

    async def _renew(self, inbox: ConsumerChannel, drain: bool) -> None:
        """A server that deletes a queue ends its consumers without a word to us; with nothing in
        our hands a new channel costs nothing."""
        if not drain and not inbox.handed_out:
            await self._leave(inbox)

    async def _leave(self, inbox: ConsumerChannel) -> None:
        self._inboxes.discard(inbox)
        inbox.lost()
        if not inbox.channel.is_closed:
            try:
                await inbox.channel.close()
            except CONNECTION_EXCEPTIONS:
                pass  # It broke first.

    async def _deliver(
        self, inbox: ConsumerChannel, message: AbstractIncomingMessage
    ) -> Delivery | None:
        """None when nobody can use the message; it is among the poison then."""
        inbox.handed_out.add(message.delivery_tag or 0)
        settle = partial(self._settle, inbox, message)
        if len(message.body) > self._options.message_bytes:
            await settle(f"longer than {self._options.message_bytes} bytes")
            return None
        try:
            body = decode_message(message.body)
        except ValueError as error:
            await settle(f"not a JSON object: {error}")
            return None
        return Delivery(body, f"{self._name}#{message.delivery_tag}", settle)

    async def _settle(
        self, inbox: ConsumerChannel, message: AbstractIncomingMessage, why: str | None
    ) -> None:
        tag = message.delivery_tag or 0
        if why is not None and tag in inbox.handed_out:
            await self._put_aside(message.body, why)
        if tag not in inbox.handed_out:
            return  # Settled already, or given back with its channel.
        inbox.handed_out.discard(tag)
        inbox.changed.fire()
        try:
            await message.ack()
        except CONNECTION_EXCEPTIONS:
            log.info("ack lost; the message will be delivered again", extra={"queue": self._name})

    async def _put_aside(self, body: bytes, why: str) -> None:
        step = self._options.message_bytes  # A server may refuse what is longer.
        pieces = [body[at : at + step] for at in range(0, len(body), step)] or [b""]
        headers = {"why": why[:500], "pieces": len(pieces)}
        await self._send(
            poison_of(self._name),
            [_persistent(piece, **headers, piece=n) for n, piece in enumerate(pieces)],
        )
        self._poisoned += 1

    async def _empty(self, inbox: ConsumerChannel) -> bool:
        """Empty twice in a row: a pushed message may be on its way while the server counts."""
        for _ in range(2):
            if await self._ready() or inbox.waiting:
                return False
            await wait(inbox.changed.next, self._options.poll)
        return not inbox.waiting


class _Attempt:
    """Tries at a lost connection, with growing pauses, until patience ends."""

    def __init__(self, patience: float) -> None:
        self._end = asyncio.get_running_loop().time() + patience
        self._pause = _FIRST_PAUSE

    async def pause(self, place: str, error: BaseException) -> None:
        if asyncio.get_running_loop().time() + self._pause > self._end:
            if isinstance(error, SinkUnreachable):
                raise error
            raise SinkUnreachable(
                f"RabbitMQ at {place} is gone: {type(error).__name__}: {error}",
                "start the server, then run again: nothing confirmed is lost",
            ) from error
        log.info("trying RabbitMQ again", extra={"server": place, "after": self._pause})
        await asyncio.sleep(self._pause)
        self._pause = min(_LONGEST_PAUSE, self._pause * 2)


def poison_of(queue: str) -> str:
    return f"{queue}.poison"


def _persistent(body: bytes, **headers: Any) -> aio_pika.Message:
    return aio_pika.Message(
        body,
        headers=headers,
        content_type="application/json",
        delivery_mode=aio_pika.DeliveryMode.PERSISTENT,
    )


def _failure(result: object) -> Exception | None:
    """Our own bugs and cancellations go up; trouble with the server is a value."""
    if not isinstance(result, BaseException):
        return None
    if isinstance(result, CONNECTION_EXCEPTIONS):
        return result
    raise result
