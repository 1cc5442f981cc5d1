"""Which messages tell of a change of an identity that was not published yet. Pure.

Relays pass on the time of a message as the account's server wrote it, under numbers of their own:
so it tells a change apart from others, whoever sends it, and however often.
"""

from __future__ import annotations

from trawlnet.crawlers.atproto.streams.host_cursor import seconds_of

Times = tuple[float, ...]  # Unix seconds of the last messages that were published, ascending.

_MOST = 8  # Of one account.
_CLOCKS_DIFFER = 600.0  # Seconds: who moves has the next message dated by another server.


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
