"""A snapshot as one plain line and as one JSON object."""

from __future__ import annotations

import json
import math

from trawlnet.observe.lanes import LaneCondition
from trawlnet.observe.progress import LaneLook, Phase, Snapshot

_WORST = 4  # Reasons that fit on a line.


def plain_line(snap: Snapshot) -> str:
    """`repos running 1m05s: 1,200 done, 300 open, 18.5/s, eta 16s; 12/50 workers; errors …`"""
    parts = [f"{snap.done:,} done, {snap.open:,} open, {speed_of(snap)}"]
    if yields := yields_of(snap):
        parts.append(yields)
    parts.append(f"{snap.in_flight}/{snap.workers} workers")
    if errors := errors_of(snap):
        parts.append(f"errors: {errors}")
    if lanes := _troubled(snap):
        parts.append(f"hosts: {lanes}")
    if snap.memory:
        parts.append(size(snap.memory))
    return f"{snap.crawler} {snap.phase} {duration(snap.elapsed)}: " + "; ".join(parts)


def json_line(snap: Snapshot) -> str:
    return json.dumps(as_object(snap), allow_nan=False)


def as_object(snap: Snapshot) -> dict[str, object]:
    """Plain JSON data; durations are in seconds, and unknown or infinite values are null."""
    return {
        "crawler": snap.crawler,
        "state": snap.phase,
        "elapsed_s": round(snap.elapsed, 3),
        "done": snap.done,
        "done_this_run": snap.done_this_run,
        "open": snap.open,
        "blocked": snap.blocked,
        "known": snap.known,
        "attempts": snap.attempts,
        "rate_per_s": round(snap.rate, 3),
        "eta_s": None if snap.eta is None else round(snap.eta, 1),
        "errors": dict(snap.errors),
        "in_flight": snap.in_flight,
        "workers": snap.workers,
        "lanes": dict(snap.lanes),
        "held": [_lane_object(look) for look in snap.held],
        "slow": [_lane_object(look) for look in snap.slow],
        "memory_bytes": snap.memory,
        "yields": dict(snap.yields),
    }


def _lane_object(look: LaneLook) -> dict[str, object]:
    return {
        "lane": look.lane,
        "state": look.condition,
        "why": look.why or None,
        "wait_s": round(look.wait, 1) if math.isfinite(look.wait) else None,
        "rate_per_s": round(look.rate, 3) if math.isfinite(look.rate) else None,
        "failures": look.failures,
        "longest_s": round(look.longest, 1),
    }


def speed_of(snap: Snapshot) -> str:
    if snap.phase is Phase.ENDED:
        return f"{snap.done_this_run / max(snap.elapsed, 1e-9):.1f}/s in this run"
    eta = f", eta {duration(snap.eta)}" if snap.eta is not None and snap.open else ""
    return f"{snap.rate:.1f}/s{eta}"


def yields_of(snap: Snapshot) -> str:
    """`12 repos, 3,400 records, 5 MB, 1 segments`"""
    return ", ".join(
        size(count) if name == "bytes" else f"{count:,} {name}"
        for name, count in snap.yields.items()
    )


def errors_of(snap: Snapshot) -> str:
    items = list(snap.errors.items())
    words = [f"{reason} {count:,}" for reason, count in items[:_WORST]]
    if others := sum(count for _, count in items[_WORST:]):
        words.append(f"others {others:,}")
    return ", ".join(words)


def _troubled(snap: Snapshot) -> str:
    return ", ".join(
        f"{count} {word}"
        for word, count in snap.lanes.items()
        if count and word is not LaneCondition.HEALTHY
    )


def duration(seconds: float) -> str:
    """`4s`, `1m05s`, `2h03m`, `3d04h`, `412d`, `27y`: at most two units, and never long."""
    whole = int(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02d}s"
    if whole < 86_400:
        return f"{whole // 3600}h{whole % 3600 // 60:02d}m"
    days = whole // 86_400
    if days < 100:
        return f"{days}d{whole % 86_400 // 3600:02d}h"
    if days < 10_000:
        return f"{days}d"
    return f"{min(days // 365, _MANY_YEARS)}y"


_MANY_YEARS = 9_999  # A forecast from next to nothing can have any length.


def size(count: int) -> str:
    amount = float(count)
    for unit in ("B", "KB", "MB", "GB"):
        if amount < 1024:
            return f"{amount:.0f} {unit}"
        amount /= 1024
    return f"{amount:.1f} TB"
