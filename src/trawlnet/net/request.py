"""A request as it is written on the wire, and the place it goes to."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from yarl import URL

from trawlnet.net.connection import Place
from trawlnet.net.inflate import ACCEPTED
from trawlnet.net.pool import proxy_authorization
from trawlnet.net.redirect import Leg

_REMEMBERED = 4096  # Hosts.
_FEW = 64  # Sets of headers: most requests of a crawl send the same.


class Requests:
    """Every one says the same about us; a leg's own headers take the place of ours."""

    def __init__(self, agent: str) -> None:
        self._ours = {"User-Agent": agent, "Accept": "*/*", "Accept-Encoding": ACCEPTED}
        self._usual = _lines(self._ours)
        self._with = lru_cache(maxsize=_FEW)(self._merged)

    def of(self, leg: Leg, proxy: str | None) -> tuple[Place, bytes]:
        url = leg.url
        place, authority = _place(url.scheme, url.raw_authority, proxy or "")
        target = url.raw_path_qs
        lines = self._usual
        if leg.headers:
            lines = self._with(tuple(leg.headers.items()))
        if place.proxy and not place.is_tls:
            target = f"http://{authority}{target}"
            lines += proxy_authorization(place.proxy)
        return place, f"GET {target} HTTP/1.1\r\nHost: {authority}\r\n{lines}\r\n".encode()

    def _merged(self, headers: tuple[tuple[str, str], ...]) -> str:
        given = {name.lower() for name, _ in headers}
        kept = {name: text for name, text in self._ours.items() if name.lower() not in given}
        return _lines({**kept, **dict(headers)})


def _lines(headers: Mapping[str, str]) -> str:
    return "".join(f"{name}: {text}\r\n" for name, text in headers.items())


@lru_cache(maxsize=_REMEMBERED)
def _place(scheme: str, authority: str, proxy: str) -> tuple[Place, str]:
    url = URL(f"{scheme}://{authority}/", encoded=True)
    place = Place(url.raw_host or "", url.port or 0, scheme == "https", proxy)
    return place, url.host_port_subcomponent or ""
