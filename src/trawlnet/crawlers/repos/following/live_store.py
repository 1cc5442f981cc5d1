"""Where the stream stands: the state of every account, visits that are due, and cursors, changed in
one transaction."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from trawlnet.crawlers.atproto.streams.host_cursor import HostCursor
from trawlnet.crawlers.atproto.streams.upstream import Upstream
from trawlnet.crawlers.repos.events.identity_times import Times
from trawlnet.crawlers.repos.following.figures.live_figures import (
    LiveFigures,
    StandingCounts,
    merged,
)
from trawlnet.crawlers.repos.following.held_frames import HeldFrame
from trawlnet.crawlers.repos.following.live_state import LiveState, ResyncCause
from trawlnet.crawlers.repos.following.roll_book import RollBook
from trawlnet.stores.lmdb.notes import KEY_MAX, LmdbNotes, notes_in, open_notes, some_notes
from trawlnet.stores.lmdb.rows import digest

FOLDER = "live"
_ACCOUNTS = "accounts"
_DUE = "due"
_CURSORS = "cursors"
_GAPS = "gaps"
_ADOPTING = "adopting"
_HELD = "held"
_COMPARING = "comparing"
_FIGURES = "figures"
_PUBLISHED = "published"
_FOLLOWED = "followed"
_IDENTITIES = "identities"
_ALL = b"all"
_DUE_TIME = 8  # Bytes in front of the DID: microseconds, so that keys sort by them.
_NUMBER = 8  # Bytes behind the DID of a frame that waits, and a zero.
_OPEN, _DONE = b"", b"done"  # Listings that are compared.
_LONGEST_DID = KEY_MAX - _NUMBER - 1


class DueVisit(NamedTuple):
    did: str
    at: float


class StreamGap(msgspec.Struct, frozen=True, array_like=True):
    """Messages of a server are missing: what it has must be listed and compared."""

    url: str
    is_pds: bool
    since: float  # Unix seconds: from here on something may be missing.


@dataclass(slots=True)
class LiveChange:
    """What one batch changes; written as a whole or not at all."""

    states: dict[str, LiveState] = field(default_factory=dict)
    due: list[DueVisit] = field(default_factory=list)
    fed: Sequence[DueVisit] = ()  # They are tasks of the crawl by now.
    cursors: dict[str, HostCursor] = field(default_factory=dict)
    gaps: dict[str, StreamGap] = field(default_factory=dict)  # By host.
    adopted: list[str] = field(default_factory=list)
    forgotten: list[str] = field(default_factory=list)  # Accounts that there may never have been.
    released: list[str] = field(default_factory=list)  # Accounts whose frames wait no longer,
    held: list[HeldFrame] = field(default_factory=list)  # and frames that wait from now on.
    causes: dict[str, ResyncCause] = field(default_factory=dict)  # Of accounts out of step.
    closed: Sequence[StreamGap] = ()  # Gaps that are being compared,
    listed: Sequence[str] = ()  # by these tasks; a page may be read by several.
    compared: Sequence[str] = ()  # Those that are done.
    commits: int = 0
    verified: int = 0
    rejected: Counter[str] = field(default_factory=Counter)
    resyncs: int = 0
    events: int = 0
    identities: dict[str, Times] = field(default_factory=dict)
    # Time of the newest event that these states know of; None: as before.
    published_us: int | None = None


class LiveStore:
    """Blocking; readers and the one writer may be in different threads. Unlike the catalogue this
    is the only copy: without the cursor, messages would be missed."""

    def __init__(self, notes: LmdbNotes) -> None:
        self._notes = notes
        self._accounts = notes.table(_ACCOUNTS)
        self._due = notes.table(_DUE)
        self._cursors = notes.table(_CURSORS)
        self._gaps = notes.table(_GAPS)
        self._adopting = notes.table(_ADOPTING)
        self._held = notes.table(_HELD)
        self._comparing = notes.table(_COMPARING)
        self._figures = notes.table(_FIGURES)
        self._published = notes.table(_PUBLISHED)
        self._followed = notes.table(_FOLLOWED)
        self._identities = notes.table(_IDENTITIES)
        self.roll = RollBook(notes)

    @classmethod
    def open(cls, state: Path) -> LiveStore:
        return cls(open_notes(state / FOLDER, is_only_copy=True))

    def close(self) -> None:
        self._notes.close()

    def is_empty(self) -> bool:
        with self._notes.reading(self._accounts) as txn:
            return not txn.stat(self._accounts)["entries"]

    def states(self, dids: Iterable[str]) -> dict[str, LiveState]:
        """Of those that are known."""
        found = {}
        with self._notes.reading(self._accounts) as txn:
            for did in dids:
                packed = txn.get(did.encode()) if is_storable(did) else None
                if packed is not None:
                    found[did] = _STATE.decode(packed)
        return found

    def states_after(self, did: str, most: int) -> dict[str, LiveState]:
        """Of the accounts behind it, so many, in their order."""
        with self._notes.reading(self._accounts) as txn:
            cursor = txn.cursor()
            is_there = cursor.set_range(did.encode() + b"\0")
            rows = islice(cursor.iternext(), most) if is_there else ()
            return {key.decode(): _STATE.decode(packed) for key, packed in rows}

    def identity_times(self, dids: Iterable[str]) -> dict[str, Times]:
        """Of those whose identity has changed."""
        with self._notes.reading(self._identities) as txn:
            found = {did: txn.get(did.encode()) for did in dids if is_storable(did)}
        return {did: _TIMES.decode(packed) for did, packed in found.items() if packed is not None}

    def cursor(self, host: str) -> HostCursor | None:
        with self._notes.reading(self._cursors) as txn:
            packed = txn.get(host.encode())
        return None if packed is None else _CURSOR.decode(packed)

    def figures(self) -> LiveFigures:
        with self._notes.reading(self._figures) as txn:
            packed = txn.get(_ALL)
        return LiveFigures() if packed is None else _FIGURES_OF.decode(packed)

    def published_us(self) -> int | None:
        """Time of the newest event that the states know of; None: nobody has written it down."""
        with self._notes.reading(self._published) as txn:
            packed = txn.get(_ALL)
        return None if packed is None else int(msgspec.msgpack.decode(packed))

    def apply(self, change: LiveChange) -> LiveFigures:
        """Durable when this returns; the figures after it."""
        counts = StandingCounts()
        with self._notes.writing(self._accounts) as txn:
            for did, state in change.states.items():
                if is_storable(did):
                    packed = txn.get(did.encode())
                    before = LiveState() if packed is None else _STATE.decode(packed)
                    counts.count(before, state, change.causes.get(did))
                    txn.put(did.encode(), _ENCODER.encode(state))
            for did in change.forgotten:
                txn.delete(did.encode(), db=self._identities)
                if (packed := txn.pop(did.encode())) is not None:
                    counts.forget(_STATE.decode(packed))
            for visit in change.fed:
                txn.delete(_due_key(visit), db=self._due)
            for visit in change.due:
                if is_storable(visit.did):
                    txn.put(_due_key(visit), b"", db=self._due)
            for host, cursor in change.cursors.items():
                txn.put(host.encode(), _ENCODER.encode(cursor), db=self._cursors)
            for did, times in change.identities.items():
                txn.put(did.encode(), _ENCODER.encode(times), db=self._identities)
            for did in change.adopted:
                txn.delete(did.encode(), db=self._adopting)
            self._hold(txn, change)
            if change.published_us is not None:
                txn.put(_ALL, _ENCODER.encode(change.published_us), db=self._published)
            packed = txn.get(_ALL, db=self._figures)
            figures = LiveFigures() if packed is None else _FIGURES_OF.decode(packed)
            figures = _added(figures, change, counts)
            self._compare(txn, change, figures)
            txn.put(_ALL, _ENCODER.encode(figures), db=self._figures)
        return figures

    def follow(self, hosts: Iterable[str]) -> None:
        """From now on these are followed, and no others."""
        with self._notes.writing(self._followed) as txn:
            txn.put(_ALL, _ENCODER.encode(sorted(hosts)))

    def begin_adopting(self, bases: Mapping[str, str]) -> None:
        """Before blocks are written: which rev of each repository was published so far."""
        with self._notes.writing(self._adopting) as txn:
            for did, rev in bases.items():
                if is_storable(did):
                    # Of two kills the first one knew what was published.
                    txn.put(did.encode(), rev.encode(), overwrite=False)

    def adopting(self) -> list[tuple[str, str]]:
        with self._notes.reading(self._adopting) as txn:
            return [(did.decode(), rev.decode()) for did, rev in txn.cursor()]

    def held(self) -> Iterator[HeldFrame]:
        """In the order in which they came, by account."""
        with self._notes.reading(self._held) as txn:
            for _, packed in txn.cursor():
                yield HeldFrame.unpack(packed)

    def _hold(self, txn: Any, change: LiveChange) -> None:
        cursor = txn.cursor(db=self._held)
        for did in change.released:
            prefix = did.encode() + b"\0"
            while cursor.set_range(prefix) and cursor.key().startswith(prefix):
                cursor.delete()
        for one in change.held:
            prefix = one.frame.did.encode() + b"\0"
            last = cursor.prev() if cursor.set_range(prefix + b"\xff") else cursor.last()
            is_mine = last and cursor.key().startswith(prefix)
            number = int.from_bytes(cursor.key()[len(prefix) :], "big") + 1 if is_mine else 0
            txn.put(prefix + number.to_bytes(_NUMBER, "big"), one.pack(), db=self._held)

    def gaps(self) -> list[StreamGap]:
        with self._notes.reading(self._gaps) as txn:
            return [_GAP.decode(packed) for _, packed in txn.cursor()]

    def _compare(self, txn: Any, change: LiveChange, figures: LiveFigures) -> None:
        """Gaps come and are closed, and so do the pages by which they are compared. One that is
        done stays so while others are open: two relays may name the same server."""
        for host, gap in change.gaps.items():
            # Of two gaps the first began earlier.
            packed = _ENCODER.encode(gap)
            is_new = txn.put(host.encode(), packed, db=self._gaps, overwrite=False)
            figures.gaps += is_new
            figures.comparing += is_new
        for gap in change.closed:
            host = Upstream(gap.url, gap.is_pds).host
            figures.comparing -= txn.delete(host.encode(), db=self._gaps)
        for key in map(digest, change.listed):
            figures.comparing += txn.put(key, _OPEN, db=self._comparing, overwrite=False)
        for key in map(digest, change.compared):
            figures.comparing -= txn.get(key, db=self._comparing) == _OPEN
            txn.put(key, _DONE, db=self._comparing)
        if change.compared and not figures.comparing:
            txn.drop(self._comparing, delete=False)

    def due(self, now: float, most: int) -> list[DueVisit]:
        """Visits whose time has come, the earliest first."""
        return [visit for visit in self.first_due(most) if visit.at <= now]

    def next_due(self) -> float | None:
        for visit in self.first_due(1):
            return visit.at
        return None

    def first_due(self, most: int) -> list[DueVisit]:
        """The earliest, whether their time has come or not."""
        with self._notes.reading(self._due) as txn:
            return [_due_visit(key) for key, _ in islice(txn.cursor(), most)]


def is_storable(did: str) -> bool:
    """Longer DIDs than this can be written, and nobody has one: they are not followed."""
    return len(did.encode()) <= _LONGEST_DID


def _due_key(visit: DueVisit) -> bytes:
    return round(visit.at * 1e6).to_bytes(_DUE_TIME, "big") + visit.did.encode()


def _due_visit(key: bytes) -> DueVisit:
    return DueVisit(key[_DUE_TIME:].decode(), int.from_bytes(key[:_DUE_TIME], "big") / 1e6)


def _added(figures: LiveFigures, change: LiveChange, counts: StandingCounts) -> LiveFigures:
    """Without gaps."""
    return LiveFigures(
        figures.commits + change.commits,
        figures.verified + change.verified,
        merged(figures.rejected, change.rejected),
        figures.resyncs + change.resyncs,
        figures.events + change.events,
        figures.desynchronized + counts.begun.total() - counts.ended.total(),
        merged(figures.begun, counts.begun),
        merged(figures.ended, counts.ended),
        figures.gaps,
        figures.comparing,
    )


class LiveLook(NamedTuple):
    figures: LiveFigures
    cursors: Mapping[str, HostCursor]
    followed: frozenset[str] | None  # Hosts, by the last process; None: nobody has written it down.


def look_at_due(state: Path, most: int) -> list[DueVisit]:
    """The earliest, for `status`."""
    return [_due_visit(key) for key, _ in islice(notes_in(state / FOLDER, _DUE), most)]


def look_at_states(state: Path, dids: Collection[str]) -> dict[str, LiveState]:
    """Of those that are known, for `status`."""
    found = some_notes(state / FOLDER, _ACCOUNTS, [did.encode() for did in dids])
    return {did.decode(): _STATE.decode(packed) for did, packed in found.items()}


def look_at_live(state: Path) -> LiveLook | None:
    """How far a stream has come, for `status`; None where none was ever followed."""
    figures = dict(notes_in(state / FOLDER, _FIGURES))
    if _ALL not in figures:
        return None
    cursors = {
        host.decode(): _CURSOR.decode(one) for host, one in notes_in(state / FOLDER, _CURSORS)
    }
    hosts = dict(notes_in(state / FOLDER, _FOLLOWED)).get(_ALL)
    followed = None if hosts is None else frozenset(msgspec.msgpack.decode(hosts, type=list[str]))
    return LiveLook(_FIGURES_OF.decode(figures[_ALL]), cursors, followed)


_ENCODER = msgspec.msgpack.Encoder()
_STATE = msgspec.msgpack.Decoder(LiveState)
_CURSOR = msgspec.msgpack.Decoder(HostCursor)
_TIMES = msgspec.msgpack.Decoder(Times)
_GAP = msgspec.msgpack.Decoder(StreamGap)
_FIGURES_OF = msgspec.msgpack.Decoder(LiveFigures)
