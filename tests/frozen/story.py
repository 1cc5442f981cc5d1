"""What the frozen copies must still say of themselves, whatever code looks at them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.frozen.ice import notes
from tests.support.program import Ran, at_once
from trawlnet.observe.dashboard.workspace import read_files
from trawlnet.observe.history import read_history

# Where it lies now, what leases and waits end with time, and what is said of a crawl that runs.
_PASSING = {
    *("workspace", "rate", "running", "seconds_behind", "ids_per_s", "newest_id_age_s"),
    *("leased", "open", "waiting", "due", "active", "standby", "scanning"),
    "total_crawled",  # Once without what was archived since the last notes; see the tests of repos.
}


def _as_then(row: Mapping[str, Any]) -> Mapping[str, Any]:
    """What is told differently since, by what is in the copy: most things are not."""
    return {}


def said(*words: object) -> list[dict[str, Any]]:
    return done(at_once(*words, "--json")).rows


def done(ran: Ran, *codes: int) -> Ran:
    assert ran.code in (codes or (0,)), ran.err
    return ran


def lasting(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [_lasting(row) for row in rows]


def _lasting(row: Any) -> Any:
    if not isinstance(row, dict):
        return row
    return {key: _lasting(value) for key, value in row.items() if key not in _PASSING}


def check_story(
    crawler: str,
    folder: Path,
    *more: object,
    verbs: Sequence[str] = ("status", "failures"),
    since: Callable[[Mapping[str, Any]], Mapping[str, Any]] = _as_then,
) -> None:
    """Each verb prints what it printed when the copy was frozen, and `since` of a row what it must
    print now instead."""
    for verb in verbs:
        then, now = notes(folder)[verb], said(crawler, verb, "-w", folder, *more)
        if verb == "failures":  # Those of repos and web had no order then.
            then, now = sorted(then, key=_key), sorted(now, key=_key)
        # A later version may tell more of it, and must not tell anything else.
        for old, new in zip(lasting(then), lasting(now), strict=True):
            due = old | since(old)
            differ = {key: (due[key], new.get(key)) for key in due if new.get(key) != due[key]}
            assert differ == {}, (verb, differ)


def _key(row: dict[str, Any]) -> str:
    return str(row["key"])


def check_board(folder: Path, crawler: str) -> None:
    """The files that a dashboard shows of a crawl that does not run."""
    state = folder / "state" / crawler
    samples = read_history(state / "history", 0.0)
    assert samples and all(sample.values for sample in samples)
    assert read_files(state).status["crawler"] == crawler
