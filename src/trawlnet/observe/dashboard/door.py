"""Access control: the host names that the server accepts, its token, and signed forms."""

from __future__ import annotations

import hmac
import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from urllib.parse import urlsplit

COOKIE = "trawlnet_dashboard"
_BEARER = "bearer "

# Only our own scripts and styles, and no other site may frame a page with a button.
SAFE_HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; "
    "frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    # No referrer to other sites. Not `no-referrer`: browsers then hide the origin of our own
    # forms, too, which is needed to recognise them outside loopback.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


@dataclass(frozen=True, slots=True)
class DoorKeys:
    host: str  # The name or address that the server listens on.
    token: str  # Empty if none is needed.
    secret: bytes  # The signing key of this process.

    @property
    def cookie(self) -> str:
        """The value that a browser stores instead of the token; the same after a restart."""
        return hmac.new(self.token.encode(), b"session", sha256).hexdigest()

    def stamp(self, crawler: str) -> str:
        """A stamp that proves that a form is from our page: other sites cannot read it."""
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
        """Whether we accept this host name. Another site can point its own name at this machine
        (DNS rebinding); the name reveals that. With a token this is no danger, because such a site
        has no cookie of ours."""
        name = urlsplit(f"//{host}").hostname if _is_plain(host) else None
        if name is None:
            return False
        return bool(self.token) or name in ("localhost", self.host.lower()) or is_loopback(name)

    def is_stamped(self, crawler: str, stamp: str) -> bool:
        return _same(stamp, self.stamp(crawler))


def is_own_page(headers: Mapping[str, str]) -> bool:
    """Whether a form was sent from our own page. Every browser sends one of these headers."""
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
    """Compare in constant time."""
    return hmac.compare_digest(one.encode("utf-8", "replace"), other.encode())
