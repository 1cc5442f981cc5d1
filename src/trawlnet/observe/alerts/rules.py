"""The alert rules of all crawlers: pure functions from states of a crawl to alerts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

from trawlnet.engine.outcome import Again, Reason
from trawlnet.observe.alerts.shapes import Alert, Level
from trawlnet.observe.lanes import shown

RUNAWAY_SHARE = 0.5  # Share of failed attempts in the last minutes at which the alert begins.
RUNAWAY_OVER = 0.25  # Share at which it ends.
RUNAWAY_LEAST = 50  # The least number of attempts that it is judged by.
STALLED_AFTER = 1800.0  # Seconds; longer than any pause that a crawl makes on its own.
DISK_SHARE = 0.05  # Free share of the disk below which the alert begins,
DISK_PLENTY = 20 << 30  # unless this many bytes are free;
DISK_LEAST = 1 << 30  # below this many bytes it begins on a disk of any size.
_DISK_OVER = 1.25  # Multiple of the limit at which it ends.
_NAMED = 5  # Hosts that a message names; it counts the others.


class AlertKind(StrEnum):
    """A lasting condition; its value is the title of the alert."""

    RUNAWAY = "runaway errors"
    STALLED = "stalled"
    DISK = "disk nearly full"


OVER = ": over"  # Appended to the title when the condition has ended.
HOSTS_BLOCKED = "hosts blocked"
BEGAN, ENDED, FAILED = "crawl began", "crawl ended", "crawl failed"

# A refusal or a rate limit is an answer; these reasons are failed attempts without any answer.
FAILURES = frozenset(r for r in Reason if not r.answer and r.again is not Again.PATIENT)


@dataclass(frozen=True, slots=True)
class Disk:
    free: int
    size: int


@dataclass(frozen=True, slots=True)
class CrawlState:
    """A crawl at one instant."""

    crawler: str
    at: float
    running: bool = True  # Neither paused nor draining.
    tries: Mapping[Reason, int] = field(default_factory=dict)  # Attempts of the last minutes.
    idle: float = 0.0  # Seconds since an attempt has ended, or since one could.
    workable: int = 0  # Open tasks on lanes that are not blocked.
    parked: int = 0  # Lanes.
    blocked: frozenset[str] = frozenset()  # Lanes.
    blocked_tasks: int = 0
    disk: Disk | None = None
    troubles: frozenset[AlertKind] = frozenset()  # Set by `judged`.


def judged(look: CrawlState, before: frozenset[AlertKind]) -> CrawlState:
    """The state with its troubles. A trouble ends at a limit well below the one it began at."""
    found = {
        AlertKind.RUNAWAY: _runaway(look, AlertKind.RUNAWAY in before),
        AlertKind.STALLED: look.running and look.workable > 0 and look.idle >= STALLED_AFTER,
        AlertKind.DISK: look.disk is not None and _full(look.disk, AlertKind.DISK in before),
    }
    return replace(look, troubles=frozenset(one for one, there in found.items() if there))


def alerts_between(before: CrawlState, now: CrawlState) -> list[Alert]:
    """The alerts between two judged states: troubles that began or ended, and blocked hosts."""
    began, over = now.troubles - before.troubles, before.troubles - now.troubles
    alerts = [_began(trouble, now) for trouble in sorted(began)]
    for trouble in sorted(over):
        alerts.append(Alert(now.crawler, trouble + OVER, _ENDS[trouble], now.at))
    if fresh := now.blocked - before.blocked:
        alerts.append(_blocked(fresh, now))
    return alerts


def _runaway(look: CrawlState, already: bool) -> bool:
    tries, failed = _tries(look)
    if tries < RUNAWAY_LEAST:
        # Too few attempts cannot begin an alert, and none at all cannot end one.
        return already and (tries == 0 or failed > RUNAWAY_OVER * tries)
    return failed > (RUNAWAY_OVER if already else RUNAWAY_SHARE) * tries


def _tries(look: CrawlState) -> tuple[int, int]:
    """The number of attempts, and of failed ones."""
    return sum(look.tries.values()), sum(n for r, n in look.tries.items() if r in FAILURES)


def _full(disk: Disk, already: bool) -> bool:
    limit = max(DISK_LEAST, min(DISK_SHARE * disk.size, DISK_PLENTY))
    return disk.free < limit * (_DISK_OVER if already else 1.0)


def _began(trouble: AlertKind, look: CrawlState) -> Alert:
    text, fields = _WORDS[trouble](look)
    return Alert(look.crawler, trouble, text, look.at, _LEVELS[trouble], fields)


def _of_runaway(look: CrawlState) -> tuple[str, Mapping[str, str]]:
    tries, failed = _tries(look)
    ranked = sorted(FAILURES & look.tries.keys(), key=lambda reason: -look.tries[reason])
    fields = {str(reason): f"{look.tries[reason]:,}" for reason in ranked if look.tries[reason]}
    return f"{100 * failed / tries:.0f} % of the last {tries:,} attempts failed", fields


def _of_stall(look: CrawlState) -> tuple[str, Mapping[str, str]]:
    text = f"no attempt has ended for {look.idle / 60:.0f} minutes"
    return text, {"open tasks": f"{look.workable:,}", "hosts waiting": f"{look.parked:,}"}


def _of_disk(look: CrawlState) -> tuple[str, Mapping[str, str]]:
    assert look.disk is not None
    free, size = look.disk.free, look.disk.size
    text = f"{free / (1 << 30):.1f} GB of {size / (1 << 30):.1f} GB are free"
    return f"{text}; a full disk stops the crawl, which can continue later", {}


def _blocked(fresh: frozenset[str], look: CrawlState) -> Alert:
    names = sorted(fresh)
    listed = ", ".join(shown(name) for name in names[:_NAMED])
    more = f" and {len(names) - _NAMED:,} more" if len(names) > _NAMED else ""
    fields = {"blocked hosts": f"{len(look.blocked):,}", "their tasks": f"{look.blocked_tasks:,}"}
    text = f"blocked after too many failures: {listed}{more}"
    return Alert(look.crawler, HOSTS_BLOCKED, text, look.at, Level.WARNING, fields)


_WORDS = {AlertKind.RUNAWAY: _of_runaway, AlertKind.STALLED: _of_stall, AlertKind.DISK: _of_disk}
_LEVELS = {
    AlertKind.RUNAWAY: Level.ERROR,
    AlertKind.STALLED: Level.WARNING,
    AlertKind.DISK: Level.ERROR,
}
_ENDS = {
    AlertKind.RUNAWAY: "most attempts succeed again",
    AlertKind.STALLED: "attempts end again",
    AlertKind.DISK: "the disk has room again",
}
