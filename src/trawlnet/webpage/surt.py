"""URLs as sort keys: the host reversed, so that one site's pages lie together in an index."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

_DEFAULT_PORTS = {"http": 80, "https": 443}
_IPV4 = re.compile(r"\d{1,3}(?:\.\d{1,3}){3}")
_WWW = re.compile(r"www\d*\.")
_UNSAFE = re.compile(r"[\x00-\x20\x7f]")


def surt(url: str) -> str:
    """`https://www.Example.com/A?b&a` becomes `com,example)/a?a&b`; what is no URL stays as it is.

    Scheme, `www.`, default port, user and fragment do not count; parameters are sorted; all is in
    lower case. Addresses are not reversed. Never contains white space.
    """
    try:
        parts = urlsplit(url)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        return escape(url.lower())
    if not host:
        return escape(url.lower())
    key = _reverse(_WWW.sub("", host, count=1))
    if port not in (None, _DEFAULT_PORTS.get(parts.scheme)):
        key += f":{port}"
    key += ")" + (parts.path or "/")
    if parts.query:
        key += "?" + "&".join(sorted(parts.query.lower().split("&")))
    return escape(key.lower())


def escape(text: str) -> str:
    """Control characters and spaces percent-encoded: they would end a field or a header."""
    return _UNSAFE.sub(lambda found: f"%{ord(found[0]):02X}", text)


def _reverse(host: str) -> str:
    if ":" in host or _IPV4.fullmatch(host):
        return host
    return ",".join(reversed(host.rstrip(".").split(".")))
