"""What `status` says about firehoses, while a process follows them and afterwards."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from trawlnet.crawlers.atproto.streams.host_cursor import HostCursor, seconds_of
from trawlnet.tables.registry.looks import RegistryLooks
from trawlnet.tables.registry.registry import Registry


def live_row(
    cursors: Mapping[str, HostCursor], behind: float | None, looks: int, rescans: int
) -> dict[str, Any]:
    return {
        "cursor": {host: one.seq for host, one in cursors.items()},
        "seconds_behind": None if behind is None else round(behind, 3),
        "looks_waiting": looks,
        "rescans_waiting": rescans,
    }


async def live_at_rest(registry: Registry, now: float) -> dict[str, Any] | None:
    """`live` of `status` when nobody follows; None where nobody ever did."""
    looks = RegistryLooks(registry.db, 0)
    streams = await looks.streams()
    if not streams:
        return None
    cursors = {one.host: HostCursor(one.seq, one.time) for one in streams}
    ages = [now - at for one in streams if (at := seconds_of(one.time)) is not None]
    return live_row(cursors, max(0.0, *ages) if ages else None, *await looks.waiting())
