"""The one spelling of a server's origin, whatever its owner wrote; junk is refused by name."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache

from ada_url import URL, HostType


class OriginRefusal(StrEnum):
    """Why an endpoint is not used: a closed set, fit for counting."""

    NONE = ""
    EMPTY = "empty"
    TOO_LONG = "too_long"
    NOT_A_URL = "not_a_url"
    SCHEME = "scheme"
    HOST = "host"  # Not a name that the DNS could hold.
    ADDRESS = "address"  # A bare IP address: public servers have names.
    PRIVATE = "private_name"
    EXAMPLE = "example"
    TUNNEL = "tunnel"  # Somebody's laptop, long gone.


@dataclass(frozen=True, slots=True)
class ServerOrigin:
    url: str  # `https://pds.example`; empty when refused.
    refused: OriginRefusal = OriginRefusal.NONE


_LONGEST = 2048  # Characters.
_LONGEST_NAME = 253
_REMEMBERED = 1 << 15  # The whole network has some 16,000 servers.
_SCHEME = re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*://")
_NAME = re.compile(
    r"(?:[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?\.)*[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
)
_SCHEMES = ("http:", "https:")
_PRIVATE_ENDINGS = frozenset(
    (
        "arpa",
        "corp",
        "home",
        "internal",
        "intranet",
        "lan",
        "local",
        "localdomain",
        "localhost",
        "test",
    )
)
_EXAMPLE_ENDINGS = frozenset(("example", "invalid"))
_EXAMPLES = re.compile(r"(?:.*\.)?(?:example\.(?:com|org|net)|test\.com)")
_TUNNELS = re.compile(
    r".*\.(?:ngrok(?:-free)?\.(?:io|app|dev)|ngrok\.pizza|trycloudflare\.com|loca\.lt|serveo\.net)"
)


def canonical_origin(text: str, *, allow_private: bool = False) -> ServerOrigin:
    """Scheme added where it is missing, lower case, IDNs in ASCII; the scheme's own port, path,
    query and user are dropped."""
    if len(text) > _LONGEST:  # Not remembered: strangers write these.
        return ServerOrigin("", OriginRefusal.TOO_LONG)
    return _canonical(text.strip(), allow_private)


def canonical_host(text: str) -> str:
    """The host of a URL, or a name, also one that is never contacted; empty when it is neither."""
    if len(text) > _LONGEST:
        return ""
    try:
        url = URL(text.strip() if _SCHEME.match(text.strip()) else f"https://{text.strip()}")
    except ValueError:
        return ""
    host = url.hostname.removesuffix(".")
    if url.host_type is HostType.DEFAULT:
        return host if len(host) <= _LONGEST_NAME and _NAME.fullmatch(host) else ""
    return host.strip("[]")


def names_user(text: str) -> bool:
    """Whether a URL says as whom to come, as in `https://user@host`."""
    try:
        url = URL(text.strip() if _SCHEME.match(text.strip()) else f"https://{text.strip()}")
    except ValueError:
        return False
    return bool(url.username or url.password)


@lru_cache(maxsize=_REMEMBERED)
def _canonical(text: str, allow_private: bool) -> ServerOrigin:
    if not text:
        return ServerOrigin("", OriginRefusal.EMPTY)
    try:
        url = URL(text if _SCHEME.match(text) else f"https://{text}")
    except ValueError:
        return ServerOrigin("", OriginRefusal.NOT_A_URL)
    if url.protocol not in _SCHEMES:
        return ServerOrigin("", OriginRefusal.SCHEME)
    host = url.hostname.removesuffix(".")
    refused = _refusal(host, url.host_type, allow_private)
    if refused or url.port == "0":
        return ServerOrigin("", refused or OriginRefusal.HOST)
    port = f":{url.port}" if url.port else ""
    return ServerOrigin(f"{url.protocol}//{host}{port}")


def _refusal(host: str, kind: HostType, allow_private: bool) -> OriginRefusal:
    if kind is not HostType.DEFAULT:
        return OriginRefusal.NONE if allow_private else OriginRefusal.ADDRESS
    if len(host) > _LONGEST_NAME or not _NAME.fullmatch(host):
        return OriginRefusal.HOST
    ending = host.rpartition(".")[2]
    if ending in _EXAMPLE_ENDINGS or _EXAMPLES.fullmatch(host):
        return OriginRefusal.EXAMPLE
    if _TUNNELS.fullmatch(host):
        return OriginRefusal.TUNNEL
    # A name of one label means something in one network only.
    if not allow_private and (ending == host or ending in _PRIVATE_ENDINGS):
        return OriginRefusal.PRIVATE
    return OriginRefusal.NONE
