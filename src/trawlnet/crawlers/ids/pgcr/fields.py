"""Reads single fields of a report: strict about numbers and ids, with limits on all values."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from trawlnet.malformed import Malformed
from trawlnet.tables.instances.instance import MAX_COUNT, MAX_HASH, MAX_ID

_LONGEST_TEXT = 256  # Characters of a name or path in the tables.
_MOST_DIGITS = 19
_EARLIEST = datetime(2014, 1, 1, tzinfo=UTC)  # No such game before, no such date after.
_LATEST = datetime(2200, 1, 1, tzinfo=UTC)


def mapping(value: Any, name: str) -> Mapping[str, Any]:
    if not isinstance(value, dict):  # Half the time of asking for a Mapping.
        raise Malformed(f"{name} is {_kind(value)}, expected an object")
    return value


def sequence(value: Any, name: str) -> Sequence[Any]:
    """A list; a missing one counts as empty."""
    if value is None:
        return ()
    if not isinstance(value, list | tuple):
        raise Malformed(f"{name} is {_kind(value)}, expected a list")
    return value


def id64(value: Any, name: str) -> int:
    """Ids come as text, because a double cannot hold them; a number with a fraction is wrong."""
    number = value
    if isinstance(value, str) and value.isascii() and value.isdigit():
        number = int(value) if len(value) <= _MOST_DIGITS else 0
    if not _is_whole(number) or not 1 <= number <= MAX_ID:
        raise Malformed(f"{name} is not a 64-bit id: {_shown(value)}")
    return int(number)


def hash32(value: Any, name: str) -> int:
    if not _is_whole(value) or not 0 <= value <= MAX_HASH:
        raise Malformed(f"{name} is not a 32-bit hash: {_shown(value)}")
    return int(value)


def optional_hash(value: Any, name: str) -> int | None:
    """Zero stands for none."""
    return (hash32(value, name) or None) if value is not None else None


def whole(value: Any, name: str) -> int:
    if not _is_whole(value) or abs(value) > MAX_COUNT:
        raise Malformed(f"{name} is not a whole number: {_shown(value)}")
    return int(value)


def optional_whole(value: Any, name: str) -> int | None:
    return None if value is None else whole(value, name)


def optional_flag(value: Any, name: str) -> bool | None:
    if value is not None and not isinstance(value, bool):
        raise Malformed(f"{name} is {_kind(value)}, expected true or false")
    return value


def text(value: Any) -> str:
    """A name; anything but text counts as empty."""
    return value[:_LONGEST_TEXT] if isinstance(value, str) else ""


def instant(value: Any, name: str) -> datetime:
    try:
        moment = datetime.fromisoformat(value)
    except (TypeError, ValueError):
        raise Malformed(f"{name} is not an ISO 8601 time: {_shown(value)}") from None
    if moment.tzinfo is None or not _EARLIEST <= moment < _LATEST:
        raise Malformed(f"{name} is not a time at which this game existed: {_shown(value)}")
    return moment.astimezone(UTC)


def stat(values: Any, name: str) -> int:
    """`values[name].basic.value` as a whole number, or 0 where it is missing. Data sets made from
    reports leave the wrapping out."""
    value = mapping(values, "values").get(name)
    if isinstance(value, dict):
        value = mapping(value.get("basic", {}), f"{name}.basic").get("value")
    if value is None:
        return 0
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise Malformed(f"{name} is not a number: {_shown(value)}")
    if abs(value) > MAX_COUNT:
        raise Malformed(f"{name} is out of range: {_shown(value)}")
    return int(value)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _kind(value: Any) -> str:
    return "missing" if value is None else type(value).__name__


def _shown(value: Any) -> str:
    return "missing" if value is None else ascii(value)[:40]
