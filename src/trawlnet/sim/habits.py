"""Habits of simulated hosts: how a server that could answer honestly misbehaves instead.

A world makes the honest answer and hands it to `misbehave` together with the number of the
request on that host; what happens follows from that number, not from the time of day.
"""

from __future__ import annotations

import asyncio
import random
import socket
import struct
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from email.utils import formatdate
from enum import StrEnum

from aiohttp import web

from trawlnet.sim.bombs import gzip_bomb, zstd_bomb


class Habit(StrEnum):
    GOOD = "good"
    SLOW = "slow"  # Every answer comes late.
    DRIP = "drip"  # The body comes a few bytes at a time.
    FLAPPING = "flapping"  # Some of every few requests fail.
    THROTTLE_RETRY_AFTER = "throttle_retry_after"  # 429, Retry-After in seconds.
    THROTTLE_DATE = "throttle_date"  # 429, Retry-After as an HTTP date.
    THROTTLE_RESET = "throttle_reset"  # 429, RateLimit-Reset as Unix seconds.
    THROTTLE_BARE = "throttle_bare"  # 429 without a word.
    SERVER_ERROR = "server_error"
    TRUNCATING = "truncating"  # Less body than was announced.
    LYING = "lying"  # The right headers over another body; a world may lie better.
    ENDLESS_CURSOR = "endless_cursor"  # Left to the world: pages that never end.
    HUGE = "huge"  # A body without end.
    BOMB = "bomb"  # Small on the wire, gigabytes when inflated.
    LONG_HEADERS = "long_headers"  # Headers without end.
    REDIRECT_PRIVATE = "redirect_private"
    REDIRECT_LOOP = "redirect_loop"
    GARBAGE = "garbage"  # Not HTTP at all.
    STALL = "stall"  # Takes the request and never answers.
    RESET = "reset"  # RST in the middle of the body.
    DEAD = "dead"  # Nothing listens; a world must not bind its address.

    @property
    def recovers(self) -> bool:
        """Whether a patient client gets every honest answer in the end."""
        return self in _RECOVERING


THROTTLES = frozenset(
    {
        Habit.THROTTLE_RETRY_AFTER,
        Habit.THROTTLE_DATE,
        Habit.THROTTLE_RESET,
        Habit.THROTTLE_BARE,
    }
)
_RECOVERING = THROTTLES | {Habit.GOOD, Habit.SLOW, Habit.FLAPPING}


@dataclass(frozen=True, slots=True)
class Temper:
    """How strongly habits show. Times in seconds, sizes in bytes."""

    slow: float = 1.0
    drip_gap: float = 0.5
    drip_size: int = 16
    fails: int = 2  # A flapping host fails so many requests ...
    fails_of: int = 5  # ... of so many, starting with the first.
    throttle_every: int = 3  # A throttling host refuses each so-manyth request; 1: every one.
    throttle_wait: int = 1
    huge_size: int = 1 << 40
    bomb_size: int = 2 << 30  # Inflated.
    longest: float = 600.0  # No stall or drip outlasts this.


DEFAULT_TEMPER = Temper()
Respond = Callable[[], Awaitable[web.StreamResponse]]


class Severed(web.StreamResponse):
    """Tells aiohttp that the connection is over: nothing more is sent, nothing is logged."""

    async def prepare(self, request: web.BaseRequest) -> None:
        raise ConnectionResetError("the simulated host ended the connection")


async def misbehave(
    habit: Habit,
    request: web.BaseRequest,
    respond: Respond,
    *,
    turn: int,
    now: float,
    temper: Temper = DEFAULT_TEMPER,
) -> web.StreamResponse:
    """Answer as a host of this habit does; `turn` counts the requests to that host from 0."""
    match habit:
        case Habit.GOOD | Habit.ENDLESS_CURSOR:
            return await respond()
        case Habit.SLOW:
            await asyncio.sleep(temper.slow)
            return await respond()
        case Habit.FLAPPING:
            if turn % temper.fails_of >= temper.fails:
                return await respond()
            if turn % 2 == 0:
                return _server_error(turn)
            # Not a bare close: clients repeat a request by themselves when an idle connection ends.
            return await _truncate(request, await respond(), chunked=False)
        case Habit.SERVER_ERROR:
            return _server_error(turn)
        case Habit.LYING:
            return _lie(await respond(), turn)
        case Habit.DRIP:
            return await _drip(request, await respond(), temper)
        case Habit.TRUNCATING:
            return await _truncate(request, await respond(), chunked=turn % 2 == 1)
        case Habit.RESET:
            return await _reset(request, await respond())
        case Habit.HUGE:
            return await _flood(request, temper.huge_size)
        case Habit.BOMB:
            return await _bomb(request, turn, temper.bomb_size)
        case Habit.LONG_HEADERS:
            return await _long_headers(request, temper.huge_size)
        case Habit.REDIRECT_PRIVATE:
            return _redirect(PRIVATE_TARGETS[turn % len(PRIVATE_TARGETS)])
        case Habit.REDIRECT_LOOP:
            return _redirect(_other_half_of_loop(request.path_qs))
        case Habit.GARBAGE:
            return await _garbage(request, turn)
        case Habit.STALL:
            await asyncio.sleep(temper.longest)
            return _cut(request)
        case Habit.DEAD:
            return _cut(request)
        case _:
            if turn % temper.throttle_every != temper.throttle_every - 1:
                return await respond()
            return _throttle(habit, now, temper.throttle_wait)


PRIVATE_TARGETS = (
    "http://169.254.169.254/latest/meta-data/",
    "http://10.0.0.1/",
    "http://192.168.0.1:8080/admin",
    "http://[::1]:1/",
    "http://2130706433:1/",  # 127.0.0.1 as one number.
    "http://[::ffff:10.0.0.1]/",
)


def _throttle(habit: Habit, now: float, wait: int) -> web.Response:
    headers = {
        Habit.THROTTLE_RETRY_AFTER: {"Retry-After": str(wait)},
        # A date has whole seconds: rounded up, so that nobody is told to come back too early.
        Habit.THROTTLE_DATE: {"Retry-After": formatdate(int(now) + 1 + wait, usegmt=True)},
        Habit.THROTTLE_RESET: {
            "RateLimit-Limit": "3000",
            "RateLimit-Remaining": "0",
            "RateLimit-Reset": str(int(now) + 1 + wait),
        },
    }.get(habit, {})
    return web.Response(status=429, headers=headers, text="Too many requests\n")


def _server_error(turn: int) -> web.Response:
    return web.Response(status=(500, 503, 502, 504)[turn % 4], text="Something went wrong\n")


def _redirect(location: str) -> web.Response:
    return web.Response(status=302, headers={"Location": location})


def _other_half_of_loop(path: str) -> str:
    mark = "loop=1"
    if path.endswith(mark):
        return path[: -len(mark) - 1]
    return f"{path}{'&' if '?' in path else '?'}{mark}"


def _lie(honest: web.StreamResponse, turn: int) -> web.Response:
    noise = random.Random(turn).randbytes(max(64, len(_body(honest))))
    return web.Response(status=200, headers=_type_of(honest), body=noise)


async def _drip(
    request: web.BaseRequest, honest: web.StreamResponse, temper: Temper
) -> web.StreamResponse:
    body = _body(honest)
    response = await _begin(request, honest, len(body))
    drops = min(len(body) // temper.drip_size + 1, int(temper.longest / temper.drip_gap))
    for start in range(0, drops * temper.drip_size, temper.drip_size):
        await response.write(body[start : start + temper.drip_size])
        await asyncio.sleep(temper.drip_gap)
    if drops * temper.drip_size >= len(body):
        return response
    return _cut(request)


async def _truncate(
    request: web.BaseRequest, honest: web.StreamResponse, *, chunked: bool
) -> web.StreamResponse:
    body = _body(honest)
    response = await _begin(request, honest, None if chunked else len(body))
    await response.write(body[: len(body) // 2])
    return _cut(request, response.status)


async def _reset(request: web.BaseRequest, honest: web.StreamResponse) -> web.StreamResponse:
    body = _body(honest)
    response = await _begin(request, honest, len(body))
    await response.write(body[: len(body) // 2])
    transport = request.transport
    if transport is not None:
        # Lingering for no time makes the kernel answer with RST instead of FIN.
        peer = transport.get_extra_info("socket")
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        transport.abort()
    return _severed(response.status)


_FLOOD_PIECE = b"<p>and on and on it goes</p>\n" * 2048


async def _flood(request: web.BaseRequest, size: int) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Type": "text/html; charset=utf-8"})
    await response.prepare(request)
    for _ in range(size // len(_FLOOD_PIECE)):
        await response.write(_FLOOD_PIECE)
        # A fast reader never fills the buffer; the other connections need their turn too.
        await asyncio.sleep(0)
    return response


async def _bomb(request: web.BaseRequest, turn: int, size: int) -> web.StreamResponse:
    accepted = request.headers.get("Accept-Encoding", "")
    if turn % 2 == 1 and "zstd" in accepted:
        coding, pieces = "zstd", zstd_bomb(size)
    else:
        coding, pieces = "gzip", await asyncio.to_thread(gzip_bomb, size)
    response = web.StreamResponse(
        headers={"Content-Type": "text/html; charset=utf-8", "Content-Encoding": coding}
    )
    await response.prepare(request)
    for piece in pieces:
        await response.write(piece)
    return response


async def _long_headers(request: web.BaseRequest, size: int) -> web.StreamResponse:
    transport = request.transport
    if transport is None:
        return _severed(0)
    transport.write(b"HTTP/1.1 200 OK\r\n")
    line = b"X-Padding: " + b"a" * 1000 + b"\r\n"
    for _ in range(size // len(line)):
        if transport.is_closing():
            break
        transport.write(line * 8)
        # Raw writes know no back-pressure: pausing bounds what a client that does not read costs.
        await asyncio.sleep(0.001 if transport.get_write_buffer_size() == 0 else 0.1)
    return _cut(request)


_NOT_HTTP = (
    b"SSH-2.0-OpenSSH_9.2p1\r\n",
    b"220 mail ready\r\n",
    b"\x15\x03\x01\x00\x02\x02\x46",  # A TLS alert.
)


async def _garbage(request: web.BaseRequest, turn: int) -> web.StreamResponse:
    if request.transport is not None:
        request.transport.write(_NOT_HTTP[turn % len(_NOT_HTTP)])
    return _cut(request)


def _cut(request: web.BaseRequest, status: int = 0) -> Severed:
    """End the connection after what was written, without the rest."""
    if request.transport is not None:
        request.transport.close()
    return _severed(status)


def _severed(status: int) -> Severed:
    response = Severed()
    response.set_status(status or 444, "severed")
    return response


async def _begin(
    request: web.BaseRequest, honest: web.StreamResponse, length: int | None
) -> web.StreamResponse:
    response = web.StreamResponse(status=honest.status, headers=_type_of(honest))
    response.content_length = length
    if length is None:
        response.enable_chunked_encoding()
    await response.prepare(request)
    return response


def _type_of(honest: web.StreamResponse) -> dict[str, str]:
    kept = ("Content-Type", "Content-Encoding")
    return {name: honest.headers[name] for name in kept if name in honest.headers}


# For an honest answer that is itself streamed, or empty: there must be something to spoil.
_STAND_IN = b"." * 4096


def _body(honest: web.StreamResponse) -> bytes:
    body = honest.body if isinstance(honest, web.Response) else None
    return bytes(body) if isinstance(body, bytes | bytearray) and body else _STAND_IN
