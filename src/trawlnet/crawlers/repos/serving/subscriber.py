"""One client: what it is sent, what it may say, and how it is let go."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from starlette.websockets import WebSocket, WebSocketDisconnect

from trawlnet.crawlers.repos.events.event_log import EventReader
from trawlnet.crawlers.repos.serving.beginning import Beginning, beginning
from trawlnet.crawlers.repos.serving.filters import SubscribeRequest, parse_update
from trawlnet.crawlers.repos.serving.past import next_piece, past_messages
from trawlnet.crawlers.repos.serving.replay_cursor import ReplayCursor
from trawlnet.crawlers.repos.serving.tail import EventTail
from trawlnet.crawlers.repos.serving.wire import WireMessage
from trawlnet.engine.ports import Clock
from trawlnet.malformed import Malformed
from trawlnet.net.server.websocket import STALLED
from trawlnet.observe.metrics.events import EventMeter, EventSource, Gone
from trawlnet.queues.acks import SpoolPosition
from trawlnet.queues.spool_log import SegmentsPruned

_ARCHIVE = "archive"
_REPLAYS = 2  # At a time; each holds one repository in memory.
_HELLO_SECONDS = 60.0  # For a client that wants to say something first.
_BURST = 20  # Messages that a client may send at once,
_PER_SECOND = 1.0  # and further ones.
_REASON_BYTES = 120  # Of a closing frame.
_POLICY = 1008
_BEHIND = "ConsumerTooSlow: the log no longer has what comes next; reconnect with your cursor"


@dataclass(slots=True)
class EventSite:
    """What all clients share."""

    archive: Path
    reader: EventReader
    tail: EventTail
    clock: Clock
    most_clients: int
    meter: EventMeter = field(default_factory=EventMeter)
    replays: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_REPLAYS))
    # Of their own: whoever reads the log does not wait for a large repository.
    replay_threads: ThreadPoolExecutor = field(
        default_factory=lambda: ThreadPoolExecutor(_REPLAYS, "replay")
    )


async def open_event_site(workspace: Path, clock: Clock, most_clients: int) -> EventSite:
    """Its tail has yet to be run."""
    tailing = EventReader(workspace, threads=ThreadPoolExecutor(1, "tail"))
    tail = EventTail(tailing, await tailing.end())
    return EventSite(workspace / _ARCHIVE, EventReader(workspace), tail, clock, most_clients)


class Subscriber:
    def __init__(self, site: EventSite, socket: WebSocket, request: SubscribeRequest) -> None:
        self._site = site
        self._socket = socket
        self._request = request
        self._wanted = request.wanted
        self._hello = asyncio.Event()
        self._why = Gone.LEFT
        self._begin = Beginning(site.tail.end)

    async def take_place(self) -> None:
        """Before the client hears that it is connected: it misses nothing that happens later."""
        now_us = int(self._site.clock.now() * 1e6)
        begin = await beginning(self._site.reader, self._request.cursor, now_us)
        self._begin = begin if begin.at is not None else Beginning(self._site.tail.end)

    async def run(self) -> Gone:
        """Until either side ends it. The socket has been accepted."""
        async with asyncio.TaskGroup() as group:
            sending = group.create_task(self._send())
            await self._listen()
            sending.cancel()
        return Gone.SLOW if self._socket.scope["state"].get(STALLED) else self._why

    async def _listen(self) -> None:
        begun, heard = self._site.clock.now(), 0
        while True:
            message = await self._socket.receive()
            if message["type"] == "websocket.disconnect":
                return None
            heard += 1
            if heard > _BURST + (self._site.clock.now() - begun) * _PER_SECOND:
                return await self._close("too many messages", Gone.REFUSED)
            try:
                wanted = parse_update(message.get("text") or message.get("bytes") or "")
            except Malformed as error:
                return await self._close(str(error), Gone.REFUSED)
            if wanted is not None:
                self._wanted = wanted
                self._hello.set()

    async def _send(self) -> None:
        try:
            if self._request.waits_for_hello:
                async with asyncio.timeout(_HELLO_SECONDS):
                    await self._hello.wait()
            await self._pass_on_from(self._begin)
        except TimeoutError:
            await self._close("requireHello: no options_update came", Gone.REFUSED)
        except SegmentsPruned:
            await self._close(_BEHIND, Gone.BEHIND)
        except WebSocketDisconnect:
            pass  # Whoever listens hears of it as well.

    async def _pass_on_from(self, begin: Beginning) -> None:
        tail = self._site.tail
        if begin.replay is not None:
            async with self._site.replays:
                await self._replay(begin.replay)
        at: SpoolPosition = tail.end if begin.at is None else begin.at
        while True:
            grown = tail.grown.next
            piece = tail.after(at) or await tail.read(at)
            if piece.end == at:
                await grown.wait()
            else:
                await self._pass_on(piece.messages, EventSource.LOG)
                at = piece.end

    async def _replay(self, replay: ReplayCursor) -> None:
        messages = past_messages(self._site.archive, replay, lambda: self._wanted)
        loop, threads = asyncio.get_running_loop(), self._site.replay_threads
        while piece := await loop.run_in_executor(threads, next_piece, messages):
            await self._pass_on(piece, EventSource.ARCHIVE)

    async def _pass_on(self, messages: Sequence[WireMessage], source: EventSource) -> None:
        send, is_packed, sent = self._socket.send, self._request.compressed, 0
        for message in messages:
            if self._wanted.take(message):
                body = {"bytes": message.frame} if is_packed else {"text": message.text}
                await send({"type": "websocket.send", **body})
                sent += 1
        self._site.meter.sent(source, sent)

    async def _close(self, reason: str, why: Gone) -> None:
        self._why = why
        text = reason.encode()[:_REASON_BYTES].decode("utf-8", "ignore")
        try:
            await self._socket.close(_POLICY, text)
        except (WebSocketDisconnect, RuntimeError):
            pass  # It was closed already.
