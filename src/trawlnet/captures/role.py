"""The roles that write captures into a workspace: crawl and scrape, which may run at once.

Each has a log and files of its own. Bodies, the page index and the sorted CDXJ are common.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice, takewhile
from operator import itemgetter
from pathlib import Path

from trawlnet.captures.line import CaptureLine
from trawlnet.captures.log import BEGINNING, files_of, log_end, read_chunks
from trawlnet.captures.page_index import CHECKPOINT, Checkpoint, PageIndex
from trawlnet.queues.acks import SpoolPosition
from trawlnet.queues.spool_reader import WINDOW

INDEX = "state/web/index"  # In the workspace.
_EMPTY = SpoolPosition(1, 0)  # The end of a log without lines, if it has a segment.
_AT_ONCE = 1_000  # Lines of all logs together.


@dataclass(frozen=True, slots=True)
class Role:
    log: str  # In the workspace, like the next one.
    lock: str
    checkpoint: bytes  # Its name in the page index.
    suffix: str  # Of the names of its files, before the extension.
    # Visits are repeated after a kill, and some after a clean end, while the spool's bookmark is
    # behind: this many are looked up in the log. 0: the checkpoint has them.
    remembered: int = 0

    def name(self, file: str) -> str:
        """The name of a file that both roles write."""
        path = Path(file)
        return path.with_stem(f"{path.stem}{self.suffix}").as_posix()


CRAWL = Role("state/web/captures", "state/web/captures.lock", CHECKPOINT, "")
SCRAPE = Role(
    "state/web/captures-scrape",
    "state/web/captures-scrape.lock",
    CHECKPOINT + b":scrape",
    "-scrape",
    remembered=WINDOW + 1_000,
)
ROLES = (CRAWL, SCRAPE)


def role_of(producer: str) -> Role:
    return SCRAPE if producer == "scrape" else CRAWL


def is_stale(workspace: Path, pages: PageIndex) -> bool:
    """Whether the index does not match the logs: it is new, or the logs were replaced by older
    ones."""
    for role in ROLES:
        known = pages.checkpoint(role.checkpoint)
        # Read after the checkpoint, which a running process advances as its log grows.
        end = log_end(workspace / role.log)
        if end > _EMPTY if known is None else known.log > end:
            return True
    return False


@dataclass(slots=True)
class Progress:
    """How far a log has been read, and the data that its writer needs."""

    log: SpoolPosition = BEGINNING
    batch: int = 0
    visits: list[str] = field(default_factory=list)  # Of the last batch.
    warc: tuple[str, int] | None = None

    def add(self, line: CaptureLine, end: SpoolPosition) -> None:
        if line.batch != self.batch:
            self.visits.clear()
        self.log, self.batch = end, line.batch
        self.visits.append(line.visit)
        if line.warc:
            self.warc = (line.warc.file, line.warc.end)


def latest_visits(folder: Path, most: int) -> list[str]:
    """The visits of the last `most` lines of a log, or a few more."""
    visits: list[str] = []
    for number in reversed(files_of(folder).numbers()):
        if len(visits) >= most:
            break
        chunks = read_chunks(folder, SpoolPosition(number, 0))
        mine = takewhile(lambda chunk: chunk.end.segment == number, chunks)  # noqa: B023 - used up here
        visits += [line.visit for chunk in mine for line in chunk.lines]
    return visits


def read_all(workspace: Path, progress: dict[Role, Progress]) -> Iterator[list[CaptureLine]]:
    """The lines of all logs by time; those of one log in order of writing. The progress is correct
    only at the end, because positions are those between chunks."""
    lines = (_timed(workspace, role, progress) for role in ROLES)
    merged = heapq.merge(*lines, key=itemgetter(0))
    while chunk := [line for _, line in islice(merged, _AT_ONCE)]:
        yield chunk


def _timed(
    workspace: Path, role: Role, progress: dict[Role, Progress]
) -> Iterator[tuple[float, CaptureLine]]:
    mine = progress.setdefault(role, Progress())
    for lines, end in read_chunks(workspace / role.log):
        for line in lines:
            mine.add(line, end)
            yield line.timestamp, line


def count_pages(workspace: Path) -> int:
    """The number of pages in the index, and of those in the log that the index does not have yet: a
    crawl may be running, or have been killed."""
    if not (workspace / INDEX / "data.mdb").exists():
        return 0
    index = PageIndex(workspace / INDEX, readonly=True)
    try:
        urls: set[str] = set()
        for role in ROLES:
            known = index.checkpoint(role.checkpoint) or Checkpoint()
            chunks = read_chunks(workspace / role.log, known.log)
            urls.update(line.url for lines, _ in chunks for line in lines)
        return index.count() + sum(index.get(url) is None for url in urls)
    finally:
        index.close()
