"""Months and languages of unpacked records: counted in C where that was built, else in Python."""

from __future__ import annotations

from typing import Protocol

from trawlnet.archive.format.record_counts_plain import PlainRecordCounts
from trawlnet.native.loader import native


class RecordCounts(Protocol):
    """Adds up over any number of collections, for one thread; no record can make it grow.

    A record that is not a JSON object is counted as undated: that is for `verify` to tell.
    """

    def add(self, entries: bytes, count: int) -> bool:
        """So many records of a collection. False, with none added, when the entries end before."""

    def months(self) -> dict[str, int]:
        """Records by the month that `createdAt` begins with, in order."""

    def undated(self) -> int:
        """Records that name no month."""

    def languages(self) -> dict[str, int]:
        """How often `langs` names a language, by its code in small letters, in order."""


def new_counts() -> RecordCounts:
    if native is None:
        return PlainRecordCounts()
    counts: RecordCounts = native.RecordCounts()
    return counts
