"""Redirects as new requests: where one leads, on whose lane, and with which headers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote, urljoin

from yarl import URL

from trawlnet.net.guard import Guard, Refused
from trawlnet.net.lane import lane_of_parsed
from trawlnet.net.trouble import Circular


@dataclass(frozen=True, slots=True)
class Leg:
    """One request of a chain that redirects lead through."""

    url: URL
    headers: Mapping[str, str]
    names: Mapping[str, str]  # Lanes that the caller calls by a name of its own.
    hops: tuple[str, ...] = ()  # The URLs that led here.

    @property
    def lane(self) -> str:
        lane = lane_of_parsed(self.url)
        return self.names.get(lane, lane)


def first_leg(guard: Guard, url: str, lane: str | None, headers: Mapping[str, str]) -> Leg:
    """Raises Refused."""
    target = guard.destination(url)
    names = {} if lane is None else {lane_of_parsed(target): lane}
    return Leg(target, _sendable(headers), names)


def next_leg(guard: Guard, leg: Leg, location: str, most: int) -> Leg:
    """Raises Refused, or Circular for a URL that was visited before or one hop too many."""
    here = str(leg.url)
    target = guard.destination(_join(here, location))
    hops = (*leg.hops, here)
    if str(target) in hops:
        raise Circular(f"redirected back to {target}")
    if len(hops) > most:
        raise Circular(f"redirected more than {most} times")
    headers = leg.headers if target.origin() == leg.url.origin() else _for_anyone(leg.headers)
    return Leg(target, headers, leg.names, hops)


def is_redirect(status: int, headers: Mapping[str, str]) -> bool:
    return status in _REDIRECTS and bool(headers.get("Location", "").strip())


_REDIRECTS = frozenset({301, 302, 303, 307, 308})

# What another origin may know. A list of the harmless: secrets go by too many names to list.
_HARMLESS = frozenset({"accept", "accept-encoding", "accept-language", "user-agent"})

_URL_CHARACTERS = "!#$%&'()*+,-./:;=?@[]_~"


def _for_anyone(headers: Mapping[str, str]) -> Mapping[str, str]:
    return {name: value for name, value in headers.items() if name.lower() in _HARMLESS}


def _sendable(headers: Mapping[str, str]) -> Mapping[str, str]:
    """Leaves out what cannot be written: a validator may be a remote's own odd bytes."""
    return {name: value for name, value in headers.items() if value.isprintable()}


def _join(base: str, location: str) -> str:
    """The redirect's target. Servers put raw bytes there; they travel percent-encoded."""
    raw = location.strip().encode("utf-8", "surrogateescape")
    try:
        return urljoin(base, quote(raw, safe=_URL_CHARACTERS)).partition("#")[0]
    except ValueError as error:
        raise Refused(f"redirected to what is not a URL: {error}") from error
