"""LMDB tables of notes; most can be computed again: who opens them says which cannot."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import lmdb

from trawlnet.engine.durable import make_directory
from trawlnet.stores.errors import StoreError

KEY_MAX: Final = 511  # Bytes of a key.
_MAP_BYTES: Final = 64 << 30  # Address space, not disk: 600 million short notes.
_TABLES: Final = 16
_UNREADABLE: Final = (
    lmdb.CorruptedError,
    lmdb.InvalidError,
    lmdb.VersionMismatchError,
    lmdb.PanicError,
)

_IS_REBUILT: Final = "free some space and start again: the notes are a cache, and are rebuilt"
_IS_SAVED: Final = "free some space and start again; do not delete them: there is no other copy"


class LmdbNotes:
    """Each transaction belongs to one thread; several threads may have some at once."""

    def __init__(self, environment: Any, hint: str) -> None:
        self._environment = environment
        self._hint = hint  # What to do when they can be neither read nor written.

    def table(self, name: str) -> Any:
        with _in_words(self._hint):
            return self._environment.open_db(name.encode())

    def get(self, table: Any, key: bytes) -> bytes | None:
        """One value. A crawl asks before each task, and two generators take longer than LMDB."""
        try:
            with self._environment.begin(db=table) as txn:
                value: bytes | None = txn.get(key)
                return value
        except lmdb.Error as error:
            raise _trouble(error, self._hint) from error

    @contextmanager
    def reading(self, table: Any) -> Iterator[Any]:
        with _in_words(self._hint), self._environment.begin(db=table) as txn:
            yield txn

    @contextmanager
    def writing(self, table: Any) -> Iterator[Any]:
        """Durable when the block has ended."""
        with _in_words(self._hint), self._environment.begin(db=table, write=True) as txn:
            yield txn

    def close(self) -> None:
        self._environment.close()


def open_notes(path: Path, *, is_only_copy: bool = False) -> LmdbNotes:
    """Open the tables. A file that cannot be read is replaced by an empty one, unless there is
    no other copy of what it holds."""
    make_directory(path)
    hint = _IS_SAVED if is_only_copy else _IS_REBUILT
    try:
        return LmdbNotes(_open(path), hint)
    except _UNREADABLE as error:
        if is_only_copy:
            raise StoreError(
                f"{path} is damaged: {error}",
                f"restore it from a backup; or begin anew: mv '{path}' '{path}.damaged'",
            ) from error
        for file in path.glob("*.mdb"):
            file.unlink()
    with _in_words(hint):
        return LmdbNotes(_open(path), hint)


def count_notes(path: Path, table: str) -> int:
    """The number of entries; does not create a file."""
    if not (path / "data.mdb").exists():
        return 0
    try:
        with lmdb.open(str(path), readonly=True, max_dbs=_TABLES) as environment:
            found = environment.open_db(table.encode(), create=False)
            with environment.begin() as txn:
                return int(txn.stat(found)["entries"])
    except lmdb.Error:
        return 0


def note_values(path: Path, table: str) -> Iterator[bytes]:
    """All values of a table; does not create a file."""
    for _, value in notes_in(path, table):
        yield value


def notes_in(path: Path, table: str) -> Iterator[tuple[bytes, bytes]]:
    """All keys and values of a table; does not create a file."""
    with _looking(path, table) as txn:
        if txn is not None:
            yield from txn.cursor()


def known_notes(path: Path, table: str, keys: Iterable[bytes]) -> set[bytes]:
    """The keys that are in the table."""
    with _looking(path, table) as txn:
        return set() if txn is None else {key for key in keys if txn.get(key) is not None}


def some_notes(path: Path, table: str, keys: Iterable[bytes]) -> dict[bytes, bytes]:
    """Those of the keys that are in the table, with their values."""
    with _looking(path, table) as txn:
        found = {} if txn is None else {key: txn.get(key) for key in keys}
    return {key: value for key, value in found.items() if value is not None}


@contextmanager
def _looking(path: Path, table: str) -> Iterator[Any]:
    """A read transaction; None if there is no file, or no such table in it."""
    if not (path / "data.mdb").exists():
        yield None
        return
    with lmdb.open(str(path), readonly=True, max_dbs=_TABLES) as environment:
        try:
            found = environment.open_db(table.encode(), create=False)
        except lmdb.NotFoundError:
            yield None
            return
        with environment.begin(db=found) as txn:
            yield txn


def _open(path: Path) -> Any:
    return lmdb.open(str(path), map_size=_MAP_BYTES, max_dbs=_TABLES, max_readers=64)


@contextmanager
def _in_words(hint: str) -> Iterator[None]:
    try:
        yield
    except lmdb.Error as error:
        raise _trouble(error, hint) from error


def _trouble(error: Exception, hint: str) -> StoreError:
    return StoreError(f"the notes of the crawl cannot be read or written: {error}", hint)
