"""How long a WebSocket lasts: the bounds of one, and in which words it ends."""

from __future__ import annotations

from dataclasses import dataclass

from websockets.client import ClientProtocol
from websockets.exceptions import PayloadTooBig

from trawlnet.net.trouble import BadAnswer, ConnectionDropped, TooLarge, clean

_PER_SLIGHT = 1024  # Bytes of messages that another slight frame is earned with.
_LARGEST_FRAME = 5_000_000  # Bytes: what the protocol of firehoses allows.


@dataclass(frozen=True, slots=True)
class SocketLimits:
    connect: float = 10.0  # Seconds until there is a connection,
    answer: float = 20.0  # and until the server has switched it, all in all.
    header: int = 64 * 1024  # Bytes of the head of its answer.
    message: int = _LARGEST_FRAME + 64 * 1024  # Bytes, all fragments together.
    waiting: int = 8 * 1024 * 1024  # Bytes of messages that wait before the server has to.
    quiet: float = 30.0  # Seconds without a frame until the server is asked for a sign of life,
    sign: float = 30.0  # and from then on until it is given up.
    slight: int = 1024  # Frames that say next to nothing, at once,
    slight_rate: float = 32.0  # and so many more each second.


class SlightFrames:
    """Pings and small fragments cost a server next to nothing, and us as much as messages do: it
    has an allowance of them, which grows with time, and with what it says besides."""

    __slots__ = ("_allowance", "_at", "_limits")

    def __init__(self, limits: SocketLimits, now: float) -> None:
        self._limits = limits
        self._allowance = float(limits.slight)
        self._at = now

    def count(self, frames: int, size: int, now: float) -> None:
        """So many, beside so many bytes of messages. Raises TooLarge when these are too many."""
        limits = self._limits
        earned = (now - self._at) * limits.slight_rate + size / _PER_SLIGHT
        self._at = now
        self._allowance = min(limits.slight, self._allowance + earned) - frames
        if self._allowance < 0:
            raise TooLarge("pings or small fragments without end")


def end_of(protocol: ClientProtocol) -> Exception:
    """Why no message follows."""
    broken, close = protocol.parser_exc, protocol.close_rcvd
    if isinstance(broken, PayloadTooBig):
        return TooLarge(f"a message that is too large: {broken}")
    if isinstance(broken, EOFError):
        return ConnectionDropped("the server ended the connection without closing the WebSocket")
    if broken is not None:
        return BadAnswer(f"not a WebSocket's frames: {clean(str(broken))}")
    words = "" if close is None else f": {int(close.code)} {clean(close.reason)}".rstrip()
    return ConnectionDropped(f"the server closed the WebSocket{words}")
