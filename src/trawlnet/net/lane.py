"""The lane of a URL: whom a request to it has to be polite to."""

from __future__ import annotations

from yarl import URL

_DEFAULT_PORTS = {"http": 80, "https": 443}


def lane_of(url: str) -> str:
    """`host`, or `host:port` where the port is not the scheme's own; lower case.

    Raises ValueError for what is not the URL of a host.
    """
    return lane_of_parsed(URL(url))


def lane_of_parsed(url: URL) -> str:
    # A trailing dot names the same host, so it must not buy a second allowance.
    host = (url.raw_host or "").rstrip(".").lower()
    if not host:
        raise ValueError("the URL names no host")
    if ":" in host:
        host = f"[{host}]"
    port = url.port
    return host if port is None or port == _DEFAULT_PORTS.get(url.scheme) else f"{host}:{port}"
