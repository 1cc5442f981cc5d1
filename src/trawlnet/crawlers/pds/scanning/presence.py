"""Which scans of a workspace are alive: each holds a lock on a file that has its name.

The kernel lets go of the lock of whoever dies, however it dies. So whoever comes next gives back
what the dead had claimed, and waits for no lease.
"""

from __future__ import annotations

import fcntl
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from trawlnet.engine.durable import make_directory
from trawlnet.tables.registry.registry import Registry

_FOLDER = "scans"  # In the state folder.


@contextmanager
def present(state: Path, owner: str) -> Iterator[None]:
    """Be known as alive under this name, as long as this process is."""
    folder = state / _FOLDER
    make_directory(folder)
    # Locked before it has its name: nobody sees it without the lock.
    draft, path = folder / f".{owner}", folder / owner
    fd = os.open(draft, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        os.write(fd, _number(fd))
        draft.replace(path)
        yield
        # After an error it stays: a claim may be left, and the next one here gives it back.
        path.unlink(missing_ok=True)
    finally:
        os.close(fd)


async def release_dead(registry: Registry, state: Path, now: float) -> int:
    """Give back what scans that died in this workspace had claimed. Returns how many rows."""
    released = 0
    for path in _named_here(state / _FOLDER):
        with _taken_over(path) as is_dead:
            if is_dead:
                released += await registry.release_all(path.name, now)
                path.unlink(missing_ok=True)
    return released


def _named_here(folder: Path) -> list[Path]:
    """Those of this machine: locks do not reach every file system that machines share."""
    mine = f"{socket.gethostname()}:"
    paths = sorted(folder.iterdir()) if folder.is_dir() else []
    return [path for path in paths if path.name.startswith(mine)]


@contextmanager
def _taken_over(path: Path) -> Iterator[bool]:
    try:
        fd = os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        yield False  # It ended, or another one was faster.
        return
    try:
        # The file of a copied workspace is nobody's: who wrote it may live in the original.
        yield _has_lock(fd) and os.pread(fd, 40, 0) == _number(fd)
    finally:
        os.close(fd)


def _has_lock(fd: int) -> bool:
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _number(fd: int) -> bytes:
    return str(os.fstat(fd).st_ino).encode()
