"""Where a replay of the archive stands, as a number that clients take for a time.

Clients keep the largest `time_us` that they have seen, and come back with it. While the archive is
replayed to one, that number says two things: when the replay began, for the log has to be read from
there on, and which account came last. All such numbers are below the microseconds of September
2001, and so below the times of all events in a log.

    value = (unit of time in which the replay began) * STRIDE + GUARD + (place of the account)

Clients may also subtract some seconds from what they have seen. The guard makes the result an
earlier place of the same replay; what lies behind the places is no replay at all.
"""

from __future__ import annotations

from bisect import bisect_left
from typing import NamedTuple

FIRST_TIME = 10**15  # Smaller numbers are places of a replay.
_STRIDE = 10**10
_GUARD = 600_000_000
_UNIT_US = 600_000_000  # Ten minutes of log that may be sent once more.
_UNITS = FIRST_TIME // _STRIDE  # 694 days, then units are counted from zero again.
_DIGITS = "234567abcdefghijklmnopqrstuvwxyz"  # Of a did:plc, in their order.
_PLC = "did:plc:"
_USED = 5  # Digits that make the place: 33 million places.
_LAST = 1 + len(_DIGITS) ** _USED


class ReplayCursor(NamedTuple):
    begun_us: int  # Not later than when the replay began.
    place: int


def encode_cursor(begun_us: int, did: str) -> int:
    return begun_us // _UNIT_US % _UNITS * _STRIDE + _GUARD + place_of(did)


def decode_cursor(cursor: int, now_us: int) -> ReplayCursor | None:
    """None for what is no place behind the start: the replay begins anew."""
    units, rest = divmod(cursor, _STRIDE)
    place = rest - _GUARD
    if cursor >= FIRST_TIME or not 0 < place <= _LAST:
        return None
    now = now_us // _UNIT_US
    return ReplayCursor((now - (now - units) % _UNITS) * _UNIT_US, place)


def place_of(did: str) -> int:
    """Grows with the DID, in the order of bytes; several may have the same place."""
    if not did.startswith(_PLC):
        return 0 if did < _PLC else _LAST
    # How many strings of so many digits come before it.
    value, exact = 0, True
    for character in did[len(_PLC) :][:_USED].ljust(_USED, _DIGITS[0]):
        value = value * len(_DIGITS) + (bisect_left(_DIGITS, character) if exact else 0)
        exact = exact and character in _DIGITS
    return 1 + value
