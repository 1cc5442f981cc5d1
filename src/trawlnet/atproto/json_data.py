"""JSON out of strangers' hands: what the protocol's data model cannot hold is named."""

from __future__ import annotations

import json
from typing import Any, NoReturn

import orjson

from trawlnet.malformed import Malformed

_DEEPEST = 128  # Levels; the parser itself gives up at 1024.
_LARGEST = 1 << 63


def parse_object(body: bytes) -> dict[str, Any]:
    """Raises Malformed. NaN, lone surrogates and bottomless nesting do not get through."""
    try:
        value = orjson.loads(body)
    except ValueError as error:
        raise Malformed("not JSON") from error
    if not isinstance(value, dict):
        raise Malformed("not a JSON object")
    return value


def parse_page(body: bytes) -> dict[str, Any]:
    """An object of many authors: what one of them wrote that is not Unicode, bytes or escapes,
    becomes lone surrogates, so that it spoils nothing but its own row. Raises Malformed."""
    try:
        return parse_object(body)
    except Malformed:
        pass  # The other parser takes ten times as long.
    try:
        text = body.decode("utf-8", "surrogateescape")
        value = json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError) as error:
        raise Malformed("not JSON") from error
    if not isinstance(value, dict):
        raise Malformed("not a JSON object")
    return value


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")


def data_problem(value: object) -> str:
    """Why a value is no data of this protocol, empty if it is."""
    # Not by recursion: the writer of the value chooses its depth.
    level: list[object] = [value]
    for _ in range(_DEEPEST):
        below: list[object] = []
        for one in level:
            if isinstance(one, dict):
                below.extend(one.values())
            elif isinstance(one, list):
                below.extend(one)
            # The parser turns integers beyond 64 bits into fractions.
            elif isinstance(one, int | float) and not -_LARGEST <= one < _LARGEST:
                return "has a number beyond 64 bits"
        if not below:
            return ""
        level = below
    return f"is nested deeper than {_DEEPEST} levels"
