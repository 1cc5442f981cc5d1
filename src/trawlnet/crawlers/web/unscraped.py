"""Visits that a scrape gave up: saved in a file, listed by `failures`, repeated after `retry`.

A scrape has no durable store, because the spool and its bookmark are its state. A line here ends as
soon as a crawl or a scrape fetches its page.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from trawlnet.crawlers.web.work import PageVisit
from trawlnet.engine.durable import make_directory
from trawlnet.engine.outcome import Reason, Receipt
from trawlnet.engine.ports import Counts, Failure, Ledger, Positioned, Store
from trawlnet.queues.queue import Message, Queue
from trawlnet.storage.files import Appender, disk_errors, replace_file

FILE = "unscraped.jsonl"  # In the state folder.


class Unscraped(msgspec.Struct, frozen=True):
    url: str
    lane: str
    reason: Reason
    detail: str
    attempt: int
    at: float
    page_type: str = ""
    depth: int = 0
    referrer: str = ""

    @classmethod
    def of(cls, visit: PageVisit, lane: str, receipt: Receipt) -> Unscraped:
        return cls(
            visit.url,
            lane,
            receipt.reason,
            receipt.detail.encode("utf-8", "replace").decode(),
            receipt.task.attempt,
            receipt.at,
            visit.page_type,
            visit.depth,
            visit.referrer,
        )

    def failure(self) -> Failure:
        return Failure(self.url, self.lane, self.reason, self.detail, self.attempt, self.at)

    def discovery(self) -> Message:
        return {
            "url": self.url,
            "page_type": self.page_type,
            "depth": self.depth,
            "referrer": self.referrer or None,
            "metadata": {"retry_of": str(self.reason)},
        }


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Unscraped).decode
FetchedAt = Callable[[str], float]  # When a URL was last fetched successfully; 0 if never.


def read_unscraped(path: Path, fetched_at: FetchedAt) -> list[Unscraped]:
    """The visits whose page was not fetched since, each with its last line."""
    latest: dict[str, Unscraped] = {}
    for line in path.read_bytes().splitlines() if path.exists() else ():
        try:
            row = _decode(line)
        except msgspec.MsgspecError:
            continue  # The incomplete last line of a killed process.
        latest.pop(row.url, None)
        latest[row.url] = row
    return [row for row in latest.values() if fetched_at(row.url) <= row.at]


def write_unscraped(path: Path, rows: Iterable[Unscraped]) -> None:
    with disk_errors(f"writing {path}"):
        make_directory(path.parent)
        replace_file(path, b"".join(_encode(row) + b"\n" for row in rows))


class UnscrapedFile:
    """The file of one scrape; lines that have ended are dropped when it opens."""

    def __init__(self, path: Path, fetched_at: FetchedAt) -> None:
        write_unscraped(path, read_unscraped(path, fetched_at))
        self._path = path
        self._file = Appender(path, new=False)

    def add(self, rows: Sequence[Unscraped]) -> None:
        """Durable on return."""
        if rows:
            with disk_errors(f"writing {self._path}"):
                self._file.append(b"".join(_encode(row) + b"\n" for row in rows))

    def close(self) -> None:
        self._file.close()


@dataclass(frozen=True, slots=True)
class BothLedgers:
    """The ledger of the crawl, together with the given-up visits of scrapes."""

    crawl: Store
    path: Path
    fetched_at: FetchedAt
    spool: Callable[[], Queue]

    async def failures(self, reason: Reason | None = None) -> AsyncIterator[Failure]:
        async for failure in self.crawl.failures(reason):
            yield failure
        for row in read_unscraped(self.path, self.fetched_at):
            if reason in (None, row.reason):
                yield row.failure()

    async def retry(self, reason: Reason | None = None) -> int:
        """Given-up visits of scrapes return to the discovery spool, for the next scrape."""
        rows = read_unscraped(self.path, self.fetched_at)
        again = [row for row in rows if reason in (None, row.reason)]
        if again:
            spool = self.spool()
            try:
                await spool.publish([row.discovery() for row in again])
            finally:
                await spool.close()
            write_unscraped(self.path, [row for row in rows if row not in again])
        return len(again) + await self.crawl.retry(reason)

    async def cursor(self) -> str | None:
        return await self.crawl.cursor()

    async def counts(self) -> Counts:
        return await self.crawl.counts()

    async def close(self) -> None:
        await self.crawl.close()


if TYPE_CHECKING:
    _LEDGER: type[Ledger] = BothLedgers
    _POSITIONED: type[Positioned] = BothLedgers
