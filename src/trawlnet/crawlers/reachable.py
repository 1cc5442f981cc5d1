"""Servers that the user names: whether we may ask them is said before the first request."""

from __future__ import annotations

from trawlnet.crawlers.errors import NotReady
from trawlnet.net.guard import AddressRefused, Guard
from trawlnet.net.redact import redact
from trawlnet.webpage.origin import OriginRefusal, canonical_origin, names_user

PRIVATE_HINT = "for a server on this machine or in a private network add --allow-private-hosts"


def check_reachable(url: str, *, allow_private: bool) -> None:
    """Raises NotReady for what no request would leave for, as far as its name tells."""
    if names_user(url):
        raise NotReady(
            f"{redact(url)} is refused: the URL has a user name or a password",
            "write it without: https://HOST",
        )
    refused = canonical_origin(url, allow_private=allow_private).refused
    try:
        if refused in (OriginRefusal.PRIVATE, OriginRefusal.ADDRESS):
            raise AddressRefused(refused.replace("_", " "))
        Guard(allow_private=allow_private).destination(f"{url}/")
    except AddressRefused as why:
        raise NotReady(f"{url} is refused: {why}", PRIVATE_HINT) from why
