"""When to come back to a page: sooner if it changes, later if it does not."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RevisitRule:
    """Intervals in seconds. A page with a rhythm comes to be visited about as often as it
    changes: the interval halves when it saw a change, and grows again when it saw none."""

    first: float = 86_400.0  # Before anything is known about a page.
    shortest: float = 3_600.0
    longest: float = 30 * 86_400.0
    when_changed: float = 0.5
    when_unchanged: float = 1.5

    def __post_init__(self) -> None:
        if not 0 < self.shortest <= self.first <= self.longest:
            raise ValueError("revisit intervals: expected 0 < shortest <= first <= longest")
        if not 0 < self.when_changed <= 1 <= self.when_unchanged:
            raise ValueError("revisit factors: expected 0 < when_changed <= 1 <= when_unchanged")


@dataclass(frozen=True, slots=True)
class LastLook:
    """What is known from the visit before."""

    at: float  # Unix seconds.
    interval: float | None  # The one chosen then; None: it was not to be visited again.
    sha256: str


def next_interval(
    rule: RevisitRule, before: LastLook | None, sha256: str, lastmod: float | None = None
) -> float:
    """Seconds until the next visit, after one that found `sha256`; for a 304 that is the old one.

    `lastmod` is the sitemap's word on the page's last change, in Unix seconds. It is believed
    where it says less than we saw, and where it says that the page rests: a page unchanged for
    long is not asked about sooner than half that age.
    """
    if before is None:
        return rule.first
    interval = before.interval or rule.first
    changed = sha256 != before.sha256
    interval *= rule.when_changed if changed else rule.when_unchanged
    if lastmod is not None and not changed and lastmod < before.at:
        interval = max(interval, (before.at - lastmod) / 2)
    return min(max(interval, rule.shortest), rule.longest)


def due_by_sitemap(before: LastLook | None, lastmod: float | None) -> bool:
    """Whether a sitemap says that a page is new, or has changed since it was last seen."""
    if before is None:
        return True
    return lastmod is not None and lastmod > before.at
