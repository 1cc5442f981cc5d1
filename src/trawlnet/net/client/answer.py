"""What a server answers: a whole response, or a body that is read under limits as it comes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from io import BytesIO

from multidict import CIMultiDictProxy

from trawlnet.engine.outcome import Outcome, Reason
from trawlnet.net.client.connection import Connection
from trawlnet.net.client.inflate import Inflater, inflater_for
from trawlnet.net.client.patience import Patience
from trawlnet.net.client.pool import ConnectionPool
from trawlnet.net.lane import lane_of
from trawlnet.net.redirect import Leg
from trawlnet.net.trouble import (
    EXPECTED,
    TooLarge,
    Trouble,
    reason_for_answer,
    trouble_from,
)


@dataclass(frozen=True, slots=True)
class RequestLimits:
    """The bounds of one request. Deadlines count the waiting for servers, all hops together;
    the wait for a turn at the gate and the reader's own work are not the server's fault."""

    total: float = 300.0  # Seconds.
    connect: float = 10.0  # Seconds, for each connection.
    wire: int = 64 * 1024 * 1024  # Bytes of body as received, with what it is framed in.
    inflated: int = 256 * 1024 * 1024  # Bytes of body after inflating.
    # Bytes of a head, or in a row of anything else that is no body, give or take a packet.
    header: int = 64 * 1024
    error_body: int = 64 * 1024  # Bytes kept of the body that comes with an error status.
    redirects: int = 5  # 0: a redirect is returned like any other response.
    longest_wait: float = 3600.0  # Seconds that a server may ask us to stay away.


@dataclass(frozen=True, slots=True)
class Response:
    """An answer whose body was read to its end."""

    status: int
    headers: CIMultiDictProxy[str]
    body: bytes
    url: str  # Where the answer came from, after redirects.
    hops: tuple[str, ...]  # The URLs that led there.
    elapsed: float  # Seconds of waiting for servers.
    wire_bytes: int
    wait: float | None  # The server's own word on when to come back.

    @property
    def reason(self) -> Reason:
        """What its status means for a task."""
        return reason_for_answer(self.status, self.wait)


def outcome_of(answer: Response | Trouble) -> Outcome:
    """The outcome of a task whose request came to this and no more."""
    detail = answer.detail if isinstance(answer, Trouble) else f"HTTP {answer.status}"
    return Outcome(answer.reason, wait=answer.wait, detail=detail, lane=elsewhere(answer))


def elsewhere(answer: Response | Trouble) -> str:
    """The lane that an answer tells something about, if redirects led away from the one asked."""
    if not answer.hops:
        return ""
    asked, answered = lane_of(answer.hops[0]), lane_of(answer.url)
    return answered if answered != asked else ""


_GULP = 256 * 1024  # Bytes of a body that are worth its reader's while.
_NO_PIECES: Iterator[bytes] = iter(())


class Stream:
    """A response whose body is still on its way: `async for chunk in stream`.

    A chunk is bytes, or, as the last one, the Trouble that cut the body off.
    """

    def __init__(
        self,
        connection: Connection,
        pool: ConnectionPool,
        leg: Leg,
        limits: RequestLimits,
        patience: Patience,
        wait: float | None,
    ) -> None:
        self.status = connection.status
        self.headers = connection.headers
        self.url = leg.url
        self.hops = leg.hops
        self.wait = wait
        self.wire_bytes = 0
        self.inflated_bytes = 0
        self._connection: Connection | None = connection
        self._pool = pool
        self._limits = limits
        self._patience = patience
        self._is_coded = "Content-Encoding" in self.headers
        self._inflater: Inflater | None = None
        self._pieces: Iterator[bytes] = _NO_PIECES
        self._over = False

    @property
    def reason(self) -> Reason:
        return reason_for_answer(self.status, self.wait)

    @property
    def elapsed(self) -> float:
        """Seconds of waiting for servers so far."""
        return self._patience.spent

    def __aiter__(self) -> Stream:
        return self

    async def __anext__(self) -> bytes | Trouble:
        if self._over:
            raise StopAsyncIteration
        try:
            piece = await self._next_piece()
        except EXPECTED as error:
            self._over = True
            return trouble_from(error, self.url, self.hops, in_body=True)
        if not piece:
            raise StopAsyncIteration
        return piece

    async def whole(self) -> Response | Trouble:
        """The rest of the body at once, under the same limits."""
        try:
            body = await self._rest()
        except EXPECTED as error:
            self.wire_bytes += self._open_connection().untold
            return trouble_from(error, self.url, self.hops, in_body=True)
        return Response(
            self.status,
            self.headers,
            body,
            self.url,
            self.hops,
            self._patience.spent,
            self.wire_bytes,
            self.wait,
        )

    @property
    def announced(self) -> int | None:
        """The size of the body, where that is known and it comes as it is."""
        return None if self._is_coded else self._open_connection().length

    async def fill(self, body: bytearray | memoryview) -> Trouble | None:
        """The whole body into memory of just the announced size; or what cut it off."""
        connection = self._open_connection()
        try:
            self._refuse_announced()
            with memoryview(body) as view:
                await connection.fill(view)
            self._note_received(len(body))
            self._note_inflated(len(body))
        except EXPECTED as error:
            self.wire_bytes += connection.untold
            return trouble_from(error, self.url, self.hops, in_body=True)
        self._over = True
        return None

    def close(self) -> None:
        """Let go of the connection; one with an unread body is not used again."""
        if self._connection is not None:
            self._pool.give_back(self._connection)
            self._connection = None

    async def _rest(self) -> bytes:
        if self.status >= 400:
            return await self._error_page()
        self._refuse_announced()
        connection = self._open_connection()
        if not self._is_coded and (connection.is_complete or connection.length is not None):
            body = await connection.rest()
            self._note_received(len(body))
            self._note_inflated(len(body))
            return body
        pieces = BytesIO()
        while piece := await self._next_piece():
            pieces.write(piece)
        return pieces.getvalue()

    async def _error_page(self) -> bytes:
        """As much as is useful: the status is the answer, however badly its page is served."""
        body, most = BytesIO(), self._limits.error_body
        try:
            while (left := most - body.tell()) > 0 and (piece := await self._next_piece(left)):
                body.write(piece)
        except EXPECTED:
            pass
        return body.getvalue()[:most]

    async def _next_piece(self, enough: int = _GULP) -> bytes:
        """Empty at the end of the body."""
        if self.wire_bytes == 0:
            self._refuse_announced()
        while True:
            for piece in self._pieces:
                # Inflating can go on for long without waiting for anything: let others run.
                await asyncio.sleep(0)
                if piece:
                    self._note_inflated(len(piece))
                    return piece
            # A little of what is to be inflated may be a lot.
            chunk = await self._open_connection().piece(1 if self._is_coded else enough)
            if not chunk:
                return self._finished()
            if self.wire_bytes == 0:
                # Not before: the coding of a body that nobody reads does not matter.
                self._inflater = inflater_for(self.headers.getall("Content-Encoding", ()))
            self._note_received(len(chunk))
            if self._inflater is None:
                self._note_inflated(len(chunk))
                return chunk
            self._pieces = self._inflater.feed(chunk)

    def _open_connection(self) -> Connection:
        if self._connection is None:
            raise RuntimeError("the response was released")
        return self._connection

    def _refuse_announced(self) -> None:
        """Not before somebody wants the body: of one that is left alone the length is no matter."""
        announced = self._open_connection().length or 0
        if self.status < 300 and announced > self._limits.wire:
            raise TooLarge(f"{announced} bytes announced, {self._limits.wire} allowed")

    def _note_received(self, size: int) -> None:
        self.wire_bytes += size
        framing = 0 if self._connection is None else self._connection.framing_bytes
        if self.wire_bytes + framing > self._limits.wire:
            raise TooLarge(f"more than {self._limits.wire} bytes on the wire")

    def _note_inflated(self, size: int) -> None:
        self.inflated_bytes += size
        if self.inflated_bytes > self._limits.inflated:
            raise TooLarge(f"more than {self._limits.inflated} bytes inflated")

    def _finished(self) -> bytes:
        self._over = True
        if self._inflater is not None:
            self._inflater.finish()
        return b""
