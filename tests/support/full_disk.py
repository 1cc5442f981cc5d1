"""A disk that fills up while something is written to it."""

from __future__ import annotations

import errno
import os
from typing import Any


class FullDisk:
    """os.write that takes so many bytes and then says that the disk is full."""

    def __init__(self, room: int) -> None:
        self._room = room
        self._write = os.write

    def __call__(self, fd: int, data: Any) -> int:
        if self._room <= 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        taken = self._write(fd, data[: self._room])
        self._room -= taken
        return taken
