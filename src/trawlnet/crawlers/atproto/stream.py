"""The PLC directory's operations as they are made, over a WebSocket, for as long as it lasts.

Pages are what a mirror is made of: the stream begins where they end, is believed only as far as its
numbers follow one another, and whatever it leaves open is asked for in pages.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from trawlnet.crawlers.atproto.export import (
    ExportCursor,
    ExportPage,
    Lines,
    number_of,
    parsed_line,
    read_page,
)
from trawlnet.crawlers.atproto.operations import used_origins
from trawlnet.net.client.websocket import WebSocket
from trawlnet.net.trouble import EXPECTED, NotUpgraded

LARGEST_MESSAGE = 1 << 20  # Bytes; the directory takes operations of a few kilobytes.
_MOST = 5000  # Messages stored at once.
_GATHER = 0.5  # Seconds that a first message waits for others.
_FIRST_WAIT, _LONGEST_WAIT = 5.0, 300.0  # Seconds before the stream is tried again, doubling.
_NOT_OFFERED = 3600.0  # Seconds before a directory without one is asked for it again.
_CLIENT_ERRORS = range(400, 500)
_BUSY = 429


def stream_url(plc: str, place: ExportCursor) -> str:
    scheme, _, host = plc.partition("://")
    return f"{'wss' if scheme == 'https' else 'ws'}://{host}/export/stream?cursor={place.position}"


async def gather(socket: WebSocket) -> list[bytes | str]:
    """At least one message, and what comes right behind it."""
    messages = [await socket.receive()]
    try:
        async with asyncio.timeout(_GATHER):
            while len(messages) < _MOST:
                messages.append(await socket.receive())
    except EXPECTED:
        pass  # Nothing more for now; or the end, which the next look tells.
    return messages


@dataclass(frozen=True, slots=True)
class StreamedPage:
    page: ExportPage
    why: str  # Why what follows must be asked for in pages; empty while it need not.


def read_messages(
    messages: Sequence[bytes | str], place: ExportCursor, *, allow_private: bool
) -> StreamedPage:
    """The operations that follow the place without a gap. What was told before is passed over."""
    lines, position, odd, why = [], place.position, 0, ""
    origin_of = used_origins(allow_private=allow_private)
    for message in messages:
        line = parsed_line(message, origin_of)
        number = number_of(line)
        if number is None:
            odd += 1  # Another kind of message, or none at all.
        elif number == position + 1:
            lines.append(line)
            position = number
        elif number > position:
            why = f"sequence number {number} follows {position}"
            break
    if odd == len(messages):
        why = "it sends no operations"
    page = None
    if lines:
        page = read_page(Lines(lines, is_cut=True), place, allow_private=allow_private)
    if page is None:
        return StreamedPage(ExportPage((), place, is_last=False, malformed=odd), why)
    malformed = page.malformed + odd
    return StreamedPage(ExportPage(page.rows, page.place, False, malformed), why)


class StreamTries:
    """When the stream is tried: seldom where it fails, and hardly ever where there is none."""

    def __init__(self) -> None:
        self._due = 0.0
        self._wait = _FIRST_WAIT

    def is_due(self, now: float) -> bool:
        return now >= self._due

    def succeed(self) -> None:
        self._wait = _FIRST_WAIT

    def fail(self, now: float, error: Exception | None = None) -> None:
        is_absent = (
            isinstance(error, NotUpgraded)
            and error.status in _CLIENT_ERRORS
            and error.status != _BUSY
        )
        self._due = now + (_NOT_OFFERED if is_absent else self._wait)
        self._wait = min(2 * self._wait, _LONGEST_WAIT)
