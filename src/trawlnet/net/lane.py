"""The lane of a URL: its host, or host and port."""

from __future__ import annotations

from functools import lru_cache

from yarl import URL

_DEFAULT_PORTS = {"http": 80, "https": 443}
_REMEMBERED = 4096  # Hosts.


def lane_of(url: str) -> str:
    """`host`, or `host:port` where the port is not the scheme's own; lower case.

    Raises ValueError for what is not the URL of a host.
    """
    return lane_of_parsed(URL(url))


def lane_of_parsed(url: URL) -> str:
    return _lane_at(url.scheme, url.raw_host or "", url.port)


@lru_cache(maxsize=_REMEMBERED)
def _lane_at(scheme: str, host: str, port: int | None) -> str:
    # A trailing dot names the same host, and must not give it a second rate limit.
    host = host.rstrip(".").lower()
    if not host:
        raise ValueError("the URL names no host")
    if ":" in host:
        host = f"[{host}]"
    return host if port is None or port == _DEFAULT_PORTS.get(scheme) else f"{host}:{port}"
