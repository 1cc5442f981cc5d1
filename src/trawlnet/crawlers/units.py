"""Sizes, durations and addresses as people write them: `100MB`, `30s`, `localhost:6379`."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import BeforeValidator

_SIZES = {"": 1, "B": 1, "KB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30, "TB": 1 << 40}
_SIZE = re.compile(r"([0-9]{1,18}(?:\.[0-9]{1,9})?)\s*([KMGT]?B?)", re.IGNORECASE)
_SPANS = {"": 1.0, "MS": 0.001, "S": 1.0, "M": 60.0, "H": 3600.0, "D": 86400.0}
_REDIS = re.compile(r"[\w.-]+(:\d{1,5})?(/\d+)?|\[[0-9a-fA-F:]+\]:\d{1,5}(/\d+)?")
_SPAN = re.compile(r"([0-9]{1,18}(?:\.[0-9]{1,9})?)\s*(ms|s|m|h|d)?", re.IGNORECASE)


def parse_size(value: object) -> object:
    """Bytes, 1 KB being 1024 of them; anything but text is left to pydantic."""
    if not isinstance(value, str):
        return value
    match = _SIZE.fullmatch(value.strip())
    if match is None:
        raise ValueError("a size such as 500KB, 100MB or 2GB")
    unit = match[2].upper()
    return int(float(match[1]) * _SIZES[unit if unit in _SIZES else unit + "B"])


def parse_duration(value: object) -> object:
    """Seconds; anything but text is left to pydantic."""
    if not isinstance(value, str):
        return value
    match = _SPAN.fullmatch(value.strip())
    if match is None:
        raise ValueError("a duration such as 30s, 5m or 2h")
    return float(match[1]) * _SPANS[(match[2] or "").upper()]


def parse_redis(value: object) -> object:
    """A URL; what is one already is left as it is."""
    if not isinstance(value, str) or not value or "://" in value:
        return value
    if not _REDIS.fullmatch(value):
        raise ValueError("an address such as localhost:6379 or redis://HOST:PORT/DB")
    return f"redis://{value}"


# A validator's error says what it expected; the command line adds the value.
Size = Annotated[int, BeforeValidator(parse_size)]
RedisAddress = Annotated[str, BeforeValidator(parse_redis)]
Seconds = Annotated[float, BeforeValidator(parse_duration)]
