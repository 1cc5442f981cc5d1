"""One firehose, read for as long as the crawl lasts: connected again whenever it breaks, after the
last message that is durable."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from trawlnet.crawlers.atproto.streams.host_cursor import HostCursor, seconds_of
from trawlnet.crawlers.atproto.streams.messages import StreamNotice
from trawlnet.crawlers.atproto.streams.reconnection import LONGEST_WAIT, Reconnection
from trawlnet.crawlers.atproto.streams.upstream import Upstream
from trawlnet.engine.control import Control
from trawlnet.engine.gate import Gate, LaneParked
from trawlnet.engine.ports import Clock
from trawlnet.net.client.socket_ends import SocketLimits
from trawlnet.net.client.websocket import WebSocket, open_websocket
from trawlnet.net.guard import Guard
from trawlnet.net.lane import lane_of
from trawlnet.net.trouble import EXPECTED, BadAnswer, TooLarge, trouble_from

log = logging.getLogger(__name__)

METHOD = "com.atproto.sync.subscribeRepos"
FUTURE = "FutureCursor"
_BATCH_FRAMES = 500
_GATHER = 0.05  # Seconds that a first message waits for others.
_QUIET = 30.0  # Seconds without a message after which a server has told all that it has.
_GARBLED = (TooLarge, BadAnswer)  # What the WebSocket brings is no message.
_LOOK_BACK = 1000  # Numbers, at a server whose messages do not come in order.


@dataclass(frozen=True, slots=True)
class Dialler:
    """How firehoses are reached."""

    gate: Gate
    guard: Guard
    agent: str
    clock: Clock
    limits: SocketLimits
    batch_bytes: int

    def open(
        self, upstream: Upstream, cursor: int | None
    ) -> AbstractAsyncContextManager[WebSocket]:
        query = "" if cursor is None else f"?cursor={cursor}"
        scheme, _, host = upstream.url.partition("://")
        url = f"{'wss' if scheme == 'https' else 'ws'}://{host}/xrpc/{METHOD}{query}"
        return open_websocket(url, agent=self.agent, guard=self.guard, limits=self.limits)


class StreamBatch(Protocol):
    """Messages that were checked."""

    @property
    def seq(self) -> int: ...

    @property
    def time(self) -> str: ...

    @property
    def notice(self) -> StreamNotice: ...


B = TypeVar("B", bound=StreamBatch)


class StreamReader(Protocol[B]):
    """Who reads firehoses, and makes durable what they say."""

    def cursor(self, upstream: Upstream) -> HostCursor | None:
        """As saved: every message before it is durable."""

    async def begin(self, upstream: Upstream) -> None:
        """The stream was joined at its newest message."""

    async def rewind(self, upstream: Upstream) -> None:
        """It is read from its oldest message on; its numbers may have begun anew."""

    async def check(self, upstream: Upstream, messages: Sequence[bytes | str], seen: int) -> B:
        """Of messages beyond the highest `seq` seen so far."""

    async def publish(self, batch: B) -> None:
        """Everything of it is durable when this returns. One batch of an upstream at a time."""


class Subscription(Generic[B]):
    """The WebSocket has a queue of its own: a stalled upstream holds nobody up, and one that sends
    too much waits by itself."""

    def __init__(
        self, upstream: Upstream, dialler: Dialler, reader: StreamReader[B], *, from_start: bool
    ) -> None:
        self.upstream = upstream
        self.is_connected = False
        self.trouble = ""  # Why it is not, in words.
        self.began = asyncio.Event()  # It was connected once.
        self.passed_over = 0  # Times that it was joined behind what could not be read.
        self._dialler = dialler
        self._clock = dialler.clock
        self._reader = reader
        self._from_start = from_start
        self._again = Reconnection()
        self.away_since = dialler.clock.now()  # While it is not connected.
        self._last: B | None = None  # That is durable.
        self._publishing_since = math.inf  # When the batch came that is made durable now.
        self._lag = 0.0  # Seconds that its last message had taken by then.
        self._listening_since = math.inf  # Since when no message has come.

    def behind(self, now: float) -> float | None:
        """Seconds; None before the first message. While connected it is what the last message
        took until it was durable, or what the next has waited: a quiet server is not behind, even
        if its last message was old when it came."""
        if self._last is None:
            return None
        if self.is_connected:
            waits, listens = now - self._publishing_since, now - self._listening_since
            return 0.0 if waits < 0 and listens >= _QUIET else max(self._lag, waits)
        at = seconds_of(self._last.time)
        return None if at is None else max(0.0, now - at)

    async def run(self, control: Control) -> None:
        while True:
            try:
                notice = await self._read_once()
                is_stuck = self._again.end(notice)
                wait = LONGEST_WAIT if _is_lost(notice) else self._again.wait
                await self._pause(_why(notice), wait, is_stuck=is_stuck)
            except LaneParked as parked:
                pause = parked.until - self._clock.now() if parked.until < math.inf else math.inf
                await self._pause(
                    "waiting: requests to the host are paused", min(pause, LONGEST_WAIT)
                )
            except EXPECTED as error:
                trouble = trouble_from(error, self.upstream.url)
                await self._pause(f"{trouble.reason}: {trouble.detail}", self._again.wait)

    async def _pause(self, why: str, seconds: float, *, is_stuck: bool = False) -> None:
        if self.trouble != why:
            extra = {"host": self.upstream.host, "error": why, "again_in": round(seconds, 1)}
            log.warning("firehose not connected", extra=extra)
        if self.is_connected and not is_stuck:
            self.away_since = self._clock.now()
        self.is_connected, self.trouble = False, why
        self._again.put_off()
        await self._clock.sleep(seconds)

    async def _read_once(self) -> StreamNotice:
        """Until the connection ends, and why it did."""
        async with AsyncExitStack() as stack:
            is_behind = self._again.passes_over(self._clock.now())
            cursor = None if is_behind else self._cursor()
            async with self._dialler.gate.turn(lane_of(self.upstream.url)):
                opened = self._dialler.open(self.upstream, cursor)
                socket = await stack.enter_async_context(opened)
            if is_behind:
                self._pass_over()
            if self._from_start:
                await self._reader.rewind(self.upstream)
            elif cursor is None:
                await self._reader.begin(self.upstream)
            log.info("firehose connected", extra={"host": self.upstream.host, "cursor": cursor})
            self.is_connected, self.trouble = True, ""
            self.began.set()
            return await self._read(socket)

    def _pass_over(self) -> None:
        log.warning(
            "firehose joined behind what cannot be read", extra={"host": self.upstream.host}
        )
        self._again.pass_over(self._clock.now())
        self.passed_over += 1
        self._from_start = False

    def _cursor(self) -> int | None:
        if self._from_start:
            return 0
        saved = self._reader.cursor(self.upstream)
        if saved is None or not saved.seq:
            return None
        return max(0, saved.seq - _LOOK_BACK) if saved.looks_back else saved.seq

    async def _read(self, socket: WebSocket) -> StreamNotice:
        """The next batch is checked while the last one is made durable."""
        saved = self._reader.cursor(self.upstream) or HostCursor()
        async with asyncio.TaskGroup() as group:
            seen, publishing = saved.seq, None
            while True:
                self._listening_since = self._clock.now()
                try:
                    messages = await _gather(socket, self._dialler.batch_bytes)
                except EXPECTED as error:
                    trouble = trouble_from(error, self.upstream.url)
                    why = f"{trouble.reason}: {trouble.detail}"
                    return StreamNotice(trouble=why, is_garbled=isinstance(error, _GARBLED))
                self._listening_since = math.inf
                batch = await self._reader.check(self.upstream, messages, seen)
                is_news, seen = batch.seq > seen, batch.seq
                if publishing is not None:
                    await publishing
                publishing = group.create_task(self._publish(batch, is_news=is_news))
                if batch.notice.ends:
                    return batch.notice

    async def _publish(self, batch: B, *, is_news: bool) -> None:
        self._publishing_since = self._clock.now()
        await self._reader.publish(batch)
        self._publishing_since = math.inf
        if is_news:
            self._again.go_on()
            self._from_start = False
        self._last = batch
        at = seconds_of(batch.time)
        self._lag = 0.0 if at is None else max(0.0, self._clock.now() - at)


async def _gather(socket: WebSocket, most_bytes: int) -> list[bytes | str]:
    """At least one message, and what comes right behind it."""
    messages = [await socket.receive()]
    size = len(messages[0])
    try:
        async with asyncio.timeout(_GATHER):
            while len(messages) < _BATCH_FRAMES and size < most_bytes:
                messages.append(await socket.receive())
                size += len(messages[-1])
    except EXPECTED:
        pass  # Nothing more for now; or the end, which the next look tells.
    return messages


def _is_lost(notice: StreamNotice) -> bool:
    return notice.error is not None and notice.error.error == FUTURE


def _why(notice: StreamNotice) -> str:
    if notice.trouble:
        return notice.trouble
    if notice.error is None:
        return f"not a frame of a firehose: {notice.refusal}"
    if _is_lost(notice):
        # Where it lost its log, numbers begin anew: from which one on, only people can say.
        return (
            "the server knows no message after the saved cursor; if it lost its log, "
            "begin at its oldest message: --from-start"
        )
    return f"{notice.error.error}: {notice.error.message or ''}".rstrip(": ")
