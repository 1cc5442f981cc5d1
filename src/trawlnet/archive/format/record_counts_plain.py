"""Months and languages of unpacked records, in plain Python: the twin of the C code."""

from __future__ import annotations

import re
import struct
from collections import Counter
from collections.abc import Iterator
from typing import Any

import orjson

_RKEY = struct.Struct("<H")
_JSON = struct.Struct("<I")
_MONTH = re.compile(r"(?:19|20)[0-9][0-9]-(?:0[1-9]|1[0-2])(?=-|\Z)")
_LANGUAGE = re.compile(r"[A-Za-z]{2,3}(?=-|\Z)")
_MONTH_AND_ONE = 8  # Characters.
_LANGUAGES = 16  # Of one record that are looked at.
_NOTHING: dict[str, Any] = {}


class PlainRecordCounts:
    """Bounded by what the two patterns can match: 2,400 months and 18,252 languages."""

    def __init__(self) -> None:
        self._months: Counter[str] = Counter()
        self._languages: Counter[str] = Counter()
        self._undated = 0

    def add(self, entries: bytes, count: int) -> bool:
        dates: list[str] = []
        words: list[str] = []
        seen = 0
        for record in _records(entries, count):
            seen += 1
            if (date := record.get("createdAt")).__class__ is str:
                dates.append(date[:_MONTH_AND_ONE])
            if (said := record.get("langs")).__class__ is list:
                words += [word for word in said[:_LANGUAGES] if word.__class__ is str]
        if seen < count:
            return False
        months = _matched(_MONTH, dates)
        self._months.update(months)
        self._undated += count - months.total()
        self._languages.update(_matched(_LANGUAGE, words))
        return True

    def months(self) -> dict[str, int]:
        return dict(sorted(self._months.items()))

    def undated(self) -> int:
        return self._undated

    def languages(self) -> dict[str, int]:
        return dict(sorted(self._languages.items()))


def _records(entries: bytes, count: int) -> Iterator[dict[str, Any]]:
    """As many as are whole; one that is not a JSON object as an empty one."""
    rkey_at, json_at, loads = _RKEY.unpack_from, _JSON.unpack_from, orjson.loads
    at = 0
    for _ in range(count):
        try:
            key_end = at + _RKEY.size + rkey_at(entries, at)[0]
            start = key_end + _JSON.size
            at = start + json_at(entries, key_end)[0]
        except struct.error:
            return
        if at > len(entries):
            return
        try:
            record = loads(entries[start:at])
        except orjson.JSONDecodeError:
            record = None
        yield record if record.__class__ is dict else _NOTHING


def _matched(pattern: re.Pattern[str], words: list[str]) -> Counter[str]:
    """What the words begin with, in small letters. Most words are the same few."""
    found: Counter[str] = Counter()
    for word, times in Counter(words).items():
        if match := pattern.match(word):
            found[match.group().lower()] += times
    return found
