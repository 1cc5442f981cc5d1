"""Directories that are still there after a power cut: what is in one is lost with its name."""

from __future__ import annotations

import os
from pathlib import Path


def fsync_path(path: Path | str) -> None:
    """Make a file's content durable; of a directory, the names that were made or unmade in it."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def make_directory(path: Path) -> None:
    """Create a directory and its parents, each one's name durable in the one above."""
    if path.is_dir():
        return
    make_directory(path.parent)
    path.mkdir(exist_ok=True)
    fsync_path(path.parent)
