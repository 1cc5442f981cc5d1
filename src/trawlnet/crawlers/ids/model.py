"""The nouns of the ids crawler: what is asked, what was answered, and who decides what is next."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol


class AnswerVerdict(StrEnum):
    """What one answer means, whatever the API's own codes are."""

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
        """Whether it is sent to see if an id is there: an id that is not is no failure."""
        return self in (Purpose.PROBE, Purpose.SURVEY)


@dataclass(frozen=True, slots=True)
class Ask:
    id: int
    purpose: Purpose
    attempt: int = 0  # How many times this id was asked for before.


@dataclass(frozen=True, slots=True)
class Answer:
    ask: Ask
    verdict: AnswerVerdict
    took: float  # Seconds from sending to the whole answer.
    happened_at: float | None = None  # When the thing behind the id came to be; lag counts from it.
    wait: float | None = None  # The server's own word on how long to wait.


class LedgerMark(StrEnum):
    """What the ledger knows of an id. What it does not know is ahead of everything asked."""

    PENDING = "pending"  # Asked for, or skipped over; to be asked (again).
    DONE = "done"
    HOLE = "hole"  # Asked for until the patience was used up, with later ids there.
    UNSURVEYED = "unsurveyed"  # Both sides of a gap are known; islands may lie within.
    GAP = "gap"  # Skipped by the counter: no comb has found an island.
    EMBARGOED = "embargoed"
    MISSED = "missed"  # Errors used up its tries; in the missed log.


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """Write this into the ledger: [start, end) is now so."""

    start: int
    end: int
    mark: LedgerMark
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Decision:
    """One turn of the controls, with what it expects, so that it can be checked later."""

    at: float
    law: str
    workers: int
    rate: float  # Requests a second that it allows.
    predicted_rate: float  # Ids a second that it expects to settle.
    measured_rate: float | None  # What the decision ten seconds ago has come to.
    reason: str


class Pilot(Protocol):
    """Decides which id is asked for next. No I/O and no clock of its own: time is handed in, so
    that a crawl and a simulation run the same code."""

    def asks(self, now: float, room: int) -> Sequence[Ask]:
        """At most `room` requests to send now. Each is answered exactly once."""

    def wake_at(self, now: float) -> float:
        """When `asks` may have something to say even if no answer comes before; or infinity. A
        later instant than this one if `asks` has just had nothing to say."""

    def answered(self, now: float, answer: Answer) -> Sequence[LedgerEntry]:
        """Take note of an answer. The entries may be written down once the item, if there was
        one, is published for good."""

    def decide(self, now: float) -> Decision | None:
        """Called every second; a decision when something was decided."""

    def allow(self, now: float, max_rps: float) -> None:
        """Requests a second, from now on."""

    @property
    def workers(self) -> int:
        """How many requests may be in flight."""

    @property
    def crew(self) -> int:
        """How many of them are the law's own: what people are told."""

    @property
    def unsurveyed_from(self) -> int | None:
        """The first id of the gaps that are still searched for islands; None if there is none."""


def later(now: float, at: float) -> float:
    """The end of a wait, which lies behind its beginning. Rounding can make an instant that is
    still to come equal to this one, and whoever waits would look again and again while the clock
    stands still."""
    return max(at, math.nextafter(now, math.inf))
