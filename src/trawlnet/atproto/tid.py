"""Timestamp identifiers: 13 sortable characters, microseconds and a clock number."""

from __future__ import annotations

from trawlnet.atproto.syntax import is_tid
from trawlnet.malformed import Malformed

_ALPHABET = "234567abcdefghijklmnopqrstuvwxyz"
_VALUE = {char: value for value, char in enumerate(_ALPHABET)}
_PAIRS = [high + low for high in _ALPHABET for low in _ALPHABET]
_CLOCK_BITS = 10


def tid(time_us: int, clock: int = 0) -> str:
    if time_us < 0 or time_us >> 53 or clock < 0 or clock >> _CLOCK_BITS:
        raise ValueError(f"no TID for {time_us} us, clock {clock}")
    number = time_us << _CLOCK_BITS | clock
    # Two characters per step: a simulated world makes them by the million.
    tail = "".join([_PAIRS[number >> shift & 1023] for shift in (50, 40, 30, 20, 10, 0)])
    return _ALPHABET[number >> 60] + tail


def tid_time_us(text: str) -> int:
    if not is_tid(text):
        raise Malformed(f"not a TID: {text[:40]!r}")
    number = 0
    for char in text:
        number = number << 5 | _VALUE[char]
    return number >> _CLOCK_BITS
