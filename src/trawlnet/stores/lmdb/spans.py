"""Spans in LMDB: one row for each, so that the file grows with their number, not their length."""

from __future__ import annotations

import struct
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

import lmdb
import msgspec

from trawlnet.engine.durable import fsync_path, make_directory
from trawlnet.stores.errors import StoreError
from trawlnet.stores.lmdb.growth import with_room
from trawlnet.stores.spans import Span, gathered, overlay

T = TypeVar("T")

_FORMAT: Final = b"trawlnet spans 1"
_FIRST_MAP_BYTES: Final = 64 << 20  # Address space, not disk; doubled whenever it is full.
_NUMBER: Final = struct.Struct(">Q")
_AT_ONCE: Final = 10_000  # Rows read in one transaction: a long listing must not pin old pages.
_TABLES: Final = 4


class SpanFile:
    """One writer at a time, any number of readers in other processes. Not for two threads."""

    def __init__(self, path: Path, *, readonly: bool = False) -> None:
        self._path = path
        with self._in_words():
            if not readonly:
                make_directory(path)
            self._environment = lmdb.open(
                str(path),
                map_size=0 if readonly else _FIRST_MAP_BYTES,
                max_dbs=_TABLES,
                readonly=readonly,
                create=not readonly,
            )
            if not readonly:
                fsync_path(path)  # LMDB syncs its files, but not their names.
        try:
            self._spans, self._notes = (
                self._table(name, create=not readonly) for name in (b"spans", b"notes")
            )
            self._check_format(readonly)
        except BaseException:
            self.close()  # The caller has no object to close, and may open a file only once.
            raise

    def write(
        self, spans: Sequence[Span], notes: Mapping[str, Any], stands: Container[str] = ()
    ) -> dict[str, int]:
        """Write in one durable transaction."""

        def run() -> dict[str, int]:
            changes: dict[str, int] = {}
            with self._environment.begin(write=True, db=self._spans) as txn:
                cursor = txn.cursor()
                for span in gathered(spans):
                    _lay(cursor, span, stands, changes)
                for name, value in notes.items():
                    _keep(txn, self._notes, name, value)
            return changes

        return self._with_room(run)

    def notes(self, names: Sequence[str]) -> list[Any]:
        def run() -> list[Any]:
            with self._environment.begin(db=self._notes) as txn:
                found = [txn.get(name.encode()) for name in names]
            return [None if one is None else msgspec.msgpack.decode(one) for one in found]

        return self._with_room(run)

    def spans(self, after: int = 0, at_once: int = _AT_ONCE) -> Iterator[Span]:
        while rows := self._chunk(after, at_once):
            yield from rows
            after = rows[-1].end

    def _chunk(self, after: int, at_once: int) -> list[Span]:
        def run() -> list[Span]:
            with self._environment.begin(db=self._spans) as txn:
                cursor = txn.cursor()
                rows: list[Span] = []
                found = _seek_before(cursor, after)
                while found and len(rows) < at_once:
                    span = _span(cursor)
                    if span.end > after:
                        rows.append(span)
                    found = cursor.next()
                return rows

        return self._with_room(run)

    def count(self) -> int:
        def run() -> int:
            with self._environment.begin() as txn:
                return int(txn.stat(self._spans)["entries"])

        return self._with_room(run)

    def close(self) -> None:
        self._environment.close()

    def _table(self, name: bytes, *, create: bool) -> Any:
        return self._with_room(lambda: self._environment.open_db(name, create=create))

    def _check_format(self, readonly: bool) -> None:
        (found,) = self.notes(["format"])
        if found is None and not readonly:
            self.write((), {"format": _FORMAT})
        elif found != _FORMAT:
            raise StoreError(
                f"{self._path} is not a ledger of this version", "name another workspace with -w"
            )

    def _with_room(self, run: Callable[[], T]) -> T:
        """Run a transaction, and again with a larger map while the map is too small."""
        with self._in_words():
            return with_room(lambda: self._environment, run)

    @contextmanager
    def _in_words(self) -> Iterator[None]:
        try:
            yield
        except (lmdb.Error, OSError) as error:
            raise StoreError(
                f"the ledger in {self._path} cannot be read or written: {error}",
                "check the disk and start again: everything confirmed so far is kept",
            ) from error


def _lay(cursor: Any, new: Span, stands: Container[str], changes: dict[str, int]) -> None:
    old = _touching(cursor, new)
    fresh = overlay(old, new, stands)
    kept = {span.start: span for span in fresh}
    for span in old:
        changes[span.word] = changes.get(span.word, 0) - (span.end - span.start)
        if span.start not in kept:
            cursor.pop(_NUMBER.pack(span.start))
    before = set(old)
    for span in fresh:
        changes[span.word] = changes.get(span.word, 0) + (span.end - span.start)
        if span not in before:
            cursor.put(_NUMBER.pack(span.start), _NUMBER.pack(span.end) + span.word.encode())


def _touching(cursor: Any, new: Span) -> list[Span]:
    found, old = _seek_before(cursor, new.start), []
    while found and (span := _span(cursor)).start <= new.end:
        if span.end >= new.start:
            old.append(span)
        found = cursor.next()
    return old


def _seek_before(cursor: Any, number: int) -> bool:
    """To the last row that starts before the number, else to the first row of all."""
    if cursor.set_range(_NUMBER.pack(number)):
        return bool(cursor.prev() or cursor.first())
    return bool(cursor.last())


def _span(cursor: Any) -> Span:
    value = cursor.value()
    return Span(_NUMBER.unpack(cursor.key())[0], _NUMBER.unpack_from(value)[0], value[8:].decode())


def _keep(txn: Any, table: Any, name: str, value: Any) -> None:
    if value is None:
        txn.delete(name.encode(), db=table)
    else:
        txn.put(name.encode(), msgspec.msgpack.encode(value), db=table)
