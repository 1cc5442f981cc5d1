"""The data types of the ids crawler: requests, answers, marks, decisions, and the pilot's port."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol


class AnswerVerdict(StrEnum):
    """The meaning of one answer, independent of the API's codes."""

    STORED = "stored"  # It exists, and is wanted.
    FILTERED = "filtered"  # It exists, and is not of the wanted kind.
    NOT_FOUND = "not_found"  # Not yet, never, or in a gap: only later ids can tell.
    DISABLED = "disabled"  # The whole API is switched off.
    EMBARGOED = "embargoed"  # It exists, and is withheld for now.
    MALFORMED = "malformed"
    FAILED = "failed"
    THROTTLED = "throttled"

    @property
    def exists(self) -> bool:
        return self in (AnswerVerdict.STORED, AnswerVerdict.FILTERED, AnswerVerdict.EMBARGOED)


class Purpose(StrEnum):
    FIRST = "first"
    RETRY = "retry"
    OFFLOAD = "offload"  # A retry in the slow lane, after the usual ones are used up.
    PROBE = "probe"  # Looks for the far side of a gap.
    SURVEY = "survey"  # Looks for islands inside a gap that was crossed.
    CANARY = "canary"  # The one request that may go out during an outage.

    @property
    def looks(self) -> bool:
        """Whether it only checks if an id exists, so that an absent id is no failure."""
        return self in (Purpose.PROBE, Purpose.SURVEY)


@dataclass(frozen=True, slots=True)
class Ask:
    id: int
    purpose: Purpose
    attempt: int = 0  # Earlier requests for this id.


@dataclass(frozen=True, slots=True)
class Answer:
    ask: Ask
    verdict: AnswerVerdict
    took: float  # Seconds from sending to the whole answer.
    happened_at: float | None = None  # The time of the id's event; the lag counts from it.
    wait: float | None = None  # The wait that the server asked for.


class LedgerMark(StrEnum):
    """The state of an id in the ledger. Ids without a mark were never requested."""

    PENDING = "pending"  # Requested or skipped; to be requested (again).
    DONE = "done"
    HOLE = "hole"  # Absent until the patience was used up, while later ids exist.
    UNSURVEYED = "unsurveyed"  # Both sides of a gap are known; islands may lie within.
    GAP = "gap"  # Skipped by the counter: no comb has found an island.
    EMBARGOED = "embargoed"
    MISSED = "missed"  # Errors used up its attempts; in the missed log.


# Ids below the newest settled one that are not settled are listed, too, so that every id has a
# reason.
SKIPPED_MARKS = (
    LedgerMark.GAP,
    LedgerMark.UNSURVEYED,
    LedgerMark.HOLE,
    LedgerMark.EMBARGOED,
    LedgerMark.PENDING,
)


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """An entry for the ledger: the ids in [start, end) have this mark."""

    start: int
    end: int
    mark: LedgerMark
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Decision:
    """A decision of the law, with its prediction, which is checked later."""

    at: float
    law: str
    workers: int
    rate: float  # Requests a second that it allows.
    predicted_rate: float  # Ids a second that it expects to settle.
    measured_rate: float | None  # The result of the decision ten seconds ago.
    reason: str


@dataclass(frozen=True, slots=True)
class PilotStart:
    """Where a pilot begins: at `first`, or where an earlier one was stopped."""

    first: int
    beyond: int | None = None  # The next id that was never requested.
    pending: Iterable[tuple[int, int]] = ()  # Ranges to request again.
    embargoed: Iterable[int] = ()  # Ids that the API withholds.
    unsurveyed: Iterable[tuple[int, int, int]] = ()  # Gaps, with the step of their last comb.

    @property
    def cursor(self) -> int:
        return self.first if self.beyond is None else max(self.first, self.beyond)


class Pilot(Protocol):
    """Chooses the next ids. No I/O and no clock: the caller passes the time, so that a crawl and a
    simulation run the same code."""

    def asks(self, now: float, room: int) -> Sequence[Ask]:
        """At most `room` requests to send now. Each is answered exactly once."""

    def wake_at(self, now: float) -> float:
        """When `asks` may have requests even if no answer comes before; or infinity. Later than
        `now` if `asks` has just returned none."""

    def answered(self, now: float, answer: Answer) -> Sequence[LedgerEntry]:
        """Record an answer. The entries may be written to the ledger once the item, if there was
        one, is published durably."""

    def decide(self, now: float) -> Decision | None:
        """Called every second; returns a decision if there is one."""

    def allow(self, now: float, max_rps: float) -> None:
        """Change the allowed requests a second."""

    @property
    def workers(self) -> int:
        """The number of requests that may be in flight."""

    @property
    def crew(self) -> int:
        """The part of them that the law itself set; this is shown to users."""

    @property
    def unsurveyed_from(self) -> int | None:
        """The first id of the gaps that are still searched for islands; None if there is none."""


def later(now: float, at: float) -> float:
    """The end of a wait, strictly after `now`. Rounding can make a later time equal to `now`, and a
    waiting loop would then spin without the clock advancing."""
    return max(at, math.nextafter(now, math.inf))
