"""Live following in the report of an archive: what was followed, believed and rejected."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from markupsafe import Markup

from trawlnet.crawlers.repos.following.figures.live_row import live_at_rest
from trawlnet.observe.history import Sample, read_history
from trawlnet.observe.lanes import shown
from trawlnet.observe.live import HISTORY
from trawlnet.observe.reports.chart import ExtraColumn, bars, columns, table
from trawlnet.observe.reports.rows import grown, over_time, top

_SAMPLES = 10_000
_COUNTED = {
    "commits": "commits received",
    "verified": "commits that passed every check",
    "events": "events published",
    "desynchronized": "repositories desynchronized now",
    "resyncs": "repositories fetched again",
    "gaps": "gaps in firehoses",
    "comparing": "pages still to compare because of gaps",
}


@dataclass(frozen=True, slots=True)
class LiveStory:
    row: Mapping[str, Any]  # `live` of `status`.
    commits: Mapping[int, float]  # By hour since 1970, as far as the history goes back.


def live_story(workspace: Path, now: float) -> LiveStory | None:
    """Of the workspace that an archive lies in; None where nothing was followed."""
    state = workspace / "state" / "repos"
    row = live_at_rest(state, now)
    if row is None:
        return None
    return LiveStory(row, _by_hour(read_history(state / HISTORY, 0.0, _SAMPLES)))


def _by_hour(history: Sequence[Sample]) -> Mapping[int, float]:
    """The counter is that of all runs, of which the history may have lost the first."""
    counts = [(one.at, one.values["commits"]) for one in history if "commits" in one.values]
    return grown([Sample(at, {"commits": n - counts[0][1]}) for at, n in counts], "commits")


def live_figures(story: LiveStory) -> list[Markup]:
    row = story.row
    totals = [(words, row[key]) for key, words in _COUNTED.items()]
    unit, commits = over_time(story.commits)
    firehoses = [(shown(host), str(seq)) for host, seq in sorted(row["cursor"].items())]
    return [
        table("Live following", ("over all runs", "number"), totals),
        table("Firehoses followed", ("firehose", "cursor"), firehoses),
        columns(f"Live commits by {unit}", commits, ExtraColumn("commits"), first=unit),
        bars("Messages of firehoses rejected, by reason", top(_spaced(row["rejected"])),
             ExtraColumn("messages"), first="reason"),
        bars("Repositories fetched again, by cause", top(_spaced(row["resyncs_begun"])),
             ExtraColumn("repositories"), first="cause"),
    ]  # fmt: skip


def _spaced(counts: Mapping[str, int]) -> Mapping[str, int]:
    return {word.replace("_", " "): count for word, count in counts.items()}
