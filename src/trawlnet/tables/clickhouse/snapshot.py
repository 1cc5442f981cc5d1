"""The embedded tables as they are at one instant, beside the process that has them open.

Files of a MergeTree part never change once the part has its name, so a snapshot links them, and
copies the rest, which is small. Who reads it neither waits for the writer nor holds it up.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from trawlnet.tables.errors import TablesError

_FOLDER = "snapshots"  # Inside of the tables: links do not cross file systems.
_LOCK = "in-use"
_TRIES = 10  # Merging or dropping a table meanwhile takes files away.
_LISTINGS = 100  # Of one folder, until two that follow each other agree.
_NOT_PARTS = ("tmp", "delete_tmp", "detached", "moving")
_LEFT_OUT = frozenset({_FOLDER, "status", "tmp", "trawlnet.lock"})
_NO_LINKS = frozenset({errno.EPERM, errno.EXDEV, errno.EMLINK, errno.ENOTSUP, errno.ENOSYS})


class NoSnapshot(Exception):
    """There are no tables yet, or the file system cannot have one file under two names."""


@contextmanager
def snapshot_of(folder: Path) -> Iterator[Path]:
    """Blocking. A folder with the same tables, for as long as this lasts. Raises NoSnapshot."""
    shelf = folder / _FOLDER
    if not folder.exists():
        raise NoSnapshot
    shelf.mkdir(exist_ok=True)
    place, lock = _reserve(shelf)
    try:
        yield _taken(folder, place)
    finally:
        shutil.rmtree(place, ignore_errors=True)
        os.close(lock)


def _reserve(shelf: Path) -> tuple[Path, int]:
    """A new folder, locked; those that killed processes have left are removed."""
    door = os.open(shelf, os.O_RDONLY | os.O_CLOEXEC)
    try:
        fcntl.flock(door, fcntl.LOCK_EX)
        for left in shelf.iterdir():
            if not _is_in_use(left):
                shutil.rmtree(left, ignore_errors=True)
        place = Path(tempfile.mkdtemp(dir=shelf))
        lock = os.open(place / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        fcntl.flock(lock, fcntl.LOCK_EX)
        return place, lock
    finally:
        os.close(door)


def _is_in_use(place: Path) -> bool:
    try:
        lock = os.open(place / _LOCK, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False


def _taken(folder: Path, place: Path) -> Path:
    for number in range(_TRIES):
        target = place / str(number)
        try:
            _copy(folder, target, depth=0)
            return target
        except FileNotFoundError:
            shutil.rmtree(target, ignore_errors=True)
        except OSError as error:
            if error.errno in _NO_LINKS:
                raise NoSnapshot from error
            raise TablesError(
                f"cannot take a snapshot of {folder}: {error.strerror}",
                "check that the disk has room, and that the folder may be written to",
            ) from error
    raise TablesError(f"the tables in {folder} change too fast to be read", "ask again")


_PART_DEPTH = 3  # store/abc/abcdef…/all_1_1_0


def _copy(source: Path, target: Path, depth: int) -> None:
    target.mkdir()
    for entry in _entries(source):
        to = target / entry.name
        if entry.is_symlink():
            to.symlink_to(Path(entry).readlink())
        elif depth == 0 and entry.name in _LEFT_OUT:
            continue
        elif entry.is_dir():
            if depth < _PART_DEPTH or target.parts[-3] != "store":
                _copy(Path(entry), to, depth + 1)
            else:
                _link(Path(entry), to)
        else:
            shutil.copyfile(entry, to)


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    """All entries of one instant, less those that are no parts yet or any more.

    A long listing takes several calls of the system: it may show a part that was written
    meanwhile, and lack one that was written before it.
    """
    before = None
    for _ in range(_LISTINGS):
        with os.scandir(folder) as listing:
            found = {entry.name: entry for entry in listing if not _is_passing(entry)}
        if before == found.keys():
            return list(found.values())
        before = found.keys()
    raise FileNotFoundError(folder)  # It changes all the time; the caller begins anew.


def _is_passing(entry: os.DirEntry[str]) -> bool:
    return entry.name.startswith(_NOT_PARTS) and entry.is_dir(follow_symlinks=False)


def _link(source: Path, target: Path) -> None:
    """A part, and the parts of its projections inside of it."""
    target.mkdir()
    with os.scandir(source) as entries:
        for entry in entries:
            if entry.is_dir():
                _link(Path(entry), target / entry.name)
            else:
                os.link(entry, target / entry.name)
