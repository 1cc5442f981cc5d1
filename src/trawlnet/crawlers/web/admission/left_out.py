"""Counts links that a crawl left out, by reason, in a file of the workspace, over all runs.

A fleet counts in Redis: each shard adds its counts when it settles tasks.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from trawlnet.engine.durable import make_directory

FILE = Path("state", "web", "left_out.json")
CUT_PAGES = "pages with more links than are read"
CUT_SITEMAPS = "sitemaps with more URLs than are read"
TOO_DEEP = "too many links from a seed"
ROBOTS = "robots.txt"
PRIVATE = "private addresses or unusual ports"
# The config key or flag that lifts each limit; links outside the user's own scope have none.
KEYS: Mapping[str, str] = {
    TOO_DEEP: "caps.max_depth",
    CUT_PAGES: "links.max_per_page",
    CUT_SITEMAPS: "sitemaps.max_urls",
    ROBOTS: "the site forbids it",
    PRIVATE: "--allow-private-hosts",
    "pages of a repository": "caps.per_repo_max_pages",
    "issues of a repository": "caps.per_repo_max_issues",
    "pull requests of a repository": "caps.per_repo_max_prs",
    "dated pages of a path": "traps.max_calendar_pages",
    "queries of a path": "traps.max_variants",
    "queries with a token": "traps.max_tokens",
    "too_many_segments": "traps.max_segments",
    "repeating_path": "traps.max_repeats",
    "query": "traps.max_parameters",
    "calendar": "traps.first_year, traps.last_year",
    "too_long": "urls.max_length",
}
_SCOPE = ("outside_hosts", "denied_subdomain", "deny_pattern", "no_allow_pattern")


class LeftOut:
    """Links by the reason why they were left out. A later run counts the same link again."""

    def __init__(self, workspace: Path | None = None) -> None:
        self._path = workspace / FILE if workspace else None
        self._before = read_left_out(workspace) if workspace else {}
        self.counts: Counter[str] = Counter()

    def add(self, why: str, links: int = 1) -> None:
        if links:
            self.counts[why] += links

    def take(self) -> dict[str, int]:
        """The counts since the last call, for a total elsewhere."""
        taken = dict(self.counts)
        self.counts.clear()
        return taken

    def save(self) -> None:
        """Not synced: a power cut loses figures, but no page."""
        if self._path is None or not self.counts:
            return
        total = Counter(self._before) + self.counts
        make_directory(self._path.parent)
        fresh = self._path.with_suffix(".tmp")
        fresh.write_text(json.dumps(total), "utf-8")
        fresh.replace(self._path)


def read_left_out(workspace: Path) -> dict[str, int]:
    """The counts by reason; empty if nothing was left out."""
    try:
        row = json.loads((workspace / FILE).read_bytes())
    except (OSError, ValueError):
        return {}
    return {str(why): int(links) for why, links in row.items()} if isinstance(row, dict) else {}


def worth_telling(left_out: Mapping[str, int]) -> list[str]:
    """The counts as text, the most frequent first, without links outside the user's scope."""
    listed = [(links, why) for why, links in left_out.items() if why not in _SCOPE]
    return [
        f"{links:,} {why}" + (f" ({KEYS[why]})" if why in KEYS else "")
        for links, why in sorted(listed, reverse=True)
    ]
