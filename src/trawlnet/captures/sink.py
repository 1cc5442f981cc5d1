"""The sink of a web crawl: makes captures durable, and announces them in the discovery spool."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

from trawlnet.captures.blobs import read_blob
from trawlnet.captures.counters import count
from trawlnet.captures.discovery import discovery_of
from trawlnet.captures.files import CaptureFiles, CaptureOptions
from trawlnet.captures.page_index import PageIndex
from trawlnet.engine.task import Task
from trawlnet.queues.queue import Queue

R = TypeVar("R")


class CaptureSink:
    """An engine Sink; each item is a Capture. Made by `await CaptureSink.open(...)`, which
    repairs what a killed crawl left.

    A visit whose receipt was lost in a crash is repeated: a second capture with the same content
    is dropped, one with other content is stored, too. The spool may announce it twice.
    """

    def __init__(
        self,
        workspace: Path,
        thread: ThreadPoolExecutor,
        files: CaptureFiles,
        discoveries: Queue | None,
    ) -> None:
        self._workspace = workspace
        # One thread writes batches one after the other, even if a caller is cancelled.
        self._thread = thread
        self._files = files
        self._discoveries = discoveries
        self.counts: Counter[str] = Counter()  # Since opening, for the metrics CSV.

    @classmethod
    async def open(
        cls, workspace: Path, options: CaptureOptions, discoveries: Queue | None = None
    ) -> CaptureSink:
        """The caller owns the queue, and closes it after this sink."""
        thread = ThreadPoolExecutor(1, thread_name_prefix="captures")
        try:
            files = await _in(thread, CaptureFiles, workspace, options)
        except BaseException:
            thread.shutdown(wait=False)
            raise
        return cls(workspace, thread, files, discoveries)

    @property
    def pages(self) -> PageIndex:
        """The page index; a read takes microseconds, so the event loop may do it."""
        return self._files.pages

    async def body(self, stored_path: str) -> bytes:
        """A stored body. Raises FileNotFoundError, or ValueError if it is damaged."""
        return await asyncio.to_thread(read_blob, self._workspace / stored_path)

    async def write(self, batch: Sequence[tuple[Task, Sequence[Any]]]) -> None:
        found = [(task, item) for task, items in batch for item in items]
        if not found:
            return
        self.counts.update(count(await _in(self._thread, self._files.write, found)))
        # After the log, so that a discovery never names a missing page.
        if self._discoveries:
            discoveries = [discovery_of(capture) for _, capture in found if capture.discovered]
            await self._discoveries.publish(discoveries)

    async def close(self) -> None:
        try:
            await _in(self._thread, self._files.close)
        finally:
            self._thread.shutdown(wait=False)


async def _in(thread: ThreadPoolExecutor, call: Callable[..., R], *args: Any) -> R:
    return await asyncio.get_running_loop().run_in_executor(thread, call, *args)
