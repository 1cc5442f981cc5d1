"""What a process that was killed had published, and not yet saved as states. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from trawlnet.atproto.cid import parse_cid
from trawlnet.crawlers.repos.events.event import AccountEvent, IdentityEvent, RecordEvent, RepoEvent

_EPOCH = datetime.fromtimestamp(0, UTC)
_MICROSECOND = timedelta(microseconds=1)


@dataclass(slots=True)
class UnsavedChanges:
    """Of one account."""

    cids: dict[bytes, bytes | None] = field(default_factory=dict)  # By path; None: it is gone.
    withdrawn_us: int = 0  # When all that had been published before was; 0: it was not.
    status: str = ""  # Why it was.
    is_away: bool = False  # It was, and nothing has come back since.

    def add(self, event: RecordEvent | AccountEvent) -> None:
        if isinstance(event, RecordEvent):
            path = f"{event.collection}/{event.rkey}".encode()
            self.cids[path] = None if event.cid is None else parse_cid(event.cid).raw
            return
        self.is_away = not event.active
        if self.is_away:
            self.cids.clear()
            self.withdrawn_us, self.status = us_of(event.time), event.status or ""


def unsaved_changes(events: Iterable[RepoEvent]) -> dict[str, UnsavedChanges]:
    """By DID; in the order in which they were published."""
    found: dict[str, UnsavedChanges] = {}
    for event in events:
        if not isinstance(event, IdentityEvent):
            found.setdefault(event.did, UnsavedChanges()).add(event)
    return found


def iso_of(at_us: int) -> str:
    at = _EPOCH + at_us * _MICROSECOND
    return at.isoformat(timespec="microseconds").replace("+00:00", "Z")


def us_of(time: str) -> int:
    """Of what `iso_of` wrote."""
    return (datetime.fromisoformat(time) - _EPOCH) // _MICROSECOND
