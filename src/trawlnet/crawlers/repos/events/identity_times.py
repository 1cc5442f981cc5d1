"""Which messages tell of a change of an identity that was not published yet. Pure.

Relays pass on the time of a message as the account's server wrote it, under numbers of their own:
so it tells a change apart from others, whoever sends it, and however often.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping

from trawlnet.crawlers.atproto.streams.host_cursor import seconds_of

Times = tuple[float, ...]  # Unix seconds of the last messages that were published, ascending.

_MOST = 8  # Of one account.
_CLOCKS_DIFFER = 600.0  # Seconds: who moves has the next message dated by another server.
MOST_UNKNOWN = 100_000  # Accounts.


class UnknownIdentities:
    """Times of accounts that nobody knows yet, so many of the latest: who invents accounts fills
    neither disk nor memory. If one is forgotten, its message comes again, with the same id."""

    def __init__(self) -> None:
        self._times: OrderedDict[str, Times] = OrderedDict()

    def of(self, dids: Iterable[str]) -> dict[str, Times]:
        return {did: self._times[did] for did in dids if did in self._times}

    def remember(self, times: Mapping[str, Times]) -> None:
        for did, one in times.items():
            self._times[did] = one
            self._times.move_to_end(did)
        while len(self._times) > MOST_UNKNOWN:
            self._times.popitem(last=False)


def times_with(times: Times, time: str, now: float) -> Times | None:
    """With one more message; None if it was published, or a later one long ago."""
    at = seconds_of(time)
    if at is None or at > now + _CLOCKS_DIFFER:
        # A server may write what it likes: it is passed on, and must not hide what comes next.
        return times
    if times and (at in times or at < times[-1] - _CLOCKS_DIFFER):
        return None
    if len(times) == _MOST and at < times[0]:
        return None
    return tuple(sorted((*times, at)))[-_MOST:]
