"""The registry's figures as the counts that every crawl has."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Mapping

from trawlnet.engine.outcome import Reason
from trawlnet.engine.ports import Counts, Failure
from trawlnet.net.lane import lane_of
from trawlnet.tables.registry.registry import Registry
from trawlnet.tables.registry.rules import PdsRow, PdsStatus
from trawlnet.tables.registry.stats import Stats

_PAGE = 500  # Rows read at once.


def counts_from(stats: Stats) -> Counts:
    """PDSes that are due or being scanned are open, given-up ones are settled, and all others are
    scheduled."""
    scanning = stats.by_status[PdsStatus.SCANNING]
    given_up = sum(stats.given_up.values())
    open_ = min(stats.due + scanning, stats.total - given_up)
    return Counts(
        open=open_,
        leased=scanning,
        scheduled=stats.total - given_up - open_,
        failing=sum(stats.failures.values()) - given_up,
        remembered=stats.total,
        attempts=stats.attempts,
        settled=stats.given_up,
    )


async def failures_of(registry: Registry, reason: Reason | None) -> AsyncIterator[Failure]:
    after = ""
    while rows := await registry.failures(reason, after, _PAGE):
        for row in rows:
            yield _failure(row)
        after = rows[-1].pds_url


def _failure(row: PdsRow) -> Failure:
    return Failure(
        key=row.pds_url,
        lane=lane_of(row.pds_url),
        reason=row.last_reason or Reason.UNKNOWN,
        detail=row.last_error or "",
        attempt=row.consecutive_failures,
        at=row.last_try_at or 0.0,
    )


def by_process(claims: Mapping[str, int]) -> dict[str, int]:
    """The number of claimed PDSes, by machine and process."""
    held: Counter[str] = Counter()
    for owner, count in claims.items():
        process = owner.rpartition("/")[0] or owner
        held[process.rpartition(" ")[2].rpartition(":")[0]] += count
    return dict(held)
