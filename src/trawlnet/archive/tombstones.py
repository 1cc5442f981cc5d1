"""Tombstones: accounts in an archive that their servers no longer show, one JSON line each.

A line speaks about the blocks of its DID that were fetched before it: an account that comes back
is fetched again, and the newer block stands.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import orjson

from trawlnet.archive.remote import Remote
from trawlnet.atproto.syntax import is_did
from trawlnet.malformed import Malformed

NAME = "tombstones.jsonl"
_EPOCH = datetime.fromtimestamp(0, UTC)
_MICROSECOND = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Tombstone:
    did: str
    reason: str  # deactivated, takendown, suspended, not_found
    at_us: int  # When its server said so; Unix microseconds, as in a block.

    def line(self) -> bytes:
        at = (_EPOCH + self.at_us * _MICROSECOND).isoformat(timespec="microseconds")
        row = {"did": self.did, "reason": self.reason, "at": at.replace("+00:00", "Z")}
        return orjson.dumps(row) + b"\n"


def append_tombstones(archive: Path, stones: Iterable[Tombstone]) -> None:
    """Durable when this returns. One writer at a time: the archive's own lock sees to that."""
    lines = b"".join(stone.line() for stone in stones)
    if not lines:
        return
    path = archive / NAME
    fd = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        size = os.fstat(fd).st_size
        if size and os.pread(fd, 1, size - 1) != b"\n":
            lines = b"\n" + lines  # The last writer was cut short; its half line stands alone.
        while lines:
            lines = lines[os.write(fd, lines) :]
        os.fsync(fd)
    finally:
        os.close(fd)
    if not size:
        _sync_directory(archive)


def read_tombstones(archive: Path | Remote) -> Iterator[Tombstone]:
    """In the order in which they were written; none where there is no file. A line that is no
    tombstone was left by a crash before anybody relied on it, and is passed over."""
    if isinstance(archive, Remote):
        return  # A crawl into an object store writes none.
    path = (archive if archive.is_dir() else archive.parent) / NAME
    if not path.exists():
        return
    with path.open("rb") as file:
        for line in file:
            try:
                yield parse_tombstone(line)
            except Malformed:
                continue


def parse_tombstone(line: bytes) -> Tombstone:
    try:
        row = orjson.loads(line)
        did, reason, at = row["did"], row["reason"], datetime.fromisoformat(row["at"])
        at_us = (at - _EPOCH) // _MICROSECOND
    except (ValueError, TypeError, KeyError) as error:
        raise Malformed(f"not a tombstone: {error}") from None
    if not isinstance(did, str) or not is_did(did) or not isinstance(reason, str):
        raise Malformed("a tombstone without a DID or a reason")
    return Tombstone(did, reason, at_us)


def _sync_directory(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
