"""Inactive accounts are not inactive for ever: when a new sweep begins, old answers are doubted."""

from __future__ import annotations

from trawlnet.crawlers.repos.visit import INACTIVE
from trawlnet.engine.ports import Ledger

_SAMPLE = 1000  # Answers that are looked at; they come in no order, so that a part will do.


async def reopen_inactive(store: Ledger, before: float) -> int:
    """Ask again where an answer is older than that. Returns how many were put back."""
    counts = await store.counts()
    if counts.open > counts.blocked:
        return 0  # A sweep is under way.
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
