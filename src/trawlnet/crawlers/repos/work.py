"""The kinds of work in this crawl, and how each is written down as a task.

A page of a listing is a task like any other: what it names and the page after it go into one
receipt, so that a listing is retried, polite and resumable without code of its own. The same goes
for finding out where an account lives.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Any

from trawlnet.engine.outcome import Reason
from trawlnet.engine.task import Task
from trawlnet.net.lane import lane_of

# A page has thousands of accounts on a few hosts, and parsing a URL takes longer than all else.
lane_at = lru_cache(maxsize=65_536)(lane_of)

_LISTINGS_FIRST = -1.0  # Score: how much there is to do should be known early.
_LIST = "list:"
_RESOLVE = "resolve:"
_LEFT_OUT = "left out:"
_NO_DIRECTORY = "no directory"  # A lane on which nothing is asked.


class ListingKind(StrEnum):
    HOSTS = "hosts"  # A relay's PDS hosts.
    REPOS = "repos"  # A PDS's repositories.


@dataclass(frozen=True, slots=True)
class Listing:
    """One page of what a server lists."""

    what: ListingKind
    server: str  # URL without a path.
    cursor: str = ""  # Empty: the first page.
    number: int = 1  # Of the page.
    idle: int = 0  # Empty pages before it, in a row.
    recent: tuple[int, ...] = ()  # Digests of the pages before it.
    # Unix seconds: it is read to compare what was missed of a stream since; 0: to find accounts.
    since: int = 0

    def task(self) -> Task:
        payload = {
            "what": str(self.what),
            "server": self.server,
            "cursor": self.cursor,
            "number": self.number,
            "idle": self.idle,
            "recent": list(self.recent),
        }
        key = f"{_LIST}{self.what}:{self.server}:{self.cursor}"
        if self.since:
            payload["since"] = self.since
            key += f" since {self.since}"
        return Task(key, lane_of(self.server), payload, score=_LISTINGS_FIRST)


@dataclass(frozen=True, slots=True)
class Resolution:
    """An account of which only the DID is known, or whose server is not to be believed."""

    did: str
    directory: str  # URL of the server that has its document.

    def task(self) -> Task:
        return Task(_RESOLVE + self.did, lane_at(self.directory), {"resolve": self.directory})


def unresolvable(did: str) -> Task:
    """A DID that no server has a document for: the try at it asks nobody, and says so."""
    return Task(_RESOLVE + did, _NO_DIRECTORY, {"resolve": ""})


@dataclass(frozen=True, slots=True)
class RepoVisit:
    """One repository to fetch from the PDS that its DID names."""

    did: str
    pds: str  # URL without a path.
    key: str = ""  # The account's signing key as a did:key; empty: to be looked up.
    rev: str = ""  # As archived: nothing is fetched unless the server has another one.
    resolved_at: int = 0  # Unix seconds: when its PDS began to be looked up.

    def task(self) -> Task:
        payload = {"pds": self.pds, "key": self.key, "rev": self.rev, "told": self.resolved_at}
        return Task(self.did, lane_at(self.pds), payload)


def read_task(task: Task) -> Listing | Resolution | RepoVisit | LeftOutAccount:
    """Payloads are our own writing: one that does not fit is a bug and raises."""
    payload: dict[str, Any] = task.payload
    if "pds" in payload:
        return RepoVisit(task.key, payload["pds"], payload["key"], payload["rev"], payload["told"])
    if "resolve" in payload:
        return Resolution(task.key.removeprefix(_RESOLVE), payload["resolve"])
    if "left_out" in payload:
        reason = Reason(payload["left_out"])
        return LeftOutAccount(task.key.removeprefix(_LEFT_OUT), reason, payload["why"])
    return Listing(
        ListingKind(payload["what"]),
        payload["server"],
        payload["cursor"],
        payload["number"],
        payload["idle"],
        tuple(payload["recent"]),
        payload.get("since", 0),
    )


@dataclass(frozen=True, slots=True)
class LeftOutAccount:
    """An account that is named and cannot be visited: a task without a request, so that it is on
    record why."""

    did: str
    reason: Reason
    why: str

    def task(self) -> Task:
        payload = {"left_out": str(self.reason), "why": self.why}
        return Task(_LEFT_OUT + self.did, _NO_DIRECTORY, payload)


def visits_by_lane(tasks: Iterable[Task]) -> Mapping[str, Sequence[str]]:
    """The DIDs that are visited on each lane."""
    found: dict[str, list[str]] = defaultdict(list)
    for task in tasks:
        if task.key.startswith("did:"):
            found[task.lane].append(task.key)
    return found


def is_listing(key: str) -> bool:
    return key.startswith(_LIST)


def did_of(key: str) -> str:
    """The DID that a task is about, or its key if it is about a whole server."""
    return key.removeprefix(_RESOLVE).removeprefix(_LEFT_OUT)
