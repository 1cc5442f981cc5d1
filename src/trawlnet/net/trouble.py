"""Network errors: the one place where library exceptions and statuses become Reasons."""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from trawlnet.engine.outcome import Reason
from trawlnet.net.guard import AddressRefused, PrivateRefused


@dataclass(frozen=True, slots=True)
class Trouble:
    """Why there is no answer. A value, not an exception, so that a handler must check it."""

    reason: Reason
    detail: str = ""  # Cleaned: safe to log and to store.
    wait: float | None = None
    url: str = ""  # The hop at which it happened.
    hops: tuple[str, ...] = ()  # The URLs that led there.
    is_private: bool = False  # Refused, and a guard with `allow_private` would not do so.


class Unresolved(OSError):
    """A name has no address."""


class ConnectionDropped(Exception):
    """The connection broke before there was an answer."""


class BadAnswer(Exception):
    """The bytes received are not a valid response."""


class NotUpgraded(BadAnswer):
    """A server gave an ordinary answer instead of opening a WebSocket."""

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(detail)
        self.status = status


class TooLarge(Exception):
    """More bytes than the limits allow."""


class Truncated(Exception):
    """The body ended early."""


class Garbled(Exception):
    """The body is not in the coding that its header names."""


class Circular(Exception):
    """Redirects without end."""


def trouble_from(
    error: Exception, url: str, hops: tuple[str, ...] = (), *, in_body: bool = False
) -> Trouble:
    """`in_body`: the body had begun, so that a broken connection has truncated it."""
    verdict = _verdict(error, in_body)
    culprit = verdict.culprit
    is_private = isinstance(culprit, PrivateRefused)
    return Trouble(
        verdict.reason, clean(_detail(culprit)), url=url, hops=hops, is_private=is_private
    )


# The first matching row counts, so the narrow ones come first.
_REASONS: tuple[tuple[type[Exception], Reason], ...] = (
    (AddressRefused, Reason.REFUSED),
    (Circular, Reason.LOOP),
    (TooLarge, Reason.TOO_LARGE),
    (Truncated, Reason.TRUNCATED),
    (Garbled, Reason.PARSE_ERROR),
    (Unresolved, Reason.DNS_ERROR),
    (TimeoutError, Reason.TIMEOUT),
    (ConnectionDropped, Reason.CONNECTION_ERROR),
    (BadAnswer, Reason.CONNECTION_ERROR),
    (OSError, Reason.CONNECTION_ERROR),
)

# The exceptions that Http turns into Trouble; any other is a bug, which the worker logs.
EXPECTED = tuple(kind for kind, _ in _REASONS)

# Shortages of this machine, which are no host's fault.
_OURS = frozenset(
    {
        errno.EMFILE,
        errno.ENFILE,
        errno.ENOBUFS,
        errno.ENOMEM,
        errno.EADDRNOTAVAIL,
        errno.ENETDOWN,
        errno.ENETUNREACH,
    }
)


_LOWEST_ERROR = 400  # Status.


class _Verdict(NamedTuple):
    reason: Reason
    culprit: BaseException


def _verdict(error: Exception, in_body: bool) -> _Verdict:
    chain = list(_chain(error))
    for link in chain:
        if isinstance(link, OSError) and link.errno in _OURS:
            return _Verdict(Reason.UNKNOWN, link)
        if isinstance(link, NotUpgraded) and link.status >= _LOWEST_ERROR:
            return _Verdict(reason_for_status(link.status), link)
    for kind, reason in _REASONS:
        for link in chain:
            if isinstance(link, kind):
                cut = in_body and reason is Reason.CONNECTION_ERROR
                return _Verdict(Reason.TRUNCATED if cut else reason, link)
    return _Verdict(Reason.UNKNOWN, error)


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """The exception and its causes: libraries wrap ours."""
    while error is not None:
        yield error
        error = error.__cause__


def _detail(error: BaseException) -> str:
    return str(error) or type(error).__name__


def reason_for_status(status: int) -> Reason:
    if 200 <= status < 300:
        return Reason.OK
    if 500 <= status < 600:
        return Reason.UNAVAILABLE
    return _STATUSES.get(status, Reason.HTTP_ERROR)


def reason_for_answer(status: int, wait: float | None) -> Reason:
    """`wait`: what the answer says about when to come back."""
    if status == _FORBIDDEN and wait:
        return Reason.RATE_LIMITED  # Some APIs say "slow down" with this status.
    return reason_for_status(status)


_FORBIDDEN = 403
_STATUSES = {
    304: Reason.NOT_MODIFIED,
    404: Reason.NOT_FOUND,
    410: Reason.NOT_FOUND,
    429: Reason.RATE_LIMITED,
}

_LONGEST_TEXT = 200  # Characters of a remote's text that are shown.
_UNPRINTABLE = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2060-\u2069\ud800-\udfff]+"
)


def clean(text: str) -> str:
    """A remote's text, made safe for a log line, a table and a terminal."""
    return _UNPRINTABLE.sub(" ", text[: 2 * _LONGEST_TEXT]).strip()[:_LONGEST_TEXT]
