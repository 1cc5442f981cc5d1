"""The edges of the engine, as Protocols: source, frontier, work, handler, sink and clock."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from trawlnet.engine.outcome import N_co, N_contra, Outcome, Reason, Receipt
from trawlnet.engine.task import Task


class Clock(Protocol):
    def now(self) -> float:
        """Unix seconds that never run backwards within a process."""

    async def sleep(self, seconds: float) -> None: ...


@dataclass(frozen=True, slots=True)
class Page:
    tasks: Sequence[Task]
    cursor: str  # Saved in the same transaction as the tasks.


class Source(Protocol):
    def pages(self, after: str | None) -> AsyncIterator[Page]:
        """Everything that exists beyond the cursor `after`, page by page; ends when all is told."""


class Handler(Protocol[N_co]):
    async def __call__(self, task: Task) -> Outcome[N_co]: ...


class Sink(Protocol):
    async def write(self, batch: Sequence[tuple[Task, Sequence[Any]]]) -> None:
        """Durable when this returns. Writing the same key twice must be harmless."""


@dataclass(frozen=True, slots=True)
class LaneWork:
    """One lane that has work, as the store knows it."""

    lane: str
    # The earliest instant at which one of its tasks may run: 0 for one that was never put off,
    # and for a leased one the end of its lease, since its holder may have died.
    due: float
    held: float = 0.0  # Parked until this instant; infinity means blocked.
    open: int = field(default=0, compare=False)  # About how many tasks wait there.


@dataclass(frozen=True, slots=True)
class Lease:
    tasks: Sequence[Task]
    # Only for lanes that had less ready than was asked for: when their next task is due.
    # Infinity: the lane has no other unleased task.
    dues: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Counts:
    """Every key is open, scheduled or settled; `remembered` is the same sum, unless successes are
    forgotten."""

    open: int = 0  # Ready, put off, or leased.
    leased: int = 0  # Of the open ones: handed out, even if the time is up and nobody asked since.
    waiting: int = 0  # Of the open ones: put off to an instant of their own, and not leased.
    blocked: int = 0  # Of the open ones: on a lane that is blocked.
    scheduled: int = 0  # Succeeded, and to be visited again; open only while leased.
    remembered: int = 0  # Keys that the store would recognise if it was told of them again.
    attempts: Mapping[Reason, int] = field(default_factory=dict)  # Each try, over all runs.
    settled: Mapping[Reason, int] = field(default_factory=dict)  # Keys by their last word.

    @property
    def known(self) -> int:
        """Every key there is or was: summed here, so that no view shows less than its parts."""
        return self.open + self.scheduled + sum(self.settled.values())


@dataclass(frozen=True, slots=True)
class Failure:
    """A key whose last word was not a success, or that waits on a blocked lane."""

    key: str
    lane: str
    reason: Reason
    detail: str  # Of the last try.
    attempt: int  # Of the task at its last try.
    at: float  # When the last try ended; 0 if there was none.


class Unstorable(Exception):
    """One task holds something that no store can keep; nothing of its batch was written."""


@runtime_checkable
class Positioned(Protocol):
    async def cursor(self) -> str | None:
        """How far the crawl has come, in words of its own; None before the beginning."""


class Frontier(Positioned, Protocol):
    """How far the source was read: `cursor` is that of the last page fed. Every method is atomic
    and durable on return."""

    async def feed(self, page: Page) -> int:
        """Add a page and its cursor in one transaction; known keys are left alone. Returns how
        many were new."""


class Work(Protocol[N_contra]):
    """What there is to do, who does it, and what came of it. Every method is atomic and durable
    on return."""

    async def lanes(self, after: str | None, limit: int) -> Sequence[LaneWork]:
        """Lanes with open or scheduled tasks, in a fixed order, beyond the lane `after`."""

    async def lease(self, wants: Mapping[str, int], now: float, ttl: float) -> Lease:
        """For each lane at most so many tasks that are due, lowest score first, oldest first
        among equals. Tasks that were put off (a due time above 0, or a revisit) queue by due
        time; of that queue's head, once due, and the best of the rest the lower score goes
        first, and the put-off one among equals. Nobody else gets a leased task until it is
        settled, or `ttl` seconds have passed and somebody asks for its lane. Holds are the
        dispatcher's business: a held lane that is asked for is served."""

    async def renew(self, keys: Sequence[str], now: float, ttl: float) -> None:
        """Keep leases alive for tasks that take long. A lease that was lost stays lost."""

    async def settle(self, receipts: Sequence[Receipt[N_contra]]) -> None:
        """Forget the work, remember the word, add what was found, end the leases: all in one
        transaction. With `next` the key stays, as that says: scheduled after a success, open
        after anything else. Found keys already known stay as they are, except that an open one
        takes a lower score. A receipt whose key is no longer open changes nothing but the
        attempts. Raises Unstorable."""

    async def hold(self, lane: str, until: float) -> None:
        """Park a lane (infinity blocks it, 0 lets it go). Survives a restart."""

    async def holds(self, now: float) -> Mapping[str, float]:
        """The lanes that are held beyond `now`, and until when. A lane without tasks counts as
        well: it may get some, and requests for another lane's tasks may end there."""

    async def counts(self) -> Counts: ...


class Ledger(Protocol):
    """What the commands need: looking back, and putting work back."""

    async def counts(self) -> Counts: ...

    def failures(self, reason: Reason | None = None) -> AsyncIterator[Failure]:
        """Settled keys whose last word was not a success, and open ones on blocked lanes."""

    async def retry(self, reason: Reason | None = None) -> int:
        """Open the failures again, as new, in their old order of arrival. Returns how many.
        Blocked lanes of these keys are let go; without a reason, or for `blocked`, all are."""

    async def close(self) -> None:
        """Give back what is still leased, and let go of files and connections."""


class KeyLedger(Ledger, Protocol):
    """A ledger whose keys can be put back one by one."""

    async def retry_keys(self, failures: Sequence[Failure]) -> int:
        """Open these settled failures again, as `retry` does; others, and keys that have another
        last word by now, stay as they are. Returns how many."""


class Store(Frontier, Work[N_contra], KeyLedger, Protocol[N_contra]):
    """One memory for all three: what is fed is the work, and is looked back at."""
