"""A sink of bodies with an index: blobs, and one line for each task in a JSONL file."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trawlnet.captures.blobs import Blob, BlobStore
from trawlnet.engine.durable import make_directory
from trawlnet.engine.task import Task
from trawlnet.queues.queue import decode, encode
from trawlnet.storage.errors import SinkError
from trawlnet.storage.files import Appender, FileLock, disk_errors, replace_file, truncate_torn_line


@dataclass(frozen=True, slots=True)
class StoredBody:
    sha256: str
    size: int


@dataclass(frozen=True, slots=True)
class StoredRecord:
    """The record of one key."""

    key: str
    bodies: Sequence[StoredBody]


class RecordSink:
    """An engine Sink for items that are bytes.

    Idempotent by key: a key written twice, as after a crash between write and settle, has two
    lines and one record, its last line.
    """

    def __init__(self, blobs: BlobStore, index: Path) -> None:
        self._blobs = blobs
        self._index = index
        self._writing = threading.Lock()  # Held in the thread, so that cancelling does not free it.
        with disk_errors(f"opening index {index}"):
            make_directory(index.parent)
            self._lock = FileLock(index.with_name(f"{index.name}.lock"), f"index {index}")
        self._log: Appender | None = None

    async def write(self, batch: Sequence[tuple[Task, Sequence[Any]]]) -> None:
        """Store each body, then name it in the index under the key of its task."""
        stored = [(task, items) for task, items in batch if items]
        blobs = iter(await self._blobs.put_many([body for _, items in stored for body in items]))
        lines = [_line(task.key, [next(blobs) for _ in items]) for task, items in stored]
        if lines:
            # Bodies are durable before the index names them.
            await asyncio.to_thread(self._append, b"".join(lines))

    async def compact(self) -> None:
        """Reduce the index to one line for each key, in place."""
        await asyncio.to_thread(self._compact)

    def close(self) -> None:
        """Let another process write."""
        with self._writing:
            self._leave_log()
            self._lock.release()

    def _append(self, lines: bytes) -> None:
        with self._writing, disk_errors(f"writing index {self._index}"):
            if self._log is None:
                self._log = _open_log(self._index)
            try:
                self._log.append(lines)
            except OSError:
                self._leave_log()
                raise

    def _compact(self) -> None:
        with self._writing, disk_errors(f"compacting index {self._index}"):
            self._leave_log()
            records = latest(self._index).values()
            replace_file(self._index, b"".join(_dump(record) for record in records))

    def _leave_log(self) -> None:
        if self._log:
            self._log.close()
            self._log = None


def _open_log(index: Path) -> Appender:
    if index.exists():
        truncate_torn_line(index)
    return Appender(index, new=False)


def read_index(index: Path) -> Iterator[StoredRecord]:
    """Every line, in order of writing, without an incomplete last one."""
    if not index.exists():
        return
    with index.open("rb") as file:
        for number, line in enumerate(file, start=1):
            if line.endswith(b"\n"):
                yield _parse(line, f"{index}:{number}")


def latest(index: Path) -> dict[str, StoredRecord]:
    """Each key with its last record. Holds all keys in memory."""
    return {record.key: record for record in read_index(index)}


def _line(key: str, blobs: Sequence[Blob]) -> bytes:
    return _dump(StoredRecord(key, [StoredBody(blob.sha256, blob.size) for blob in blobs]))


def _dump(record: StoredRecord) -> bytes:
    bodies = [{"sha256": body.sha256, "bytes": body.size} for body in record.bodies]
    return encode({"key": record.key, "bodies": bodies}) + b"\n"


def _parse(line: bytes, place: str) -> StoredRecord:
    try:
        value = decode(line)
        bodies = [StoredBody(body["sha256"], body["bytes"]) for body in value["bodies"]]
        return StoredRecord(value["key"], bodies)
    except (ValueError, KeyError, TypeError):
        raise SinkError(
            f"{place}: not a line of an index", "restore the file or remove the line"
        ) from None
