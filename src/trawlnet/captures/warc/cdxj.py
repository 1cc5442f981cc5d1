"""The CDXJ index: sorted, with a tail of newer lines that is merged into it from time to time."""

from __future__ import annotations

import heapq
import os
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import IO

from trawlnet.engine.durable import fsync_path
from trawlnet.storage.files import truncate_torn_line

_SORTED_AT_ONCE = 100_000  # Lines in memory.


def merge_tail(index: Path, tail: Path) -> None:
    """Merge the tail into the index: every line once, in order; the tail stays unchanged.

    A crash leaves the old index or the new one. Merging the same tail again changes nothing.
    """
    if not tail.exists() or tail.stat().st_size == 0:
        return
    truncate_torn_line(tail)
    unfinished = index.with_name(f".{index.name}.tmp")
    with ExitStack() as stack, unfinished.open("wb") as out:
        runs = [_sorted_run(chunk, stack, tail.parent) for chunk in _chunks(tail)]
        if index.exists():
            runs.append(stack.enter_context(index.open("rb")))
        out.writelines(_distinct(heapq.merge(*runs)))
        out.flush()
        os.fsync(out.fileno())
    unfinished.replace(index)
    fsync_path(index.parent)


def _chunks(tail: Path) -> Iterator[list[bytes]]:
    with tail.open("rb") as lines:
        while chunk := list(islice(lines, _SORTED_AT_ONCE)):
            yield chunk


def _sorted_run(chunk: list[bytes], stack: ExitStack, folder: Path) -> IO[bytes]:
    run = stack.enter_context(tempfile.TemporaryFile(dir=folder))  # noqa: SIM115 - the stack's
    run.writelines(sorted(chunk))
    run.seek(0)
    return run


def _distinct(lines: Iterable[bytes]) -> Iterator[bytes]:
    before = b""
    for line in lines:
        if line != before:
            yield line
        before = line
