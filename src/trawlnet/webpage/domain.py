"""The domain that somebody registered: the part of a host's name that costs money to change."""

from __future__ import annotations

from functools import cache, lru_cache
from ipaddress import ip_address

from publicsuffixlist import PublicSuffixList

_REMEMBERED = 1 << 14


@lru_cache(maxsize=_REMEMBERED)
def registrable_domain(host: str) -> str:
    """Lower-case ASCII in. Empty for an address, a name of one label, and a public suffix."""
    if is_address(host):
        return ""
    return _suffixes().privatesuffix(host.rstrip(".")) or ""


def is_address(host: str) -> bool:
    """With or without the brackets of a URL."""
    try:
        ip_address(host.strip("[]"))
    except ValueError:
        return False
    return True


@cache
def _suffixes() -> PublicSuffixList:
    # Read on first use: most commands never ask.
    return PublicSuffixList()
