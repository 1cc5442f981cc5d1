"""What has become of a repository between two states of it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from trawlnet.archive.format.folding import ArchivedState, StateRecord


class ChangedRecord(NamedTuple):
    path: str  # `collection/rkey`.
    cid: bytes
    json: bytes

    @property
    def collection(self) -> str:
        return self.path.partition("/")[0]

    @property
    def rkey(self) -> str:
        return self.path.partition("/")[2]


@dataclass(frozen=True, slots=True)
class StateDifference:
    """Each in the order of the tree."""

    creates: Sequence[ChangedRecord]
    updates: Sequence[ChangedRecord]
    deletes: Sequence[str]  # Paths.


def difference(past: Mapping[bytes, bytes], after: ArchivedState) -> StateDifference:
    """From CIDs by path to a state of the archive: a record that is left out of it from now on is
    gone, and one that was left out before is new."""
    now = after.records
    return StateDifference(
        _changed((path, one) for path, one in now.items() if path not in past),
        _changed(
            (path, one) for path, one in now.items() if path in past and past[path] != one.cid
        ),
        [path.decode() for path in past if path not in now],
    )


def _changed(records: Iterable[tuple[bytes, StateRecord]]) -> list[ChangedRecord]:
    return [ChangedRecord(path.decode(), one.cid, one.json) for path, one in records]
