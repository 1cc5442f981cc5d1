"""The two kinds of work in this crawl, and how each is written down as a task.

A page of a listing is a task like any other: what it names and the page after it go into one
receipt, so that a listing is retried, polite and resumable without code of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from trawlnet.engine.task import Task
from trawlnet.net.lane import lane_of

_LISTINGS_FIRST = -1.0  # Score: how much there is to do should be known early.


class Listed(StrEnum):
    HOSTS = "hosts"  # A relay's PDS hosts.
    REPOS = "repos"  # A PDS's repositories.


@dataclass(frozen=True, slots=True)
class Listing:
    """One page of what a server lists."""

    what: Listed
    server: str  # URL without a path.
    cursor: str = ""  # Empty: the first page.
    number: int = 1  # Of the page.
    idle: int = 0  # Empty pages before it, in a row.
    recent: tuple[int, ...] = ()  # Digests of the pages before it.

    def task(self) -> Task:
        payload = {
            "what": str(self.what),
            "server": self.server,
            "cursor": self.cursor,
            "number": self.number,
            "idle": self.idle,
            "recent": list(self.recent),
        }
        key = f"list:{self.what}:{self.server}:{self.cursor}"
        return Task(key, lane_of(self.server), payload, score=_LISTINGS_FIRST)


@dataclass(frozen=True, slots=True)
class RepoVisit:
    """One repository to fetch from one PDS.

    Its key names both, because any server can list any account: one that moved is still listed,
    as inactive, where it came from, and a liar lists whom it likes. Under the DID alone, the first
    to list it would speak for all. (A directory that says who may speak for a DID ends this.)
    """

    did: str
    pds: str

    def task(self) -> Task:
        lane = lane_of(self.pds)
        return Task(f"{self.did}@{lane}", lane, {"did": self.did, "pds": self.pds})


def read_task(task: Task) -> Listing | RepoVisit:
    """Payloads are our own writing: one that does not fit is a bug and raises."""
    payload: dict[str, Any] = task.payload
    if "what" not in payload:
        return RepoVisit(payload["did"], payload["pds"])
    return Listing(
        Listed(payload["what"]),
        payload["server"],
        payload["cursor"],
        payload["number"],
        payload["idle"],
        tuple(payload["recent"]),
    )
