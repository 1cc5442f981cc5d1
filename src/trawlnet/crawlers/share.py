"""One crawl as one of many shards sees it: which lanes are its own, and what it has to heed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from trawlnet.crawlers.errors import NotReady
from trawlnet.engine.crawl import Limits, Parts
from trawlnet.engine.partition import bucket_of
from trawlnet.engine.ports import Page, Source


def check_places(redis_address: str, archive: str) -> None:
    """Raises NotReady where a fleet has nowhere to keep what all of it shares."""
    if not redis_address:
        raise NotReady("a fleet keeps its state in Redis", "name one: --store redis://HOST:PORT/0")
    if not archive:
        raise NotReady(
            "a fleet needs an archive that all its processes can reach",
            "name one: --archive s3://BUCKET/FOLDER, or a folder of a shared file system",
        )


async def _always() -> None:
    return None


@dataclass(frozen=True, slots=True)
class ShardOwnership:
    """What lets a process act: nothing where it is alone, else its lease on a part of the lanes."""

    token: str = ""  # That its writing is checked against.
    barred_until: Callable[[], float] = lambda: 0.0  # For the gate.
    may_put: Callable[[], Awaitable[None]] = _always  # Raises when the term has ended.


@dataclass(frozen=True, slots=True)
class Share:
    """The identity and the limits of a shard in one term of ownership."""

    shard: int
    shards: int
    run: int  # The same number for all shards, and across restarts, until the crawl is done.
    token: str
    buckets: frozenset[int]
    scratch: Path  # For notes that can be worked out again.
    barred_until: Callable[[], float]  # For the gate: nobody leaves while ownership is in doubt.
    may_put: Callable[[], Awaitable[None]]  # Raises when the ownership has ended.
    s3: Mapping[str, str] = field(default_factory=dict, repr=False)

    def owns(self, lane: str) -> bool:
        return bucket_of(lane) in self.buckets


@dataclass(frozen=True, slots=True)
class Opened:
    """A crawler's parts for one shard."""

    parts: Parts[Any]
    limits: Limits
    workers: int
    hurry: Callable[[], None]  # Make durable now what gathers.
    figures: Callable[[], Mapping[str, int]]  # Of this term, to be shown.


class ShareSource:
    """What a source tells, as far as it is about our lanes, once in each run.

    A cursor is the run, 0 or 1 for "read in part" or "read to its end", and the source's cursor:
    of two, the lesser has more left to tell.
    """

    def __init__(self, source: Source, run: int, owns: Callable[[str], bool]) -> None:
        self._source = source
        self._run = run
        self._owns = owns

    async def pages(self, after: str | None) -> AsyncIterator[Page]:
        run, whole, cursor = _parsed(after)
        if whole and run == self._run:
            return
        async for page in self._source.pages(cursor):
            tasks = [task for task in page.tasks if self._owns(task.lane)]
            yield Page(tasks, f"{self._run:08d} 0 {page.cursor}")
        yield Page((), f"{self._run:08d} 1 ")


def _parsed(cursor: str | None) -> tuple[int, bool, str | None]:
    run, _, rest = (cursor or "").partition(" ")
    whole, _, inner = rest.partition(" ")
    return (int(run), whole == "1", inner) if run.isdigit() else (0, False, None)
