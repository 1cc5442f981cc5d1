"""Durable file operations: once one of them returns, its result survives a power cut."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from trawlnet.engine.durable import fsync_path, make_directory
from trawlnet.storage.errors import SinkBusy, from_os_error

_TAIL_CHUNK = 64 * 1024  # How much of a file is read at a time when looking back for a newline.


@contextmanager
def disk_errors(doing: str) -> Iterator[None]:
    """Turn operating system errors inside into a SinkError that names the action."""
    try:
        yield
    except OSError as error:
        raise from_os_error(error, doing) from error


def sync_filesystem(path: Path) -> bool:
    """Make the whole file system of `path` durable at once. False if this system cannot."""
    if not has_syncfs():
        return False
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if _LIBC.syncfs(fd) != 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code), str(path))
    finally:
        os.close(fd)
    return True


def has_syncfs() -> bool:
    """Whether the system has syncfs, as Linux does; elsewhere each file is synced by itself."""
    return hasattr(_LIBC, "syncfs")


_LIBC = ctypes.CDLL(None, use_errno=True)


def write_new(path: Path | str, data: bytes, permissions: int = 0o644) -> None:
    """Create a file. It is durable after its own fsync and its directory's."""
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, permissions)
    try:
        if permissions != 0o644:
            os.fchmod(fd, permissions)  # Explicit, so that the umask does not apply.
        write_all(fd, data)
    finally:
        os.close(fd)


def replace_file(path: Path, data: bytes) -> None:
    """Readers see the old content or the new, never a mix, even after a crash.

    For one writer at a time: the name of the temporary file is fixed, so that none accumulate.
    """
    temp = path.with_name(f".{path.name}.tmp")
    temp.unlink(missing_ok=True)
    write_new(temp, data)
    fsync_path(temp)
    temp.replace(path)
    fsync_path(path.parent)


def write_all(fd: int, data: bytes | bytearray) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def truncate_torn_line(path: Path) -> int:
    """Cut off an unfinished last line, which a crash left. Returns the number of bytes cut."""
    with path.open("r+b") as file:
        size = file.seek(0, os.SEEK_END)
        whole = end_of_last_line(file.fileno(), size)
        if whole < size:
            file.truncate(whole)
            os.fsync(file.fileno())
        return size - whole


def end_of_last_line(fd: int, size: int) -> int:
    """Behind the last newline in the first `size` bytes; 0 where there is none."""
    end = size
    while end > 0:
        start = max(0, end - _TAIL_CHUNK)
        newline = os.pread(fd, end - start, start).rfind(b"\n")
        if newline >= 0:
            return start + newline + 1
        end = start
    return 0


def append_line(path: Path, line: bytes) -> None:
    """Append one durable line to a file that several processes append to."""
    make_directory(path.parent)
    fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        truncate_torn_line(path)
        write_all(fd, line + b"\n")
        os.fsync(fd)
        fsync_path(path.parent)
    finally:
        os.close(fd)


class Appender:
    """An append-only file, written in batches; each batch is durable when append returns."""

    def __init__(self, path: Path, *, new: bool) -> None:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        self.path = path
        self._fd = os.open(path, flags | (os.O_EXCL if new else 0), 0o644)
        fsync_path(path.parent)
        self.size = os.fstat(self._fd).st_size

    def append(self, data: bytes) -> None:
        """After an OSError the file is in an unknown state: close it and open it again."""
        try:
            write_all(self._fd, data)
            os.fsync(self._fd)
        except OSError:
            self._undo()
            raise
        self.size += len(data)

    def close(self) -> None:
        os.close(self._fd)

    def _undo(self) -> None:
        try:
            os.ftruncate(self._fd, self.size)
        except OSError:
            pass  # The disk fails already; the next opening cuts an unfinished line.


class FileLock:
    """A file lock with at most one holder on this machine; the kernel releases it at death."""

    def __init__(self, path: Path, what: str) -> None:
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            free = any(map(self._take, range(_LOOKS)))
        except OSError:
            os.close(self._fd)
            raise
        if not free:
            holder = os.pread(self._fd, 20, 0).decode("ascii", "replace").strip() or "unknown"
            os.close(self._fd)
            raise SinkBusy(f"{what} is in use by pid {holder}", "wait, or stop that process")
        os.ftruncate(self._fd, 0)
        os.pwrite(self._fd, str(os.getpid()).encode(), 0)

    def release(self) -> None:
        os.close(self._fd)

    def _take(self, look: int) -> bool:
        if look:
            time.sleep(_LOOK_AGAIN)
        return _flocks(self._fd, fcntl.LOCK_EX)


_LOOKS = 5  # Tries: `is_held` holds the lock for an instant.
_LOOK_AGAIN = 0.05  # Seconds between two tries.


def is_held(path: Path) -> bool:
    """Whether a process holds the lock of this file now."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        return not _flocks(fd, fcntl.LOCK_SH)
    finally:
        os.close(fd)


@contextmanager
def taking_turns(path: Path) -> Iterator[None]:
    """Wait for the lock of a file and hold it inside; for short work."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def _flocks(fd: int, kind: int) -> bool:
    try:
        fcntl.flock(fd, kind | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in (errno.EAGAIN, errno.EACCES):
            raise
        return False
    return True
