"""Habits of simulated hosts: how a server that could answer honestly misbehaves instead.

A world makes the honest answer and hands it to `misbehave` together with the number of the
request on that host; what happens follows from that number, not from the time of day.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from email.utils import formatdate
from enum import StrEnum

from aiohttp import web

from trawlnet.sim.spoiling import (
    bomb,
    cut,
    drip,
    endless_framing,
    flood,
    garbage,
    lie,
    long_headers,
    reset,
    truncate,
)


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
    ENDLESS_FRAMING = "endless_framing"  # Trailers, extensions, hints or folded lines without end.
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
            return await truncate(request, await respond(), chunked=False)
        case Habit.SERVER_ERROR:
            return _server_error(turn)
        case Habit.LYING:
            return lie(await respond(), turn)
        case Habit.DRIP:
            return await drip(
                request,
                await respond(),
                size=temper.drip_size,
                gap=temper.drip_gap,
                longest=temper.longest,
            )
        case Habit.TRUNCATING:
            return await truncate(request, await respond(), chunked=turn % 2 == 1)
        case Habit.RESET:
            return await reset(request, await respond())
        case Habit.HUGE:
            return await flood(request, temper.huge_size)
        case Habit.BOMB:
            return await bomb(request, turn, temper.bomb_size)
        case Habit.LONG_HEADERS:
            return await long_headers(request, temper.huge_size)
        case Habit.ENDLESS_FRAMING:
            return await endless_framing(request, turn, temper.huge_size)
        case Habit.REDIRECT_PRIVATE:
            return _redirect(PRIVATE_TARGETS[turn % len(PRIVATE_TARGETS)])
        case Habit.REDIRECT_LOOP:
            return _redirect(_other_half_of_loop(request.path_qs))
        case Habit.GARBAGE:
            return await garbage(request, turn)
        case Habit.STALL:
            await asyncio.sleep(temper.longest)
            return cut(request)
        case Habit.DEAD:
            return cut(request)
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
        # A date has whole seconds: rounded up, so that no client returns too early.
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
