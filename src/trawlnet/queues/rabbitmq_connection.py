"""One connection to a RabbitMQ server, opened again when it was lost; its errors in our words."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from urllib.parse import urlsplit

import aio_pika
from aio_pika.abc import AbstractChannel, AbstractConnection
from aio_pika.exceptions import (
    CONNECTION_EXCEPTIONS,
    AuthenticationError,
    ChannelPreconditionFailed,
    ProbableAuthenticationError,
)

from trawlnet.storage.errors import SinkError, SinkUnreachable

_CONNECT_DEADLINE = 10.0


class RabbitLink:
    """Plain connections, not the library's self-restoring ones: those bring back consumers behind
    our back, and a delivery's tag would no longer say which channel it belongs to."""

    def __init__(self, url: str, queues: Sequence[str]) -> None:
        self.place = _place(url)
        self._url = url
        self._queues = queues
        self._connection: AbstractConnection | None = None
        self._publisher: AbstractChannel | None = None
        self._opening = asyncio.Lock()
        self._ended = False

    async def publisher(self) -> AbstractChannel:
        """The channel that confirms, with the queues declared."""
        async with self._opening:
            if self._publisher is None or self._publisher.is_closed:
                self._publisher = await self._open_publisher()
            return self._publisher

    async def channel(self) -> AbstractChannel:
        """A new channel, the caller's own."""
        async with self._opening:
            connection = await self._connected()
            return await connection.channel()

    async def drop_publisher(self) -> None:
        """After a failure nobody knows what the channel still awaits: the next one is new."""
        publisher, self._publisher = self._publisher, None
        if publisher and not publisher.is_closed:
            try:
                await publisher.close()
            except CONNECTION_EXCEPTIONS:
                pass  # It was broken, which is why we drop it.

    async def close(self) -> None:
        self._ended = True
        await self._disconnect()

    async def _open_publisher(self) -> AbstractChannel:
        connection = await self._connected()
        try:
            channel = await connection.channel(publisher_confirms=True, on_return_raises=True)
            for queue in self._queues:
                await channel.declare_queue(queue, durable=True)
        except ChannelPreconditionFailed as error:
            raise SinkError(
                f"RabbitMQ at {self.place} has a queue of that name with other settings: {error}",
                "choose another queue name, or delete that queue once it is empty",
            ) from None
        except CONNECTION_EXCEPTIONS as error:
            raise self._unreachable(error) from None
        return channel

    async def _connected(self) -> AbstractConnection:
        if self._ended:
            raise SinkError(f"the queue on RabbitMQ at {self.place} was closed")
        if self._connection is None or not self._connection.connected.is_set():
            await self._disconnect()
            self._connection = await self._connect()
        return self._connection

    async def _disconnect(self) -> None:
        if self._connection and not self._connection.is_closed:
            try:
                await self._connection.close()
            except CONNECTION_EXCEPTIONS:
                pass  # It was lost already.

    async def _connect(self) -> AbstractConnection:
        try:
            return await aio_pika.connect(self._url, timeout=_CONNECT_DEADLINE)
        except (AuthenticationError, ProbableAuthenticationError):
            raise SinkError(
                f"RabbitMQ at {self.place} refused the user or the password",
                "check the user, the password and the virtual host in the amqp:// URL",
            ) from None
        except (ValueError, *CONNECTION_EXCEPTIONS) as error:
            raise self._unreachable(error) from None

    def _unreachable(self, error: BaseException) -> SinkUnreachable:
        return SinkUnreachable(
            f"RabbitMQ at {self.place} does not answer: {type(error).__name__}: {error}",
            "start the server, correct the amqp:// URL, or leave it out to use the spool",
        )


def _place(url: str) -> str:
    """Host, port and virtual host: what may be shown of a URL that holds a password."""
    try:
        parts = urlsplit(url)
        return f"{parts.hostname}:{parts.port or 5672}{parts.path}"
    except ValueError:
        raise SinkError(
            "the amqp:// URL cannot be read", "write it as amqp://user:password@host:5672/vhost"
        ) from None
