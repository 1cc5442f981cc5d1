"""One connection to a server: a request goes out, one response comes back, piece by piece."""

from __future__ import annotations

import asyncio
import math
import ssl
from collections.abc import Callable
from functools import lru_cache
from typing import cast

import httptools
from multidict import CIMultiDict, CIMultiDictProxy

from trawlnet.net.client.dial import Endpoint
from trawlnet.net.client.framing import Framing, Overhead, framing_of, is_folded, is_idle_tls
from trawlnet.net.client.low_water import SocketLowWater
from trawlnet.net.client.patience import TICK, Alarm, Patience
from trawlnet.net.trouble import BadAnswer, ConnectionDropped, Garbled, TooLarge, Truncated

SCRATCH = 256 * 1024  # Bytes received at a time.
_FIRST = 64 * 1024  # Bytes received with a head: what comes of its body there is copied twice.
_SLICE = 16 * 1024  # Bytes parsed at a time.
_PLENTY = 768 * 1024  # Bytes that wait for their reader before the server has to.
_TO_THE_END = 1 << 62  # Bytes: nothing is enough before the last one.
_PROXYS_HEAD = 16 * 1024  # Bytes.
_INFORMATIONAL = range(102, 200)
_BODILESS = (204, 304)
_LOOK = 0.5  # Seconds between looks at what TLS takes in.
_BLANKS = b" \t"


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
        self.idle_since = 0.0
        self.is_open = True
        self.status = 0  # Of the response under way.
        self.headers: CIMultiDictProxy[str] = _NO_HEADERS
        self.length: int | None = None  # Of its body, as far as that was announced.
        self.is_complete = True  # It has arrived to its last byte, and nothing is under way.
        self._scratch = scratch
        self._first = scratch[:_FIRST]
        self._low_water = low_water
        self._received = received
        self._seen = 0  # Bytes that came up to here, of all responses.
        self._transport: asyncio.Transport
        self._loop = asyncio.get_running_loop()
        self._alarm = Alarm(self._look)
        self._waiter: asyncio.Future[None] | None = None
        self._enough = 0  # Bytes that the waiter waits for.
        self._target: memoryview | None = None  # Where the rest of the body goes.
        self._pieces: list[bytes] = []
        self._waiting = 0  # Bytes of them,
        self._filled = 0  # and bytes that are where they are to stay.
        self._paused = False
        self._is_headed = False
        self._is_parsed = True  # What comes is for the parser.
        self._error: Exception | None = None
        self._keeps = False

    @property
    def is_reusable(self) -> bool:
        return self.is_open and self.is_complete and self._keeps and self._error is None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def close(self) -> None:
        self.is_open = False
        self._alarm.stop()
        self._transport.abort()

    async def ask(self, request: bytes, longest_head: int, patience: Patience) -> None:
        """Sends a request, and waits for the head of its response. Waiting, for the body as well,
        uses up the patience; when there is none left, it raises TimeoutError."""
        if not self.is_open:  # The server spoke before it was asked, or hung up.
            raise ConnectionDropped("the connection broke before a request")
        self._parser = httptools.HttpResponseParser(self)
        self._parser.set_dangerous_leniencies(
            lenient_headers=True,
            lenient_optional_cr_before_lf=True,
            lenient_spaces_after_chunk_size=True,
        )
        self._patience = patience
        self._overhead = Overhead(longest_head)
        self._framing = _NO_FRAMING
        self._fields: list[tuple[str, str]] = []
        self._parts: list[bytes] = []
        self._is_headed = False
        self._is_parsed = True
        self._left: int | None = None  # Bytes of a body that passes by the parser.
        self._pieces.clear()
        self._waiting = self._filled = 0
        self._keeps = False
        self.is_complete = False
        self._read_on()
        self._transport.write(request)
        while not self._is_headed or self._error is not None:
            await self._news()

    async def tunnel(
        self, request: bytes, secure: ssl.SSLContext, host: str, patience: Patience
    ) -> None:
        """Has a proxy lead on to a host, and speaks TLS with that."""
        await self.ask(request, _PROXYS_HEAD, patience)
        if not 200 <= self.status < 300 or self._pieces:
            raise BadAnswer(f"the proxy answered {self.status}")
        self.is_complete = True  # Such an answer has no body, whatever its headers say.
        transport = await self._loop.start_tls(self._transport, self, secure, server_hostname=host)
        if transport is None:
            raise ConnectionDropped("the connection broke while TLS was agreed on")
        self._transport = transport

    async def piece(self, enough: int = 1) -> bytes:
        """What has come of the body, or so many bytes of what comes next; empty at its end."""
        self._refuse_coding()
        while not self._pieces and not self.is_complete:
            self._read_on()
            await self._news(enough)
        piece = self._taken()
        self._read_on()
        return piece

    async def rest(self) -> bytes:
        """The body to its end, which the caller knows not to be too large."""
        self._refuse_coding()
        while not self.is_complete:
            self._read_on()
            await self._news(_TO_THE_END)
        return self._taken()

    async def fill(self, body: memoryview) -> None:
        """The same, received where it is to stay. The memory is as long as the body."""
        self._refuse_coding()
        begun = self._taken()
        body[: len(begun)] = begun
        self._filled = len(begun)
        if not self.is_complete:
            self._target = body[len(begun) :]
            self._expect(len(self._target))
        try:
            while not self.is_complete:
                self._read_on()
                await self._news(_TO_THE_END)
            self._filled = 0
        finally:
            self._target = None

    @property
    def untold(self) -> int:
        """Bytes of the body that have come, and that nobody was given as a piece."""
        return self._waiting + self._filled

    @property
    def framing_bytes(self) -> int:
        """Bytes that came after the head and are no body."""
        return self._overhead.framing

    def _refuse_coding(self) -> None:
        """Not before somebody wants the body: the status counts however its page is sent."""
        if self._framing.refusal and self.status not in _BODILESS:
            raise Garbled(self._framing.refusal)

    def _taken(self) -> bytes:
        pieces, self._waiting = self._pieces, 0
        taken = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        pieces.clear()
        return taken

    async def _news(self, enough: int = 0) -> None:
        """Waits for the head, then for so many bytes or the end. Raises what went wrong."""
        if self._error is not None:
            raise self._error
        self._enough = enough
        self._waiter = self._loop.create_future()
        begun = self._loop.time()
        self._give_up_at = begun + self._patience.left
        self._set_alarm(begun)
        try:
            await self._waiter
        finally:
            self._alarm.set(math.inf)
            self._patience.left -= self._loop.time() - begun
            self._waiter = None
        if self._error is not None:
            raise self._error

    def _read_on(self) -> None:
        if self._paused:
            self._paused = False
            self._transport.resume_reading()

    def _expect(self, left: int) -> None:
        if self._low_water is not None:
            self._low_water.set(left)

    def _pause(self) -> None:
        self._paused = True
        self._transport.pause_reading()

    def _set_alarm(self, now: float) -> None:
        at = self._give_up_at
        self._alarm.set(at if self._received is None else min(at, now + _LOOK))

    def _look(self) -> None:
        if self._waiter is None or self._waiter.done():
            return
        now = self._loop.time()
        if self._received is not None and is_idle_tls(self._received(), self._seen):
            self._fail(TooLarge("TLS records without end that hold no answer"))
        elif now + TICK >= self._give_up_at:
            self._fail(self._patience.lost())
        else:
            self._set_alarm(now)
            return
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    # What the transport calls.

    def get_buffer(self, sizehint: int) -> memoryview:
        if self._target is not None:
            return self._target
        # Of chunks little at a time: a chunk of one byte costs as much as one of a thousand.
        return self._first if self._is_parsed else self._scratch

    def buffer_updated(self, nbytes: int) -> None:
        self._seen += nbytes
        if self.is_complete:
            # Nobody asked: the last response ran over its length, or this is a forged one.
            self.close()
            return
        if self._target is not None:
            self._filled += nbytes
            self._target = self._target[nbytes:] or None
            self.is_complete = self._target is None
            self._expect(len(self._target or b""))
        elif self._is_parsed:
            self._parse(self._scratch[:nbytes])
        else:
            self._count(self._scratch[:nbytes])
        is_over = self.is_complete or self._error is not None
        if is_over or (self._is_headed and self._waiting >= self._enough):
            self._wake()

    def eof_received(self) -> None:
        """The transport closes after this, and tells us."""

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_open = False
        self._alarm.stop()
        if self.is_complete or self._error is not None:
            return
        if not self._is_headed:
            self._fail(
                ConnectionDropped(f"the connection broke before an answer: {exc or 'closed'}")
            )
        elif exc is None and self._ends_with_the_connection():
            self.is_complete = True
        else:
            self._fail(Truncated("the connection ended within the body"))
        self._wake()

    def _ends_with_the_connection(self) -> bool:
        if not self._is_parsed:
            return self._left is None
        return not self._framing.is_chunked

    def _parse(self, came: memoryview) -> None:
        was_headed = self._is_headed
        try:
            if len(came) <= _SLICE:
                self._feed_part(came)
            else:
                self._feed(came)
        except httptools.HttpParserUpgrade:
            self.is_complete = True
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
        if self.is_complete and not was_headed:
            return  # All of it came at once.
        if too_much := self._too_much(len(came), body, was_headed):
            self._fail(TooLarge(too_much))
        elif self._is_headed and not self.is_complete and not self._framing.is_chunked:
            self._pass_by()

    def _feed(self, came: memoryview) -> None:
        """Little at a time where there may be header lines: the parser copies all of a value for
        every line that it is folded into."""
        while len(came) > _SLICE and (self._framing.is_chunked or not self._is_headed):
            self._feed_part(came[:_SLICE])
            came = came[_SLICE:]
        self._feed_part(came)

    def _feed_part(self, part: memoryview) -> None:
        bodies = len(self._parts)
        self._parser.feed_data(part)
        if len(self._parts) == bodies and is_folded(part):
            raise TooLarge("header lines that are folded too often")

    def _too_much(self, size: int, body: int, was_headed: bool) -> str:
        if was_headed:
            return self._overhead.count_framed(size, body)
        if not self._is_headed:
            return self._overhead.count_head(size)
        # Where the head ends among these bytes is not known: they are let pass.
        self._overhead.end_head(body)
        return ""

    def _pass_by(self) -> None:
        """What comes of this body is not for the parser."""
        self._is_parsed = False
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
            self.is_complete = True

    def _put(self, piece: bytes) -> None:
        self._pieces.append(piece)
        self._waiting += len(piece)
        if self._waiting > max(_PLENTY, self._enough) and not self._paused:
            self._pause()

    def _fail(self, error: Exception) -> None:
        self._error = error
        self.close()

    # What the parser calls.

    def on_message_begin(self) -> None:
        if self.is_complete:
            self._fail(BadAnswer("a second answer to one request"))
        self._fields.clear()

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._is_headed:  # In the trailer, which nobody reads.
            return
        text = value.rstrip(_BLANKS).decode("utf-8", "surrogateescape")
        self._fields.append((_name(name), text))

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if status == 100 or status in _INFORMATIONAL:
            return
        self.status = status
        self.headers = headers = CIMultiDictProxy(CIMultiDict(self._fields))
        self._framing = framing_of(headers)
        self.length = self._left = self._framing.length
        self._keeps = self._parser.should_keep_alive() and not self._is_doubtful()
        self._is_headed = True

    def _is_doubtful(self) -> bool:
        """Whether others may see the end of this body elsewhere: HTTP/1.0 knows no chunks."""
        if not self._framing.is_chunked:
            return bool(self._framing.refusal)
        return self._parser.get_http_version() == "1.0"

    def on_body(self, part: bytes) -> None:
        self._parts.append(part)

    def on_message_complete(self) -> None:
        if self._is_headed:
            self.is_complete = True


_NO_HEADERS: CIMultiDictProxy[str] = CIMultiDictProxy(CIMultiDict())
_NO_FRAMING = Framing(False, None)


@lru_cache(maxsize=128)  # The same few come in every head.
def _name(raw: bytes) -> str:
    """The parser sees a length in `Content-Length : 4 `, and leaves the blanks for us to see."""
    return raw.rstrip(_BLANKS).decode("utf-8", "surrogateescape")
