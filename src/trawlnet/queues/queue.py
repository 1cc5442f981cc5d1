"""The queue contract: publish is durable on return, un-acked messages come again."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import orjson

from trawlnet.engine.task import Task
from trawlnet.storage.errors import SinkError

# One JSON object, as JSON already if it is a fragment, or a bare number: an id and no more.
Message = Mapping[str, Any] | int | orjson.Fragment


@dataclass(frozen=True, slots=True)
class Retention:
    """What stays of a log that several read, each at its own pace: the newest segments, as many as
    both limits allow. A reader that falls behind them has to begin elsewhere."""

    bytes: int  # Of closed segments.
    seconds: float  # Between the last write to a segment and the newest write.


@dataclass(frozen=True, slots=True)
class QueueOptions:
    """The limits of a queue; the defaults suit most."""

    message_bytes: int = 16 * 1024 * 1024  # A message over this, encoded, is put aside.
    backlog_bytes: int | None = None  # Publishing waits above this much un-acked; None: no bound.
    when_full: str = ""  # What people can do about a publisher that waits.
    poll: float = 0.2  # How often to look for what another process did.
    # For a spool only.
    segment_bytes: int = 64 * 1024 * 1024  # A segment this long gets a successor.
    keep: bool = False  # Leave acked segments for other readers.
    bookmark: Path | None = None  # Default: beside the segments.
    retention: Retention | None = None  # With `keep`: what the publisher deletes all the same.
    # For RabbitMQ only.
    patience: float = 60.0  # How long a lost connection is tried again before giving up.
    confirmation: float = 60.0  # How long a message may take until the server confirms it.


@dataclass(frozen=True, slots=True)
class Delivery:
    """One message in the hands of one consumer, until it is acked or put aside.

    Settling a delivery whose consumer has ended, or whose connection broke, changes nothing:
    the message comes again.
    """

    body: Any
    place: str  # Where it came from, for a log line.
    settle: Callable[[str | None], Awaitable[None]]

    async def ack(self) -> None:
        """The work is done and durable: forget the message."""
        await self.settle(None)

    async def put_aside(self, why: str) -> None:
        """The message is bad: keep it among the poison, and go on with the others."""
        await self.settle(why)


@dataclass(frozen=True, slots=True)
class QueueCounts:
    """Not acked yet: a spool knows bytes, a server knows messages."""

    backlog_bytes: int | None
    backlog_messages: int | None
    poisoned: int  # Put aside since this queue was opened.


class Queue(Protocol):
    """At least once, in the order of publishing; a redelivered message may come out of order.

    A message may come twice: after a crash between the work and its ack, or between a publish
    and its confirmation. Consumers recognise it by its key.
    """

    async def publish(self, messages: Sequence[Message]) -> None:
        """Durable on return. Waits while the un-acked backlog is over its bound."""

    def consume(self, prefetch: int = 100, *, drain: bool = False) -> AsyncGenerator[Delivery]:
        """Deliveries without end, at most `prefetch` of them unsettled; several consumers share
        the messages. With `drain`, ends when the queue is empty and all of its own are settled.
        Close it (`aclosing`): what it left unsettled then goes to others."""

    async def counts(self) -> QueueCounts:
        """How much is not acked yet, as the queue itself counts it."""

    async def depth(self) -> int:
        """Messages that nobody has acked; of a long spool about so many."""

    async def close(self) -> None:
        """End its consumers; what they had not settled comes again."""


class QueueSink:
    """An engine Sink that publishes every item. Written twice, an item is published twice:
    idempotence is the consumer's, by the key that `shape` puts into each message."""

    def __init__(self, queue: Queue, shape: Callable[[Task, Any], Message]) -> None:
        self._queue = queue
        self._shape = shape

    async def write(self, batch: Sequence[tuple[Task, Sequence[Any]]]) -> None:
        """Publish the items of a batch; durable on return."""
        await self._queue.publish(
            [self._shape(task, item) for task, items in batch for item in items]
        )


def encode(message: Message) -> bytes:
    """One line of JSON, without its newline."""
    try:
        return orjson.dumps(message)
    except TypeError as refused:
        return _encode_rare(message, refused)


def _encode_rare(message: Message, refused: TypeError) -> bytes:
    """Lone surrogates are legal in JSON, and remote servers do send them; orjson refuses them."""
    try:
        raw = _dump_plainly(message)
        intact = _dump_plainly(decode_message(raw)) == raw
    except (TypeError, ValueError):
        intact = False
    if not intact:
        raise SinkError(f"a message cannot be written as JSON: {refused}") from refused
    return raw


def _dump_plainly(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), allow_nan=False).encode()


def decode(raw: bytes) -> dict[str, Any]:
    """The object in one line; ValueError when there is none."""
    value = decode_message(raw)
    if isinstance(value, int):
        raise ValueError("expected a JSON object, found int")
    return value


def decode_message(raw: bytes) -> dict[str, Any] | int:
    """The object or the whole number in one line; ValueError when there is neither."""
    try:
        value = orjson.loads(raw)
    except orjson.JSONDecodeError:
        value = _load_plainly(raw)
    if isinstance(value, dict) or type(value) is int:
        return value
    raise ValueError(f"expected a JSON object, found {type(value).__name__}")


def _load_plainly(raw: bytes) -> Any:
    try:
        return json.loads(raw.decode("utf-8"), parse_constant=_refuse_constant)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _refuse_constant(word: str) -> Any:
    raise ValueError(f"{word} is not JSON")
