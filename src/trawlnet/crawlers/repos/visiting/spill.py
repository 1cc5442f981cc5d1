"""Bodies that find no room in memory: on to files without a name, and read through a map."""

from __future__ import annotations

import asyncio
import errno
import mmap
import os
import tempfile
from collections.abc import AsyncIterator, Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from trawlnet.engine.outcome import Outcome, Reason
from trawlnet.storage.files import write_all

FOLDER = "tmp"
_PREFIX = "spill-"
_SPACE_WAIT = 30.0  # Seconds before the next try: no disk empties itself sooner.
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
# Said where files without a name are unknown: to the file system, or to the kernel.
_NAMES_ONLY = (errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL)


class Unspillable(Exception):
    """The disk did not take it, which costs this try and no more."""

    def __init__(self, error: OSError) -> None:
        super().__init__(error.strerror)
        self.error = error

    def outcome(self) -> Outcome:
        full = self.error.errno in _FULL
        return Outcome(
            Reason.NO_SPACE if full else Reason.UNKNOWN,
            wait=_SPACE_WAIT,
            detail=f"no memory is free, and writing to disk failed: {self.error.strerror}",
        )


class Spills:
    """Where they go. A killed crawl leaves nothing, for its files have no names; where the system
    cannot do that they have one for an instant, and opening removes what a kill left of it."""

    def __init__(self, folder: Path, on_spilled: Callable[[int], None]) -> None:
        """`on_spilled` gets the size of each body that is in a file."""
        self._folder = folder
        self._on_spilled = on_spilled
        # One thread: what is asked of one file happens in order, even if the asker is cancelled.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="spill")
        for leftover in folder.glob(f"{_PREFIX}*"):
            leftover.unlink()

    @asynccontextmanager
    async def file(self) -> AsyncIterator[SpillFile]:
        """One that is made when something is appended, and gone after the block; a map of it
        outlasts it."""
        file = SpillFile(self._folder, self._thread)
        try:
            yield file
        finally:
            self._thread.submit(file.close)
        self._on_spilled(file.size)

    def close(self) -> None:
        self._thread.shutdown()
        with suppress(OSError):  # It was never made, or has something in it that is not ours.
            self._folder.rmdir()


class SpillFile:
    def __init__(self, folder: Path, thread: Executor) -> None:
        self._folder = folder
        self._thread = thread
        self._fd = -1
        self.size = 0

    async def append(self, data: bytearray) -> None:
        """Who is cancelled meanwhile leaves the data to the file. Raises Unspillable."""
        loop = asyncio.get_running_loop()
        try:
            await loop.run_in_executor(self._thread, self._append, data)
        except OSError as error:
            raise Unspillable(error) from error

    def mapped(self) -> memoryview:
        """All of it, read-only; the system may drop pages that it can read again. Raises
        Unspillable."""
        try:
            return memoryview(mmap.mmap(self._fd, self.size, prot=mmap.PROT_READ))
        except OSError as error:
            raise Unspillable(error) from error

    def close(self) -> None:
        """In the thread, after whatever was still to be written."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def _append(self, data: bytearray) -> None:
        if self._fd < 0:
            self._fd = _nameless(self._folder)
        write_all(self._fd, data)
        self.size += len(data)


def _nameless(folder: Path) -> int:
    folder.mkdir(exist_ok=True)
    try:
        return os.open(folder, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600)
    except AttributeError:
        pass  # A system without the word for it.
    except OSError as error:
        if error.errno not in _NAMES_ONLY:
            raise
    fd, path = tempfile.mkstemp(prefix=_PREFIX, dir=folder)
    Path(path).unlink()
    return fd
