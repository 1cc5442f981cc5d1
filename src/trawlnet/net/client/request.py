"""A request as it is written on the wire, and the place it goes to."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from trawlnet.net.client.dial import Endpoint
from trawlnet.net.client.inflate import ACCEPTED
from trawlnet.net.client.pool import proxy_authorization
from trawlnet.net.guard import UrlOrigin
from trawlnet.net.redirect import Leg

_REMEMBERED = 4096  # Hosts.
_FEW = 64  # Sets of headers: most requests of a crawl send the same.


class Requests:
    """Every one says the same about us; a leg's own headers take the place of ours."""

    def __init__(self, agent: str) -> None:
        self._ours = {"User-Agent": agent, "Accept": "*/*", "Accept-Encoding": ACCEPTED}
        self._usual = _lines(self._ours)
        self._with = lru_cache(maxsize=_FEW)(self._merged)

    def of(self, leg: Leg, proxy: str | None) -> tuple[Endpoint, bytes]:
        place = _place(leg.origin, proxy or "")
        target, authority = leg.target, leg.origin.authority
        lines = self._usual
        if leg.headers:
            lines = self._with(tuple(leg.headers.items()))
        if place.proxy and not place.is_tls:
            target = f"http://{authority}{target}"
            lines += proxy_authorization(place.proxy)
        return place, f"GET {target} HTTP/1.1\r\nHost: {authority}\r\n{lines}\r\n".encode()

    def _merged(self, headers: tuple[tuple[str, str], ...]) -> str:
        # Without what cannot be written: a validator may be a remote's own odd bytes.
        theirs = {name: text for name, text in headers if text.isprintable()}
        given = {name.lower() for name in theirs}
        kept = {name: text for name, text in self._ours.items() if name.lower() not in given}
        return _lines({**kept, **theirs})


def _lines(headers: Mapping[str, str]) -> str:
    return "".join(f"{name}: {text}\r\n" for name, text in headers.items())


@lru_cache(maxsize=_REMEMBERED)
def _place(origin: UrlOrigin, proxy: str) -> Endpoint:
    return Endpoint(origin.host, origin.port, origin.scheme == "https", proxy)
