"""Reads the capture log of a workspace, and opens its discovery spool."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from trawlnet.captures.discovery import BOOKMARK, NAME, SPOOL
from trawlnet.captures.line import CaptureLine
from trawlnet.captures.log import read_chunks
from trawlnet.queues.open import open_queue
from trawlnet.queues.queue import Queue, QueueOptions


def read_captures(folder: Path) -> Iterator[CaptureLine]:
    return (line for chunk in read_chunks(folder) for line in chunk.lines)


async def open_discoveries(workspace: Path, segment_bytes: int = 64 << 20) -> Queue:
    """Segments stay after they have been read, as in a crawl."""
    options = QueueOptions(segment_bytes=segment_bytes, keep=True, bookmark=workspace / BOOKMARK)
    return await open_queue(workspace / SPOOL, NAME, options)
