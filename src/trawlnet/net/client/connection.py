"""One connection to a server: a request goes out, one response comes back, piece by piece."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from typing import cast

import httptools
from multidict import CIMultiDict, CIMultiDictProxy

from trawlnet.net.client.connection_state import ConnectionState
from trawlnet.net.client.dial import Endpoint
from trawlnet.net.client.framing import UNCODED, Overhead, framing_of, header, is_folded, length_of
from trawlnet.net.client.low_water import SocketLowWater
from trawlnet.net.client.patience import Patience
from trawlnet.net.client.response_wait import ResponseWait
from trawlnet.net.trouble import BadAnswer, ConnectionDropped, Garbled, TooLarge, Truncated

SCRATCH = 256 * 1024  # Bytes received at a time.
_FIRST = 64 * 1024  # Bytes received with a head: what comes of its body there is copied twice.
_SLICE = 16 * 1024  # Bytes parsed at a time.
_PLENTY = 768 * 1024  # Bytes that wait for their reader before the server has to.
_TO_THE_END = 1 << 62  # Bytes: nothing is enough before the last one.
_PROXYS_HEAD = 16 * 1024  # Bytes.
_INFORMATIONAL = range(102, 200)
_BODILESS = (204, 304)

_READY, _HEAD, _PARSED, _COUNTED, _FILLED, _ENDED, _BROKEN = ConnectionState
_WHOLE = (_READY, _ENDED)
_BODY = (_PARSED, _COUNTED, _FILLED)


class Connection(asyncio.BufferedProtocol):
    """Framing is the parser's business, but for a body whose length is known or that ends with the
    connection: those bytes pass by it.

    All connections of a pool receive into the same scratch: each takes out what came at once.
    """

    def __init__(
        self,
        place: Endpoint,
        scratch: memoryview,
        low_water: SocketLowWater | None = None,
        received: Callable[[], int] | None = None,
    ) -> None:
        """`received` counts the bytes below TLS, where that is between the server and us."""
        self.place = place
        self.received = received
        self.idle_since = 0.0
        self.status = 0  # Of the response under way.
        self.headers: CIMultiDictProxy[str] = _NO_HEADERS
        self.length: int | None = None  # Of its body, as far as that was announced.
        self._state = _READY
        self._after = _ENDED  # The state once the response is whole.
        self._error: Exception = ConnectionDropped("the connection was closed")  # If it is broken.
        self._scratch = scratch
        self._first = scratch[:_FIRST]
        self._low_water = low_water
        self._reader = ResponseWait(self._fail, received)
        self._transport: asyncio.Transport
        self._target = _NOWHERE  # Where the rest of a body goes that is filled.
        self._pieces: list[bytes] = []
        self._waiting = 0  # Bytes of them,
        self._filled = 0  # and bytes that are where they are to stay.
        self._is_paused = False

    @property
    def is_open(self) -> bool:
        return self._state is not _ENDED and self._state is not _BROKEN

    @property
    def is_complete(self) -> bool:
        """The response has arrived to its last byte, and nothing is under way."""
        return self._state in _WHOLE

    @property
    def is_reusable(self) -> bool:
        return self._state is _READY

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def close(self) -> None:
        self._state = _ENDED if self._state in _WHOLE else _BROKEN
        self._reader.stop()
        self._transport.abort()

    async def ask(self, request: bytes, longest_head: int, patience: Patience) -> None:
        """Sends a request, and waits for the head of its response. Waiting, for the body as well,
        uses up the patience; when there is none left, it raises TimeoutError."""
        if self._state is not _READY:  # The server spoke before it was asked, or hung up.
            raise ConnectionDropped("the connection broke before a request")
        self._parser = httptools.HttpResponseParser(self)
        self._parser.set_dangerous_leniencies(
            lenient_headers=True,
            lenient_optional_cr_before_lf=True,
            lenient_spaces_after_chunk_size=True,
        )
        self._patience = patience
        self._longest_head = longest_head
        self._overhead: Overhead | None = None  # Of a response that does not come at once.
        self._framing = UNCODED
        self._fields: list[tuple[str, str]] = []
        self._parts: list[bytes] = []
        self._left: int | None = None  # Bytes of a body that passes by the parser.
        self._pieces.clear()
        self._waiting = self._filled = 0
        self._state = _HEAD
        self._read_on()
        self._transport.write(request)
        while self._state is _HEAD:
            await self._reader.wait(patience)
        if self._state is _BROKEN:
            raise self._error

    async def tunnel(
        self, request: bytes, secure: ssl.SSLContext, host: str, patience: Patience
    ) -> None:
        """Has a proxy lead on to a host, and speaks TLS with that."""
        await self.ask(request, _PROXYS_HEAD, patience)
        if not 200 <= self.status < 300 or self._pieces:
            raise BadAnswer(f"the proxy answered {self.status}")
        self._state = _READY  # Such an answer has no body, whatever its headers say.
        loop = asyncio.get_running_loop()
        transport = await loop.start_tls(self._transport, self, secure, server_hostname=host)
        if transport is None:
            raise ConnectionDropped("the connection broke while TLS was agreed on")
        self._transport = transport

    def hand_over(self, protocol: asyncio.Protocol) -> bytes:
        """Another protocol goes on with a connection that the server has switched to it. Returns
        what came behind the head; the protocol resumes reading when it has taken that in."""
        if not self._is_paused or self._transport.is_closing():
            raise ConnectionDropped("the connection broke after it was switched")
        self._transport.set_protocol(protocol)
        protocol.connection_made(self._transport)
        return self._beyond

    async def piece(self, enough: int = 1) -> bytes:
        """What has come of the body, or so many bytes of what comes next; empty at its end."""
        if self._framing is not UNCODED:
            self._refuse_coding()
        while not self._pieces and self._state not in _WHOLE:
            await self._news(enough)
        piece = self._taken()
        self._read_on()
        return piece

    async def rest(self) -> bytes:
        """The body to its end, which the caller knows not to be too large."""
        if self._framing is not UNCODED:
            self._refuse_coding()
        while self._state not in _WHOLE:
            await self._news(_TO_THE_END)
        return self._taken()

    async def fill(self, body: memoryview) -> None:
        """The same, received where it is to stay. The memory is as long as the body."""
        if self._framing is not UNCODED:
            self._refuse_coding()
        begun = self._taken()
        body[: len(begun)] = begun
        self._filled = len(begun)
        if self._state is _COUNTED:
            self._state = _FILLED
            self._target = body[len(begun) :]
            self._expect(len(self._target))
        try:
            while self._state not in _WHOLE:
                await self._news(_TO_THE_END)
            self._filled = 0
        finally:
            self._target = _NOWHERE
            if self._state is _FILLED:  # Nobody waits for the rest any more.
                self.close()

    @property
    def untold(self) -> int:
        """Bytes of the body that have come, and that nobody was given as a piece."""
        return self._waiting + self._filled

    @property
    def framing_bytes(self) -> int:
        """Bytes that came after the head and are no body."""
        return self._overhead.framing if self._overhead else 0

    def _refuse_coding(self) -> None:
        """Not before somebody wants the body: the status counts however its page is sent."""
        if self._framing.refusal and self.status not in _BODILESS:
            raise Garbled(self._framing.refusal)

    def _taken(self) -> bytes:
        pieces, self._waiting = self._pieces, 0
        taken = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        pieces.clear()
        return taken

    async def _news(self, enough: int) -> None:
        """Waits for so many bytes of the body, or its end. Raises what went wrong."""
        if self._state is not _BROKEN:
            self._read_on()
            await self._reader.wait(self._patience, enough)
        if self._state is _BROKEN:
            raise self._error

    def _read_on(self) -> None:
        if self._is_paused:
            self._is_paused = False
            self._transport.resume_reading()

    def _expect(self, left: int) -> None:
        if self._low_water is not None:
            self._low_water.set(left)

    def _pause(self) -> None:
        self._is_paused = True
        self._transport.pause_reading()

    # What the transport calls.

    def get_buffer(self, sizehint: int) -> memoryview:
        if self._state is _FILLED:
            return self._target
        # Of chunks little at a time: a chunk of one byte costs as much as one of a thousand.
        return self._scratch if self._state is _COUNTED else self._first

    def buffer_updated(self, nbytes: int) -> None:
        self._reader.seen += nbytes
        state = self._state
        if state is _HEAD or state is _PARSED:
            self._parse(self._scratch[:nbytes])
        elif state is _COUNTED:
            self._count(self._scratch[:nbytes])
        elif state is _FILLED:
            self._advance(nbytes)
        else:
            # Nobody asked: the last response ran over its length, or this is a forged one.
            self.close()
            return
        state = self._state
        if state is not _HEAD and (self._waiting >= self._reader.enough or state not in _BODY):
            self._reader.wake()

    def eof_received(self) -> None:
        """The transport closes after this, and tells us."""

    def connection_lost(self, exc: Exception | None) -> None:
        self._reader.stop()
        if self._state in _WHOLE:
            self._state = _ENDED
        elif self._state is _HEAD:
            self._fail(
                ConnectionDropped(f"the connection broke before an answer: {exc or 'closed'}")
            )
        elif exc is None and self._state is _COUNTED and self._left is None:
            self._state = _ENDED
        elif self._state is not _BROKEN:
            self._fail(Truncated("the connection ended within the body"))
        self._reader.wake()

    def _parse(self, came: memoryview) -> None:
        was_headed = self._state is _PARSED
        self._unparsed = came
        try:
            if len(came) <= _SLICE:
                self._feed_part(came)
            else:
                self._feed(came)
        except httptools.HttpParserUpgrade as upgrade:
            if self._state is not _BROKEN:
                self._state = _ENDED  # What comes next is another protocol.
                self._beyond = bytes(self._unparsed[upgrade.args[0] :])
                self._pause()
        except TooLarge as error:
            self._fail(error)
            return
        except httptools.HttpParserError as error:
            self._fail(BadAnswer(str(error)))
            return
        body = 0
        if self._parts:
            piece = self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
            self._parts.clear()
            self._put(piece)
            body = len(piece)
        state = self._state
        if state is _BROKEN or (state in _WHOLE and not was_headed):
            return  # Or all of it came at once.
        if too_much := self._too_much(len(came), body, was_headed):
            self._fail(TooLarge(too_much))
        elif state is _PARSED and not self._framing.is_chunked:
            self._pass_by()

    def _feed(self, came: memoryview) -> None:
        """Little at a time where there may be header lines: the parser copies all of a value for
        every line that it is folded into."""
        while len(came) > _SLICE and (self._framing.is_chunked or self._state is _HEAD):
            self._feed_part(came[:_SLICE])
            self._unparsed = came = came[_SLICE:]
        self._feed_part(came)

    def _feed_part(self, part: memoryview) -> None:
        bodies = len(self._parts)
        self._parser.feed_data(part)
        if len(self._parts) == bodies and is_folded(part):
            raise TooLarge("header lines that are folded too often")

    def _too_much(self, size: int, body: int, was_headed: bool) -> str:
        overhead = self._overhead
        if overhead is None:
            overhead = self._overhead = Overhead(self._longest_head)
        if was_headed:
            return overhead.count_framed(size, body)
        if self._state is _HEAD:
            return overhead.count_head(size)
        # Where the head ends among these bytes is not known: they are let pass.
        overhead.end_head(body)
        return ""

    def _pass_by(self) -> None:
        """What comes of this body is not for the parser."""
        self._state = _COUNTED
        if self._left is not None:
            self._left -= self._waiting
            if self._left > _FIRST:
                self._pause()  # Its reader says where it goes, and need not copy it.

    def _count(self, came: memoryview) -> None:
        """Bytes of a body that is not parsed."""
        if self._left is None:
            self._put(bytes(came))
            return
        if len(came) > self._left:
            self._fail(BadAnswer("bytes beyond the length of the body"))
            return
        self._left -= len(came)
        self._put(bytes(came))
        if not self._left:
            self._state = self._after

    def _advance(self, nbytes: int) -> None:
        """Bytes of a body that were received where it is to stay."""
        self._filled += nbytes
        self._target = self._target[nbytes:]
        self._expect(len(self._target))
        if not self._target:
            self._state = self._after

    def _put(self, piece: bytes) -> None:
        self._pieces.append(piece)
        self._waiting += len(piece)
        if self._waiting > max(_PLENTY, self._reader.enough) and not self._is_paused:
            self._pause()

    def _fail(self, error: Exception) -> None:
        self._error, self._state = error, _BROKEN
        self.close()

    # What the parser calls.

    def on_message_begin(self) -> None:
        if self._state is not _HEAD:
            self._fail(BadAnswer("a second answer to one request"))
        self._fields.clear()

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._state is _HEAD:  # Else in the trailer, which nobody reads.
            self._fields.append(header(name, value))

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if status == 100 or status in _INFORMATIONAL or self._state is not _HEAD:
            return
        self.status = status
        self.headers = headers = CIMultiDictProxy(CIMultiDict(self._fields))
        self._framing = framing = framing_of(headers)
        self.length = self._left = length_of(headers) if framing is UNCODED else None
        is_doubtful = framing is not UNCODED and self._is_doubtful()
        is_kept = self._parser.should_keep_alive() and not is_doubtful
        self._after = _READY if is_kept else _ENDED
        self._state = _PARSED

    def _is_doubtful(self) -> bool:
        """Whether others may see the end of this body elsewhere: HTTP/1.0 knows no chunks."""
        return not self._framing.is_chunked or self._parser.get_http_version() == "1.0"

    def on_body(self, part: bytes) -> None:
        self._parts.append(part)

    def on_message_complete(self) -> None:
        if self._state is _PARSED:
            self._state = self._after


_NO_HEADERS: CIMultiDictProxy[str] = CIMultiDictProxy(CIMultiDict())
_NOWHERE = memoryview(b"")
