"""How long a server's rate-limit headers ask to wait.

The rule: `Retry-After` goes first, as seconds or as a date.
Without a usable one, `RateLimit-Reset` and then `X-RateLimit-Reset` count, but only when the
allowance is used up: the status is 429, or the matching `Remaining` header says 0.
A small reset is a number of seconds, a large one an instant (in seconds, or in milliseconds).
Instants are read against the server's own `Date`, so that its clock need not agree with ours.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC
from email.utils import parsedate_to_datetime

_DECIMAL = re.compile(r"[+-]?[0-9]+(?:\.[0-9]*)?")
_TOO_MANY_REQUESTS = 429
_FIRST_INSTANT = 1e8  # Seconds; a wait this long would be three years, an instant so early 1973.
_FIRST_MILLISECONDS = 1e11  # As seconds this would be the year 5138.
_LONGEST_VALUE = 64  # Characters; every legal form is shorter.


def wait_from(
    headers: Mapping[str, str], now: float, longest: float, *, status: int = _TOO_MANY_REQUESTS
) -> float | None:
    """Seconds to wait, between 0 and `longest`; None if no header asks for a wait.

    `headers` finds names in any case.
    """
    wait = _retry_after(headers, now)
    if wait is None:
        wait = _reset(headers, now, status, "RateLimit")
    if wait is None:
        wait = _reset(headers, now, status, "X-RateLimit")
    return None if wait is None else min(max(wait, 0.0), longest)


def _retry_after(headers: Mapping[str, str], now: float) -> float | None:
    text = _value(headers, "Retry-After")
    seconds = _number(text)
    if seconds is not None:
        return seconds
    instant = _instant(text)
    return None if instant is None else instant - _their_now(headers, now)


def _reset(headers: Mapping[str, str], now: float, status: int, prefix: str) -> float | None:
    remaining = _number(_value(headers, f"{prefix}-Remaining"))
    if status != _TOO_MANY_REQUESTS and remaining != 0.0:
        return None
    reset = _number(_value(headers, f"{prefix}-Reset"))
    if reset is None or reset < _FIRST_INSTANT:
        return reset
    instant = reset / 1000.0 if reset >= _FIRST_MILLISECONDS else reset
    return instant - _their_now(headers, now)


def _their_now(headers: Mapping[str, str], now: float) -> float:
    date = _instant(_value(headers, "Date"))
    return now if date is None else date


def _value(headers: Mapping[str, str], name: str) -> str:
    value = headers.get(name, "").strip()
    return value if len(value) <= _LONGEST_VALUE else ""


def _number(text: str) -> float | None:
    return float(text) if _DECIMAL.fullmatch(text) else None


def _instant(text: str) -> float | None:
    try:
        # The zone of an HTTP date is always GMT, even if it is not written.
        date = parsedate_to_datetime(text)
        return (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()
    except (ValueError, TypeError, OverflowError, IndexError):
        return None
