"""When a firehose that broke is connected again, and where. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from trawlnet.crawlers.atproto.streams.messages import StreamNotice

LONGEST_WAIT = 60.0  # Seconds before connecting again,
_FIRST_WAIT = 1.0  # doubling from this.
_TRIES = 5  # At one place: half a minute, so that what a restart garbles is not taken for lost.
_BETWEEN = 3600.0  # Seconds: whatever is passed over, all that the server has must be compared.


@dataclass(slots=True)
class Reconnection:
    """Of one upstream."""

    wait: float = _FIRST_WAIT  # Seconds until the next connection.
    _unreadable: int = 0  # Connections in a row that ended so, at one place.
    _is_stuck: bool = False  # The last connection ended so.
    _pass_over_at: float = 0.0  # Not earlier.

    def go_on(self) -> None:
        """Something new was made durable."""
        self.wait, self._unreadable, self._is_stuck = _FIRST_WAIT, 0, False

    def end(self, notice: StreamNotice) -> bool:
        """A connection that had been made; whether it was as good as none, like the one before."""
        was_stuck, self._is_stuck = self._is_stuck, notice.is_unreadable
        self._unreadable += notice.is_unreadable
        return was_stuck and self._is_stuck

    def put_off(self) -> None:
        """There was one more wait."""
        self.wait = min(2 * self.wait, LONGEST_WAIT)

    def passes_over(self, now: float) -> bool:
        """Whether the next connection begins behind what cannot be read, at the newest message:
        the place of the next good one is not known."""
        return self._unreadable >= _TRIES and now >= self._pass_over_at

    def pass_over(self, now: float) -> None:
        self._unreadable, self._is_stuck = 0, False
        self._pass_over_at = now + _BETWEEN
