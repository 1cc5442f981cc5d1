"""A look at a fleet, for people and for programs."""

from __future__ import annotations

from typing import Any

from trawlnet.cli.crawl.status import status_row
from trawlnet.fleet.supervise import Seen


def fleet_row(seen: Seen) -> dict[str, Any]:
    shards = [{"shard": shard, **row} for shard, row in seen.shards.items()]
    plan = {"shards": seen.plan.shards, "word": seen.plan.word, "run": seen.plan.run}
    rate = round(sum(row["rate"] for row in shards), 2)
    return {"plan": plan, "rate": rate, "shards": shards} | status_row(
        seen.plan.crawler or "repos", seen.counts
    )


def fleet_line(seen: Seen) -> str:
    rate = sum(row["rate"] for row in seen.shards.values())
    settled = sum(seen.counts.settled.values())
    return (
        f"{len(seen.shards)} of {seen.plan.shards} shards, {seen.plan.word}: "
        f"{settled:,} settled, {seen.counts.open:,} open, {rate:,.0f} attempts/s"
    )
