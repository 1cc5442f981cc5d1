"""The positions of probes behind a gap: their distance, and how far they reach.

It is unknown when the counter continued. If it leapt right after the last seen id, the number of
ids since then is known, and teeth at a little less than half that distance cannot miss them. If it
paused first, the block is younger and smaller, so denser combs look for blocks of every age.
"""

from __future__ import annotations

from dataclasses import dataclass

from trawlnet.crawlers.ids.model import later

_FIRST = 15.0  # Seconds' worth of ids that must be behind a gap before a comb is worth it.
_GRACE = 10.0  # Seconds from noticing to the first comb, so that an anchor can answer first.
_EVERY = 15.0
_PER_SECOND = 0.25  # Probes, as a share of the ids that would have been asked for meanwhile ...
_PER_SECOND_LEAST = 4.0  # ... or so many: where ids are few a gap must be crossed, too ...
_PER_SECOND_PACE = 0.5  # ... or this share of all requests that may be sent, ...
_PER_SECOND_MOST, _KEEN = 10.0, 7200.0  # ... but no more than so many, for so many seconds.
_LEAP_SHARE = 0.56  # Of that, for a block as old as the silence, beyond what is known to be empty.
_LEAP_SHARE_FAR = 0.1  # Less of it once the reach is ...
_FAR = 400_000.0  # ... so many seconds' worth of ids.
_YOUNG_SHARE = 0.3  # For blocks that may have begun at any time since.
_YOUNGEST, _OLDER = 20.0, 2.0  # Seconds that the youngest block may be out; each next comb: times.
_LEAST, _MOST = 64, 4096  # Probes of the first comb, and of any.
_TOOTH = 0.45  # Of the ids that must be in the block: two teeth hit them.


@dataclass(frozen=True, slots=True)
class Comb:
    """Probe every `step`-th id, `count` times, from `start` ids behind the cursor."""

    skip: int
    step: int
    count: int


class Combs:
    """The combs of one stall, which begins now."""

    def __init__(self, now: float) -> None:
        self.pace = 0.0  # The allowed requests a second, for all purposes.
        self._began = now
        self._leap_at = now + _GRACE  # When the next comb for a block as old as the silence is due.
        self._cleared = 0  # No such block begins within this many ids behind the cursor.
        self._young_at: list[float] = []  # The same for younger blocks, youngest first.

    def next_at(self) -> float:
        return min(self._leap_at, *self._young_at) if self._young_at else self._leap_at

    def put_off(self, until: float) -> None:
        """Wait until then: an anchor has shown that there are no new ids."""
        self._leap_at = max(self._leap_at, until)
        self._young_at = [max(at, until) for at in self._young_at]

    def take(self, now: float, rate: float, out: float) -> Comb | None:
        """The comb that is due, if any. Ids come at `rate`; if the counter leapt at once, those of
        `out` seconds are published."""
        while _YOUNGEST * _OLDER ** len(self._young_at) < out:
            self._young_at.append(now + _EVERY)
        if now >= self._leap_at:
            return self._for_leap(now, rate, out)
        for nth, at in enumerate(self._young_at):
            if now >= at:
                return self._for_pause(now, rate, nth)
        return None

    def _for_leap(self, now: float, rate: float, out: float) -> Comb | None:
        if out < _FIRST:
            self._leap_at = later(now, now + _FIRST - out)
            return None
        spacing = max(_EVERY, 0.5 * (now - self._began))
        self._leap_at = now + spacing
        step = max(1, int(_TOOTH * rate * out))
        budget = self._budget(now, rate)
        count = self._leap_share(rate) * budget * spacing
        if not self._cleared:
            count = max(_LEAST, budget * spacing)
        comb = Comb(self._cleared, step, int(min(_MOST, count)))
        self._cleared += comb.step * comb.count
        return comb

    def _leap_share(self, rate: float) -> float:
        return _LEAP_SHARE if self._cleared < _FAR * rate else _LEAP_SHARE_FAR

    def _for_pause(self, now: float, rate: float, nth: int) -> Comb:
        age = _YOUNGEST * _OLDER**nth
        self._young_at[nth] = now + age
        per_second = _YOUNG_SHARE * self._budget(now, rate) + self._spare(now, rate)
        probes = per_second * age / len(self._young_at)
        return Comb(0, max(1, int(_TOOTH * rate * age)), int(min(_MOST, max(1.0, probes))))

    def _budget(self, now: float, rate: float) -> float:
        """Probes a second, for all combs."""
        return max(_PER_SECOND_LEAST, _PER_SECOND * rate, self._keen(now))

    def _keen(self, now: float) -> float:
        """Extra probes for long silences; none for the first comb, because most end soon."""
        if not self._cleared or now >= self._began + _KEEN:
            return 0.0
        return min(_PER_SECOND_PACE * self.pace, _PER_SECOND_MOST)

    def _spare(self, now: float, rate: float) -> float:
        """At low rates: the part that a block as old as the silence does not need."""
        more = max(0.0, self._keen(now) - _PER_SECOND * rate)
        return more * (_LEAP_SHARE - self._leap_share(rate))
