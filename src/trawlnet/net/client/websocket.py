"""A WebSocket that is only listened to: messages come out in order, and slowly if need be."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import cast

from websockets.client import ClientProtocol
from websockets.datastructures import Headers
from websockets.exceptions import InvalidHandshake
from websockets.frames import CTRL_OPCODES, CloseCode, Frame, Opcode
from websockets.http11 import Response as Head
from websockets.protocol import State
from websockets.uri import parse_uri

from trawlnet.net.agent import require_contact
from trawlnet.net.client.connection import Connection
from trawlnet.net.client.dial import Endpoint, GuardedResolver, Pools
from trawlnet.net.client.framing import is_idle_tls
from trawlnet.net.client.patience import Alarm, Patience
from trawlnet.net.client.pool import ConnectionPool
from trawlnet.net.client.socket_ends import SlightFrames, SocketLimits, end_of
from trawlnet.net.guard import AddressRefused, Destination, Guard
from trawlnet.net.trouble import BadAnswer, ConnectionDropped, NotUpgraded, TooLarge, clean

_SLICE = 16 * 1024  # Bytes parsed at a time: eight thousand frames, if they are empty.
_FRAMES = 256  # Parsed before others have their turn.
_PER_MESSAGE = 128  # Bytes that one takes besides its own.
_SMALL = 512  # Bytes: a fragment below costs us more than the server.
_PROGRESS = 64 * 1024  # Bytes of an unfinished frame that are as good a sign of life as a frame.
_LOOKS = 6  # Looks at a quiet connection before it is asked for a sign.
_FAREWELL = 2.0  # Seconds.
_SWITCHED = 101
_REDIRECTS = range(300, 400)
_SCHEMES = {"ws": "http", "wss": "https"}
_NO_POOL = Pools(kept=0, lookups=1)


@asynccontextmanager
async def open_websocket(
    url: str, *, agent: str, guard: Guard, limits: SocketLimits
) -> AsyncIterator[WebSocket]:
    """One connection, dialled as those of Http are. Raises what `trouble_from` understands; a
    redirect is such trouble, and is not followed."""
    require_contact(agent)
    scheme, _, rest = url.partition("://")
    if scheme not in _SCHEMES:
        raise AddressRefused(f"scheme {clean(scheme)!r} not allowed: ws:// or wss:// is")
    to = guard.destination(f"{_SCHEMES[scheme]}://{rest}")
    protocol = ClientProtocol(
        parse_uri(f"{scheme}://{to.origin.authority}{to.target}"),
        state=State.OPEN,  # What is before that is said over a connection of the HTTP client.
        max_size=limits.message,
    )
    patience = Patience(limits.answer)
    async with patience:
        connection = await _dial(to, guard, limits)
    socket = WebSocket(protocol, limits)
    try:
        await connection.ask(_upgrade(protocol, agent), limits.header, patience)
        _check(protocol, connection)
        socket.begin(connection.hand_over(socket), connection.received)
    except BaseException:
        connection.close()
        raise
    try:
        yield socket
    finally:
        socket.close()


class WebSocket(asyncio.Protocol):
    """Messages wait for their reader; when many do, the server has to."""

    def __init__(self, protocol: ClientProtocol, limits: SocketLimits) -> None:
        self._protocol = protocol
        self._limits = limits
        self._loop = asyncio.get_running_loop()
        self._alarm = Alarm(self._look)
        self._slight = SlightFrames(limits, self._loop.time())
        self._messages: deque[bytes | str] = deque()
        self._waiting = 0  # Bytes of them.
        self._fragments: list[bytes | bytearray | memoryview] = []
        self._is_text = False  # What the fragments are of.
        self._unparsed = memoryview(b"")
        self._is_paused = True
        self._is_due = False  # The parser, when others have had their turn.
        self._may_write = True
        self._reader: asyncio.Future[None] | None = None
        self._error: Exception | None = None  # What ended it.
        self._loss: Exception | None = None  # How the connection did.
        self._received: Callable[[], int] | None = None
        self._seen = 0  # Bytes,
        self._seen_at_sign = 0  # and how many at the last sign of life.
        self._sign_at = self._loop.time()
        self._is_asked = False  # For a sign of life.

    async def receive(self) -> bytes | str:
        """The next message, of a binary or of a text frame. What ended the WebSocket is raised
        behind the last one. To give up waiting loses no message."""
        while not self._messages:
            if self._error is not None:
                raise self._error.with_traceback(None)
            self._reader = self._loop.create_future()
            try:
                await self._reader
            finally:
                self._reader = None
        message = self._messages.popleft()
        self._waiting -= len(message) + _PER_MESSAGE
        if self._is_paused and self._waiting <= self._limits.waiting // 2:
            self._parse_later()
        return message

    def begin(self, first: bytes, received: Callable[[], int] | None) -> None:
        """With what came behind the server's answer. `received` counts the bytes below TLS."""
        self._received = received
        self._seen = len(first)
        self._unparsed = memoryview(first)
        self._parse()
        self._alarm.set(self._loop.time() + self._limits.quiet / _LOOKS)

    def close(self) -> None:
        """Says that we leave, and does not wait for an answer."""
        if self._error is None:
            self._protocol.send_close(CloseCode.NORMAL_CLOSURE)
            self._end(ConnectionDropped("we closed the WebSocket"))

    # What the transport calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        if self._error is None:
            self._seen += len(data)
            # Nothing comes while anything is unparsed, except what TLS had decrypted already.
            self._unparsed = memoryview(bytes(self._unparsed) + data if self._unparsed else data)
            self._parse()

    def connection_lost(self, exc: Exception | None) -> None:
        self._loss = exc or EOFError()
        if self._error is None and not self._is_due:
            self._parse()

    def pause_writing(self) -> None:
        self._may_write = False  # The server does not read, so nothing is kept for it.

    def resume_writing(self) -> None:
        self._may_write = True

    # Frames.

    def _parse(self) -> None:
        """Little at a time: a server of tiny frames has its turn, and no more."""
        self._is_due = False
        frames = 0
        while self._unparsed and not self._is_full and frames < _FRAMES and self._error is None:
            self._protocol.receive_data(bytes(self._unparsed[:_SLICE]))
            self._unparsed = self._unparsed[_SLICE:]
            came = cast(list[Frame], self._protocol.events_received())
            frames += len(came)
            try:
                self._take(came)
            except (BadAnswer, TooLarge) as error:
                self._end(error)
                return
            self._send()
            if self._protocol.state is not State.OPEN:
                self._end(end_of(self._protocol))
        if self._error is None:
            self._read_on()
        if self._messages:
            self._wake()

    def _read_on(self) -> None:
        if self._unparsed:
            self._pause()
            if not self._is_full:
                self._parse_later()
        elif self._loss is not None:
            self._lose(self._loss)
        elif self._is_full:
            self._pause()
        elif self._is_paused:
            self._is_paused = False
            self._transport.resume_reading()

    def _take(self, frames: list[Frame]) -> None:
        """Raises TooLarge for frames that say too little, BadAnswer for a text that is none."""
        slight = size = 0
        for frame in frames:
            size += len(frame.data)
            if frame.opcode in CTRL_OPCODES:
                slight += 1
            elif frame.opcode is Opcode.CONT or not frame.fin:
                slight += self._add_fragment(frame)
            else:
                self._put(frame.data, frame.opcode is Opcode.TEXT)
        if slight:
            self._slight.count(slight, size, self._loop.time())
        if frames:
            self._note_sign()

    def _add_fragment(self, frame: Frame) -> bool:
        """Whether it was hardly worth sending by itself."""
        if frame.opcode is not Opcode.CONT:
            self._is_text = frame.opcode is Opcode.TEXT
        self._fragments.append(frame.data)
        if not frame.fin:
            return len(frame.data) < _SMALL
        whole = b"".join(self._fragments)
        self._fragments.clear()
        self._put(whole, self._is_text)
        return False

    def _put(self, data: bytes | bytearray | memoryview, is_text: bool) -> None:
        try:
            message = str(data, "utf-8") if is_text else bytes(data)
        except UnicodeDecodeError:
            raise BadAnswer("a WebSocket's text that is not UTF-8") from None
        self._messages.append(message)
        self._waiting += len(message) + _PER_MESSAGE

    def _send(self) -> None:
        parts = self._protocol.data_to_send()
        if parts and self._may_write and self._loss is None:
            self._transport.write(b"".join(parts))

    # Whose turn it is.

    @property
    def _is_full(self) -> bool:
        return self._waiting >= self._limits.waiting

    def _pause(self) -> None:
        if not self._is_paused:
            self._is_paused = True
            self._transport.pause_reading()

    def _parse_later(self) -> None:
        if not self._is_due and self._error is None:
            self._is_due = True
            self._loop.call_soon(self._parse)

    def _wake(self) -> None:
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)

    # The end.

    def _look(self) -> None:
        limits, now = self._limits, self._loop.time()
        if self._is_paused or self._seen - self._seen_at_sign >= _PROGRESS:
            self._note_sign()  # Or it is we who do not listen.
        quiet = now - self._sign_at
        if self._received is not None and is_idle_tls(self._received(), self._seen):
            self._end(TooLarge("TLS records without end that hold no frame"))
        elif quiet >= limits.quiet + limits.sign:
            self._end(TimeoutError(f"no whole frame within {limits.quiet + limits.sign:g} s"))
        else:
            if quiet >= limits.quiet and not self._is_asked:
                self._is_asked = True
                self._protocol.send_ping(b"")
                self._send()
            self._alarm.set(now + limits.quiet / _LOOKS)

    def _note_sign(self) -> None:
        self._sign_at = self._loop.time()
        self._seen_at_sign = self._seen
        self._is_asked = False

    def _lose(self, loss: Exception) -> None:
        if isinstance(loss, EOFError):
            self._protocol.receive_eof()
            self._end(end_of(self._protocol))
        else:
            self._end(ConnectionDropped(f"the connection broke: {loss}"))

    def _end(self, error: Exception) -> None:
        self._error = error
        self._unparsed = memoryview(b"")
        self._fragments.clear()
        self._alarm.stop()
        self._send()
        self._transport.close()
        # What was written may go out; for a server that takes none of it nobody waits.
        self._loop.call_later(_FAREWELL, self._transport.abort)
        self._wake()


async def _dial(to: Destination, guard: Guard, limits: SocketLimits) -> Connection:
    resolver = GuardedResolver(guard, _NO_POOL, limits.connect)
    try:
        origin = to.origin
        place = Endpoint(origin.host, origin.port, origin.scheme == "https")
        return await ConnectionPool(guard, _NO_POOL, resolver).dial(place, limits.connect)
    finally:
        await resolver.close()


def _upgrade(protocol: ClientProtocol, agent: str) -> bytes:
    request = protocol.connect()
    request.headers["User-Agent"] = agent
    return request.serialize()


def _check(protocol: ClientProtocol, connection: Connection) -> None:
    """Raises unless the server has switched, and to what was asked for."""
    status, headers = connection.status, connection.headers
    if status in _REDIRECTS and "Location" in headers:
        where = clean(headers["Location"])
        raise NotUpgraded(status, f"redirected ({status}) to {where}; use that address instead")
    if status != _SWITCHED:
        raise NotUpgraded(status, f"answered {status} instead of opening a WebSocket")
    try:
        protocol.process_response(Head(status, "", Headers(headers.items())))
    except InvalidHandshake as error:
        raise BadAnswer(f"not a WebSocket's handshake: {clean(str(error))}") from None
