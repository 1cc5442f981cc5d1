"""Every decision of the engine as a pure function: no I/O, no clock, no randomness."""

from __future__ import annotations

import math
import zlib
from dataclasses import dataclass, replace
from typing import Any

from trawlnet.engine.outcome import Again, Blame, N, Outcome, Reason, Receipt
from trawlnet.engine.task import Task


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often a task is tried, and how long it waits in between."""

    attempts: int = 5  # Attempts in all, the first one included.
    patience: int = 50  # How often a server may postpone a task.
    base: float = 2.0  # The first delay; each further one doubles.
    cap: float = 3600.0
    jitter: float = 0.25  # Spread around the delay, so that a batch does not come back as one.
    # Added to the score of a retry, below 1: if scores are whole numbers, new tasks of the same
    # score go first.
    behind: float = 0.0
    # Added once to the score of a revisit or of a throttled task: if it is higher than any score,
    # new tasks go before those that are due. 0: they are tasks like others.
    revisits_after: float = 0.0

    def delay(self, key: str, tries: int) -> float:
        """Seconds before the next try, after so many."""
        plain = min(self.cap, self.base * 2.0 ** min(tries, 40))
        # Jitter comes from the key: spread over a crowd of tasks, yet the same on every run.
        unit = zlib.crc32(f"{key}\0{tries}".encode("utf-8", "surrogatepass")) / 0xFFFFFFFF
        return plain * (1.0 + self.jitter * (2.0 * unit - 1.0))


def judge(task: Task, outcome: Outcome[N], policy: RetryPolicy, now: float) -> Receipt[N]:
    """The receipt of one outcome: the task is settled, retried, or visited again later."""
    return Receipt(
        task=task,
        reason=outcome.reason,
        found=outcome.found,
        next=_next_try(task, outcome, policy, now),
        detail=outcome.detail,
        at=now,
        news=outcome.news,
        is_step=outcome.again is Again.AT_ONCE,
    )


def _next_try(task: Task, outcome: Outcome[Any], policy: RetryPolicy, now: float) -> Task | None:
    if outcome.again_in is not None:
        return _put_after(task, policy).revisited(now + outcome.again_in)
    asked_wait = min(outcome.wait or 0.0, policy.cap)
    match outcome.again or outcome.reason.again:
        case Again.AT_ONCE:
            return task.revisited(now)
        case Again.COUNTED if task.attempt + 1 < policy.attempts:
            due = now + max(asked_wait, policy.delay(task.key, task.attempt))
            return _put_behind(task, policy).retried(due)
        case Again.PATIENT if task.waits < policy.patience:
            # A time that the server names is obeyed; only without one does the delay double.
            due = now + (asked_wait or policy.delay(task.key, task.waits))
            return (_put_last(task, policy) if throttled(outcome) else task).postponed(due)
        case Again.QUEUED:
            # A failed one, too: a probe of its lane does not end at the same task each time.
            failed = outcome.reason.blame is Blame.LANE
            behind = _put_behind(task, policy) if failed else task
            return replace(behind, due=now + (asked_wait or policy.delay(task.key, 0)))
        case _:
            return None


def _put_behind(task: Task, policy: RetryPolicy) -> Task:
    if not policy.behind:
        return task
    return replace(task, score=math.floor(task.score) + policy.behind)


def _put_last(task: Task, policy: RetryPolicy) -> Task:
    """Behind all fresh tasks. Each "slow down" holds the whole lane, so that one that is always
    throttled would keep those of any higher score waiting."""
    return _put_behind(_put_after(task, policy), policy)


def _put_after(task: Task, policy: RetryPolicy) -> Task:
    if task.score >= policy.revisits_after:  # Already a revisit, or revisits are not special.
        return task
    return replace(task, score=task.score + policy.revisits_after)


@dataclass(frozen=True, slots=True)
class Manners:
    """The politeness rules of one lane."""

    rate: float = 5.0  # Requests per second; infinity for no limit.
    burst: int = 1  # Requests that may start at once after a pause.
    concurrency: int = 4  # Requests in flight.
    gap_from_end: bool = False  # Count the gap from the end of a response, not from its start.
    halve_every: int = 5  # Consecutive failures.
    floor: float = 0.5  # Requests per second that halving does not go below.
    block_at: int = 10  # Consecutive failures after which the lane is suspended.
    probes: int = 0  # Further failures, one probe at a time, before it is blocked.
    first_probe: float = 30.0  # Seconds without any request before the first; doubles each time.
    first_park: float = 5.0  # After a "slow down" without a time; doubles each time in a row.
    longest_park: float = 3600.0  # No server can park a lane for longer.
    # The crawler adapts its own rate: the gate enforces the rate limit and the waits that servers
    # ask for, and does not slow the lane after failures.
    steered: bool = False


@dataclass(frozen=True, slots=True)
class LanePace:
    """The recent failures of a lane, which determine how fast it may go."""

    failures: int = 0  # In a row.
    throttled: int = 0  # "Slow down" in a row.

    def after(self, reason: Reason, *, lane_is_well: bool = False) -> LanePace:
        if reason is Reason.RATE_LIMITED:
            # Said of one key by a lane that serves others: it is heeded, and does not add up.
            before = WELL if lane_is_well else self
            return replace(before, throttled=before.throttled + 1)
        match reason.blame:
            case Blame.LANE if lane_is_well:
                return WELL
            case Blame.LANE:
                return replace(self, failures=self.failures + 1)
            case Blame.TASK | Blame.NOBODY if reason is not Reason.PARKED:
                return WELL
            case _:
                return self

    def down(self, manners: Manners) -> LanePace:
        """The pace of a suspended lane, or the present one if it is worse."""
        return replace(self, failures=max(self.failures, manners.block_at))

    def rate(self, manners: Manners) -> float:
        if manners.steered:
            return manners.rate
        halvings = self.failures // manners.halve_every
        slowest = min(manners.floor, manners.rate)
        if halvings == 0:
            return manners.rate
        # A failing lane without a rate limit is halved from this rate.
        full = manners.rate if math.isfinite(manners.rate) else _UNLIMITED_IN_TROUBLE
        return max(slowest, full / 2.0 ** min(halvings, 60))

    def concurrency(self, manners: Manners) -> int:
        """A lane whose last request failed gets one worker until a request succeeds."""
        in_trouble = (self.failures or self.throttled) and not manners.steered
        return 1 if in_trouble else manners.concurrency

    def suspended(self, manners: Manners) -> bool:
        """The lane has failed too often: it gets only probes, or is blocked."""
        return self.failures >= manners.block_at and not manners.steered

    def blocked(self, manners: Manners) -> bool:
        return self.suspended(manners) and self.failures >= manners.block_at + manners.probes


WELL = LanePace()
_UNLIMITED_IN_TROUBLE = 64.0  # Requests per second.


def throttled(outcome: Outcome[Any]) -> bool:
    return outcome.reason is Reason.RATE_LIMITED


def parked_until(pace: LanePace, outcome: Outcome[Any], manners: Manners, now: float) -> float:
    """Until when this outcome parks its lane: 0 not at all, infinity blocks it."""
    if pace.blocked(manners):
        return math.inf
    if outcome.reason.blame is not Blame.LANE:
        return 0.0
    wait = outcome.wait or 0.0
    if outcome.reason is Reason.RATE_LIMITED and wait <= 0.0 and not manners.steered:
        wait = manners.first_park * 2.0 ** min(pace.throttled - 1, 40)
    if pace.suspended(manners):
        wait = max(wait, manners.first_probe * 2.0 ** min(pace.failures - manners.block_at, 40))
    return now + min(wait, manners.longest_park) if wait > 0.0 else 0.0
