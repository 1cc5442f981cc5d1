"""Formats figures for the page: counts, shares, sizes, times."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

from trawlnet.observe.reports.numbers import number
from trawlnet.observe.terminal.render import duration, size

UNKNOWN = "\N{EN DASH}"

# The displayed names of figures; any other figure is shown under its own name.
NAMES: Mapping[str, str] = {
    "lag_p20_s": "lag, 20th percentile",
    "fraction_404": "share of 404 answers",
    "error_fraction": "share of errors",
    "ids_per_s": "ids per second",
    "newest_id_age_s": "age of the newest id",
    "total_crawled": "repositories archived",
    "bytes_written": "archive",
    "segment_num": "newest segment",
    "in_gaps": "ids in gaps",
    "unsurveyed": "ids in gaps not yet surveyed",
    "with_chive_records": "with records",
    "chive_records": "records seen",
}


def name_of(key: str) -> str:
    return NAMES.get(key) or key.replace("_", " ")


def figure(key: str, value: object) -> str:
    """Format a figure by the unit in its name."""
    if value is None:
        return UNKNOWN
    if not isinstance(value, int | float) or isinstance(value, bool):
        return str(value)
    if key.startswith(("fraction", "error_fraction")):
        return f"{value:.1%}"
    if "bytes" in key or key in ("memory", "disk_free"):
        return size(int(value))
    return lasting(value) if key.endswith("_s") and not key.endswith("_per_s") else number(value)


def lasting(seconds: float | None) -> str:
    if seconds is None:
        return UNKNOWN
    return f"{seconds:.1f} s" if 0.0 <= seconds < 10.0 else duration(max(0.0, seconds))


def clock_time(at: float) -> str:
    return f"{datetime.fromtimestamp(at, UTC):%H:%M:%S}"


def moment(at: float) -> str:
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M:%S} UTC"
