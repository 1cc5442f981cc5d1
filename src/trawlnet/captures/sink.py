"""The sink of a web crawl: captures, durable when `write` returns, and told to the spool."""

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

    A visit whose receipt was lost in a crash is done again: if it brings the same content it
    is dropped, otherwise both are kept, since both were seen. The spool may tell it twice.
    """

    def __init__(
        self,
        workspace: Path,
        thread: ThreadPoolExecutor,
        files: CaptureFiles,
        discoveries: Queue | None,
    ) -> None:
        self._workspace = workspace
        # One thread: batches go to disk one after the other, even if a caller is cancelled.
        self._thread = thread
        self._files = files
        self._discoveries = discoveries
        self.counts: Counter[str] = Counter()  # Since opening, for the metrics CSV.

    @classmethod
    async def open(
        cls, workspace: Path, options: CaptureOptions, discoveries: Queue | None = None
    ) -> CaptureSink:
        """The queue stays its owner's: whoever opened it closes it, after this sink."""
        thread = ThreadPoolExecutor(1, thread_name_prefix="captures")
        try:
            files = await _in(thread, CaptureFiles, workspace, options)
        except BaseException:
            thread.shutdown(wait=False)
            raise
        return cls(workspace, thread, files, discoveries)

    @property
    def pages(self) -> PageIndex:
        """Look-ups take microseconds, so they may be made on the event loop."""
        return self._files.pages

    async def body(self, stored_path: str) -> bytes:
        """A stored body. FileNotFoundError, or ValueError if it is damaged."""
        return await asyncio.to_thread(read_blob, self._workspace / stored_path)

    async def write(self, batch: Sequence[tuple[Task, Sequence[Any]]]) -> None:
        found = [(task, item) for task, items in batch for item in items]
        if not found:
            return
        self.counts.update(count(await _in(self._thread, self._files.write, found)))
        # After the log, so that a discovery never names a page that is not there.
        if self._discoveries:
            told = [discovery_of(capture) for _, capture in found if capture.discovered]
            await self._discoveries.publish(told)

    async def close(self) -> None:
        try:
            await _in(self._thread, self._files.close)
        finally:
            self._thread.shutdown(wait=False)


async def _in(thread: ThreadPoolExecutor, call: Callable[..., R], *args: Any) -> R:
    return await asyncio.get_running_loop().run_in_executor(thread, call, *args)
