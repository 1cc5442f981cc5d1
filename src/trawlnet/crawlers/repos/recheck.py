"""When a new sweep begins, failures that may have passed are asked about again."""

from __future__ import annotations

from trawlnet.crawlers.repos.visit import INACTIVE
from trawlnet.engine.outcome import Again, Reason
from trawlnet.engine.ports import Ledger

_SAMPLE = 1000  # Answers that are looked at; they come in no order, so that a part will do.


async def is_under_way(store: Ledger) -> bool:
    """Whether a sweep was begun that is not done."""
    counts = await store.counts()
    return counts.open > counts.blocked


async def reopen(store: Ledger, before: float) -> int:
    """Put back what ran out of tries, and inactive accounts whose answer is older than `before`:
    they are not inactive for ever. Returns how many."""
    reopened = 0
    for reason in (await store.counts()).settled:
        if reason.again is not Again.NEVER or reason is Reason.BLOCKED:
            reopened += await store.retry(reason)
    return reopened + await _reopen_inactive(store, before)


async def _reopen_inactive(store: Ledger, before: float) -> int:
    reopened = 0
    for reason in INACTIVE:
        seen = 0
        async for failure in store.failures(reason):
            seen += 1
            if failure.at < before:
                reopened += await store.retry(reason)
                break
            if seen == _SAMPLE:
                break
    return reopened
