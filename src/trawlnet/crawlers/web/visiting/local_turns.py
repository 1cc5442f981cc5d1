"""Turns that the crawl and the scrape of one workspace share: one request at a time to a host, with
the gap between requests of both. A file has a place for every host.

A place is locked during a request; the kernel releases the locks of a killed process. It records,
for each of the two, the end of its last request, its gap, and until when the host asked to wait. A
frozen process holds its places: the other waits as long as a request may take, and then continues
without the lock.
"""

from __future__ import annotations

import fcntl
import os
import struct
import zlib
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from trawlnet.engine.durable import make_directory
from trawlnet.engine.outcome import Outcome
from trawlnet.engine.ports import Clock, Handler
from trawlnet.engine.task import Task

FILE = Path("state", "web", "turns")
_PLACES = 1 << 16  # Two hosts with the same place wait for each other, which only costs time.
_ENTRY = struct.Struct("ddd")  # The end of the last request, the gap after it, held until.
_HELD = struct.Struct("d")
_HELD_AT = _ENTRY.size - _HELD.size
_PLACE_BYTES = 2 * _ENTRY.size
_LONGEST_HOLD = 3600.0  # Seconds after which a hold is read again.
# Linux has locks of open files. Elsewhere a lock belongs to the process, which is enough for a
# crawl and a scrape, because they are two processes.
_OFD_LOCK = getattr(fcntl, "F_OFD_SETLK", None)
_LOCK = struct.Struct("hhqqi0q")  # struct flock: type, whence, start, length, pid.
# Seconds until the next attempt while the other process has the turn: a part of the gap, so that
# the other is not always first after the gap.
_SHORTEST, _LONGEST = 0.002, 0.1


class LocalTurns:
    """For one of the two processes; `first` is the crawl. The gate keeps the gaps between its own
    requests; this adds those of the other process."""

    def __init__(self, workspace: Path, clock: Clock, *, first: bool) -> None:
        self.first = first
        self._clock = clock
        self._mine, self._theirs = (0, _ENTRY.size) if first else (_ENTRY.size, 0)
        self._held: Counter[int] = Counter()  # Places that we hold; two hosts may share one.
        # Places that the other process holds: its last entry there, and when we first saw it.
        self._refused: dict[int, tuple[bytes, float]] = {}
        make_directory((workspace / FILE).parent)
        self._fd = os.open(workspace / FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        os.truncate(self._fd, _PLACES * _PLACE_BYTES)  # Sparse: only what is written takes room.

    async def turn(
        self, gaps: Mapping[str, float], longest: float, lane: str | None = None
    ) -> float:
        """Take the turns of all these names, or none, so that no two processes wait for each other.
        Returns 0, or the seconds until the next attempt."""
        places = _places(gaps)
        taken: list[int] = []
        for place, gap in places.items():
            if wait := self._take(place, gap, longest):
                for one in taken:
                    self._release(one)
                return wait
            taken.append(place)
        for place, gap in places.items():
            self._note(place, gap)  # If we are killed, the request counts as ended now.
        return 0.0

    async def turned(self, gaps: Mapping[str, float]) -> None:
        for place, gap in _places(gaps).items():
            self._note(place, gap)
            self._release(place)

    def hold(self, name: str, until: float) -> None:
        """The host asked to wait, which counts for the other process, too."""
        at = _place(name) * _PLACE_BYTES + self._mine + _HELD_AT
        os.pwrite(self._fd, _HELD.pack(until), at)

    def close(self) -> None:
        os.close(self._fd)

    def _take(self, place: int, gap: float, longest: float) -> float:
        if not self._held[place] and not self._lock(place, fcntl.F_WRLCK):
            if not self._is_frozen(place, longest):
                return min(max(gap / 2, _SHORTEST), _LONGEST)
        else:
            self._refused.pop(place, None)
        self._held[place] += 1
        wait = self._left(place, gap)
        if wait > 0.0:
            self._release(place)
        return wait

    def _left(self, place: int, gap: float) -> float:
        """The rest of the gap after the other's last request: the longer gap, if there are two."""
        end, their_gap, held = map(float, _ENTRY.unpack(self._entry(place)))
        now = self._clock.now()
        # After a clock was set back, nothing waits for longer than the gap.
        rest = min(end, now) + max(gap, their_gap) - now if end else 0.0
        return max(0.0, rest, min(held - now, _LONGEST_HOLD))

    def _is_frozen(self, place: int, longest: float) -> bool:
        """Whether the other process has held this place for longer than any request takes, without
        writing to it."""
        entry, now = self._entry(place), self._clock.now()
        seen, since = self._refused.get(place, (b"", now))
        if entry != seen:
            self._refused[place] = (entry, now)
            return False
        return now >= since + longest

    def _entry(self, place: int) -> bytes:
        return os.pread(self._fd, _ENTRY.size, place * _PLACE_BYTES + self._theirs)

    def _note(self, place: int, gap: float) -> None:
        """Write the entry without changing the hold of the host."""
        entry = _ENTRY.pack(self._clock.now(), gap, 0.0)[:_HELD_AT]
        os.pwrite(self._fd, entry, place * _PLACE_BYTES + self._mine)

    def _release(self, place: int) -> None:
        self._held[place] -= 1
        if not self._held[place]:
            del self._held[place]
            self._lock(place, fcntl.F_UNLCK)

    def _lock(self, place: int, kind: int) -> bool:
        start = place * _PLACE_BYTES
        try:
            if _OFD_LOCK is not None:
                lock = _LOCK.pack(kind, os.SEEK_SET, start, _PLACE_BYTES, 0)
                fcntl.fcntl(self._fd, _OFD_LOCK, lock)
            else:
                word = fcntl.LOCK_UN if kind == fcntl.F_UNLCK else fcntl.LOCK_EX | fcntl.LOCK_NB
                fcntl.lockf(self._fd, word, _PLACE_BYTES, start)
        except (BlockingIOError, PermissionError):  # POSIX lets a system say either.
            return False
        return True


def _places(gaps: Mapping[str, float]) -> dict[int, float]:
    places: dict[int, float] = {}
    for name, gap in gaps.items():
        place = _place(name)
        places[place] = max(gap, places.get(place, 0.0))
    return places


def _place(name: str) -> int:
    return zlib.crc32(name.encode("utf-8", "replace")) % _PLACES


class TellingWaits:
    """A handler that tells the other process how long a host asked to wait."""

    def __init__(self, handler: Handler, turns: LocalTurns, clock: Clock) -> None:
        self._handler = handler
        self._turns = turns
        self._clock = clock

    async def __call__(self, task: Task) -> Outcome:
        outcome = await self._handler(task)
        if outcome.wait:
            self._turns.hold(outcome.lane or task.lane, self._clock.now() + outcome.wait)
        return outcome
