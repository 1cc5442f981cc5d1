"""The edges of the engine, as Protocols: source, frontier, work, handler, sink and clock."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from trawlnet.engine.outcome import N_co, N_contra, Outcome, Reason, Receipt
from trawlnet.engine.task import Task


class Clock(Protocol):
    """Every time and every pause of the engine comes from it, so that a test can jump ahead."""

    def now(self) -> float:
        """Unix seconds that never run backwards within a process."""

    async def sleep(self, seconds: float) -> None:
        """Let so much of this clock's time pass."""


@dataclass(frozen=True, slots=True)
class Page:
    """A part of what a source lists, and where the next part begins."""

    tasks: Sequence[Task]
    cursor: str  # Saved in the same transaction as the tasks.


class Source(Protocol):
    """Lists the tasks that exist."""

    def pages(self, after: str | None) -> AsyncIterator[Page]:
        """Everything that exists beyond the cursor `after`, page by page; ends after the last."""


class Handler(Protocol[N_co]):
    """Works on one task. What goes wrong with it is an outcome; an exception is a bug."""

    async def __call__(self, task: Task) -> Outcome[N_co]: ...


class Sink(Protocol):
    """Keeps the items of outcomes."""

    async def write(self, batch: Sequence[tuple[Task, Sequence[Any]]]) -> None:
        """Durable when this returns. Writing the same key twice must be harmless."""


@dataclass(frozen=True, slots=True)
class LaneWork:
    """One lane that has work, as the store knows it."""

    lane: str
    # The earliest instant at which one of its tasks may run: 0 for a task that was never delayed,
    # and the end of its lease for a leased one, whose holder may have died.
    due: float
    held: float = 0.0  # Parked until this instant; infinity means blocked.
    open: int = field(default=0, compare=False)  # About how many tasks wait there.


@dataclass(frozen=True, slots=True)
class Lease:
    tasks: Sequence[Task]
    # Only for lanes that had fewer tasks ready than were asked for: when the next task is due.
    # Infinity: the lane has no other unleased task.
    dues: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Counts:
    """Every key is open, scheduled or settled; `remembered` is their sum, unless the store forgets
    successes."""

    open: int = 0  # Ready, delayed, or leased.
    leased: int = 0  # Open and leased, even if the lease has ended and the task is not leased anew.
    waiting: int = 0  # Open, delayed to an instant of their own, and not leased.
    blocked: int = 0  # Open, on a blocked lane.
    scheduled: int = 0  # With a later visit planned; open only while leased.
    remembered: int = 0  # Keys that the store would recognise if it was fed them again.
    attempts: Mapping[Reason, int] = field(default_factory=dict)  # All attempts, over all runs.
    settled: Mapping[Reason, int] = field(default_factory=dict)  # Keys by their final reason.
    failing: int = 0  # Open or scheduled, and the last visit failed.

    @property
    def known(self) -> int:
        """All known keys: the sum of the parts, so that no display shows less than its parts."""
        return self.open + self.scheduled + sum(self.settled.values())


@dataclass(frozen=True, slots=True)
class Failure:
    """A key whose last attempt failed, or that waits on a blocked lane."""

    key: str
    lane: str
    reason: Reason
    detail: str  # Of the last attempt.
    attempt: int  # The task's number of failed attempts.
    at: float  # When the last attempt ended; 0 if there was none.


class Unstorable(Exception):
    """One task has data that no store can save; nothing of its batch was written."""


@runtime_checkable
class Positioned(Protocol):
    async def cursor(self) -> str | None:
        """The crawl's position, in its own notation; None before the beginning."""


class Frontier(Positioned, Protocol):
    """Takes in the pages of the source; `cursor` is that of the last page fed. Every method is
    atomic and durable on return."""

    async def feed(self, page: Page) -> int:
        """Add a page and its cursor in one transaction; known keys stay unchanged. Returns the
        number of new keys."""


class Work(Protocol[N_contra]):
    """Leases tasks and commits their receipts. Every method is atomic and durable on return."""

    async def lanes(self, after: str | None, limit: int) -> Sequence[LaneWork]:
        """Lanes with open or scheduled tasks, in a fixed order, beyond the lane `after`."""

    async def lease(self, wants: Mapping[str, int], now: float, ttl: float) -> Lease:
        """For each lane, lease at most the given number of due tasks, lowest score first, oldest
        first among equals. Delayed tasks (a due time above 0, or a revisit) queue by due time;
        between that queue's head, once due, and the best of the rest, the lower score goes first,
        and the delayed one among equals. A leased task is not leased again until it is settled,
        or until `ttl` seconds have passed and its lane is leased from. The dispatcher handles
        holds: this method serves a held lane, too."""

    async def renew(self, keys: Sequence[str], now: float, ttl: float) -> None:
        """Keep leases alive for tasks that take long. A lease that was lost stays lost."""

    async def settle(self, receipts: Sequence[Receipt[N_contra]]) -> None:
        """Remove the tasks, record the reasons, add the found tasks, end the leases: all in one
        transaction. With `next` the key stays, as that task: scheduled after a success, open
        after anything else. Found keys that are known stay unchanged, except that an open one
        takes a lower score. A receipt whose key is no longer open changes nothing but the
        attempts. Raises Unstorable."""

    async def hold(self, lane: str, until: float) -> None:
        """Park a lane (infinity blocks it, 0 releases it). Survives a restart."""

    async def holds(self, now: float) -> Mapping[str, float]:
        """The lanes that are held beyond `now`, and until when. Lanes without tasks are included:
        they may get some, and requests for another lane's tasks may be redirected to them."""

    async def counts(self) -> Counts:
        """How many keys are in which state, now."""


class Ledger(Protocol):
    """The part of a store that the commands need: counts, failures, retry."""

    async def counts(self) -> Counts:
        """How many keys are in which state, now."""

    def failures(self, reason: Reason | None = None) -> AsyncIterator[Failure]:
        """Settled keys whose last attempt failed, and open keys on blocked lanes."""

    async def retry(self, reason: Reason | None = None) -> int:
        """Reopen the failures as new tasks, in their old order of arrival. Returns how many.
        Releases the blocked lanes of these keys; without a reason, or for `blocked`, all."""

    async def close(self) -> None:
        """Release leases, files and connections."""


class KeyLedger(Ledger, Protocol):
    """A ledger whose keys can be reopened one by one."""

    async def retry_keys(self, failures: Sequence[Failure]) -> list[str]:
        """Reopen these settled failures, as `retry` does; keys that have another reason by now,
        and all others, stay unchanged. Returns the keys that were reopened."""


class Store(Frontier, Work[N_contra], KeyLedger, Protocol[N_contra]):
    """One object that is frontier, work and ledger."""
