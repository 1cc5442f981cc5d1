"""Redirects as new requests: the URL, the lane and the headers of each."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple
from urllib.parse import quote, urljoin

from trawlnet.net.guard import AddressRefused, Guard, UrlOrigin
from trawlnet.net.trouble import Circular


class Leg(NamedTuple):
    """One request of a chain of redirects."""

    url: str
    origin: UrlOrigin
    target: str  # Path and query.
    headers: Mapping[str, str]
    names: Mapping[str, str]  # The caller's own names of lanes.
    hops: tuple[str, ...] = ()  # The URLs that led here.

    @property
    def lane(self) -> str:
        lane = self.origin.lane
        return self.names.get(lane, lane)


def first_leg(guard: Guard, url: str, lane: str | None, headers: Mapping[str, str]) -> Leg:
    """Raises Refused."""
    to = guard.destination(url)
    return Leg(*to, headers, _NO_NAMES if lane is None else {to.origin.lane: lane})


def next_leg(guard: Guard, leg: Leg, location: str, most: int) -> Leg:
    """Raises Refused, or Circular for a URL that was visited before or one hop too many."""
    to = guard.destination(_join(leg.url, location))
    hops = (*leg.hops, leg.url)
    if to.url in hops:
        raise Circular(f"redirected back to {to.url}")
    if len(hops) > most:
        raise Circular(f"redirected more than {most} times")
    headers = leg.headers if to.origin == leg.origin else _for_anyone(leg.headers)
    return Leg(*to, headers, leg.names, hops)


def is_redirect(status: int, headers: Mapping[str, str]) -> bool:
    return status in _REDIRECTS and bool(headers.get("Location", "").strip())


_NO_NAMES: Mapping[str, str] = MappingProxyType({})
_REDIRECTS = frozenset({301, 302, 303, 307, 308})

# Headers that another origin may get: an allow list, because secrets have too many names.
_HARMLESS = frozenset({"accept", "accept-encoding", "accept-language", "user-agent"})

_URL_CHARACTERS = "!#$%&'()*+,-./:;=?@[]_~"


def _for_anyone(headers: Mapping[str, str]) -> Mapping[str, str]:
    return {name: value for name, value in headers.items() if name.lower() in _HARMLESS}


def _join(base: str, location: str) -> str:
    """The redirect's target. Servers send raw bytes there; they become percent-encoded."""
    raw = location.strip().encode("utf-8", "surrogateescape")
    try:
        return urljoin(base, quote(raw, safe=_URL_CHARACTERS)).partition("#")[0]
    except ValueError as error:
        raise AddressRefused(f"redirected to what is not a URL: {error}") from error
