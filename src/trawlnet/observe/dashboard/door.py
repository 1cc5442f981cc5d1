"""Who is let in: which names the server answers to, which token opens it, which form may act."""

from __future__ import annotations

import hmac
import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from urllib.parse import urlsplit

COOKIE = "trawlnet_dashboard"
_BEARER = "bearer "

# Scripts and styles are our own files; nothing from elsewhere, and nobody may frame a button.
SAFE_HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    # Elsewhere nothing is told. Not `no-referrer`: browsers then hide the origin of our own
    # forms, too, and off loopback there would be nothing left to know them by.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


@dataclass(frozen=True, slots=True)
class DoorKeys:
    host: str  # The name or address that the server was told to listen on.
    token: str  # Empty where none is needed.
    secret: bytes  # Of this process: what it signs, another one does not know.

    @property
    def cookie(self) -> str:
        """What a browser keeps instead of the token; the same after a restart."""
        return hmac.new(self.token.encode(), b"session", sha256).hexdigest()

    def stamp(self, crawler: str) -> str:
        """Proves that a form is from a page of ours: other sites cannot read it."""
        return hmac.new(self.secret, b"form " + crawler.encode(), sha256).hexdigest()

    def opens(self, offered: str) -> bool:
        return bool(self.token) and _same(offered, self.token)

    def knows(self, cookie: str, authorization: str) -> bool:
        """Whether a request may pass."""
        if not self.token:
            return True
        if _same(cookie, self.cookie):
            return True
        is_bearer = authorization[: len(_BEARER)].lower() == _BEARER
        return is_bearer and self.opens(authorization[len(_BEARER) :])

    def answers_to(self, host: str) -> bool:
        """A page elsewhere can make its own name lead to this machine; the name gives it away.
        Where a token is asked for that is no use to it: it has no cookie of ours."""
        name = urlsplit(f"//{host}").hostname if _is_plain(host) else None
        if name is None:
            return False
        return bool(self.token) or name in ("localhost", self.host.lower()) or is_loopback(name)

    def is_stamped(self, crawler: str, stamp: str) -> bool:
        return _same(stamp, self.stamp(crawler))


def is_own_page(headers: Mapping[str, str]) -> bool:
    """Whether a form was sent from our own page. All browsers of today say one or the other."""
    site = headers.get("sec-fetch-site")
    if site is not None:
        return site == "same-origin"
    origin = headers.get("origin", "")
    return bool(origin) and urlsplit(origin).netloc.lower() == headers.get("host", "").lower()


def is_loopback(name: str) -> bool:
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return name == "localhost"


def _is_plain(host: str) -> bool:
    return bool(host) and not set(host) & set("/@?#\\ ")


def _same(one: str, other: str) -> bool:
    """In a time that does not tell how much of it was right."""
    return hmac.compare_digest(one.encode("utf-8", "replace"), other.encode())
