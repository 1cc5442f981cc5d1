"""Retries requests of a source, which are no tasks of a crawl."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from trawlnet.engine.gate import LaneParked
from trawlnet.engine.outcome import Again, Outcome, Reason
from trawlnet.engine.ports import Clock
from trawlnet.engine.rules import RetryPolicy

T = TypeVar("T")

POLICY = RetryPolicy(attempts=4, patience=20, base=0.5, cap=300.0)


async def patiently(
    ask: Callable[[], Awaitable[T | Outcome]], key: str, clock: Clock, policy: RetryPolicy = POLICY
) -> T | Outcome:
    """The answer, or the last failure after all retries."""
    tries = waits = 0
    while True:
        answer = await _asked(ask, clock)
        if not isinstance(answer, Outcome):
            return answer
        tries += answer.reason.again is Again.COUNTED
        waits += answer.reason.again is Again.PATIENT
        if (
            answer.reason.again is Again.NEVER
            or tries >= policy.attempts
            or waits > policy.patience
        ):
            return answer
        pause = max(answer.wait or 0.0, policy.delay(key, tries + waits - 1))
        await clock.sleep(min(pause, policy.cap))


async def _asked(ask: Callable[[], Awaitable[T | Outcome]], clock: Clock) -> T | Outcome:
    try:
        return await ask()
    except LaneParked as parked:
        return Outcome(Reason.PARKED, wait=parked.until - clock.now(), detail="parked")
