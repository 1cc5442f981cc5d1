"""The interval until the next visit of a page: shorter if the page changes, longer if not."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RevisitRule:
    """Intervals in seconds. A page that changes regularly is visited about as often as it changes:
    the interval halves after a change, and grows again without one."""

    first: float = 86_400.0  # The interval after the first visit.
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
    """The result of the previous visit."""

    at: float  # Unix seconds.
    interval: float | None  # The interval chosen then; None: no later visit was planned.
    sha256: str


def next_interval(
    rule: RevisitRule, before: LastLook | None, sha256: str, lastmod: float | None = None
) -> float:
    """Seconds until the next visit, after one that found `sha256`; for a 304 that is the old one.

    `lastmod` is the time of the page's last change by the sitemap, in Unix seconds. It counts if it
    is older than the change that we saw, and if it is long ago: a page that has not changed for
    long is not visited sooner than half that age.
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
