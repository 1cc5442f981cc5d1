"""The notebook of a crawl: an LMDB environment for what can be worked out again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import lmdb

from trawlnet.sink.errors import SinkError

_MAP_BYTES = 64 << 30  # Address space, not disk: a billion repositories.
_UNREADABLE = (lmdb.CorruptedError, lmdb.InvalidError, lmdb.VersionMismatchError, lmdb.PanicError)


def open_notes(path: Path) -> Any:
    """What cannot be read is begun anew: nothing in it is the only copy."""
    path.mkdir(parents=True, exist_ok=True)
    try:
        return _open(path)
    except _UNREADABLE:
        for file in path.glob("*.mdb"):
            file.unlink()
        return _open(path)


def _open(path: Path) -> Any:
    return lmdb.open(str(path), map_size=_MAP_BYTES, max_dbs=8, max_readers=64)


@contextmanager
def noting() -> Iterator[None]:
    """Trouble with the notebook, said in words."""
    try:
        yield
    except lmdb.Error as error:
        raise SinkError(
            f"the notes of the crawl cannot be written: {error}",
            "free some space and start again: the archive is whole, and notes are made anew",
        ) from error
