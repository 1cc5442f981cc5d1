"""Rate limits of callers: token buckets in bounded memory."""

from __future__ import annotations

from ipaddress import IPv6Address, ip_address

_MOST = 50_000  # Callers in memory.


class Buckets:
    """Token buckets: `size` tokens for each key, refilled evenly within `refill` seconds."""

    def __init__(self, size: int, refill: float, most: int = _MOST) -> None:
        self._gap = refill / size
        self._slack = self._gap * (size - 1)
        self._most = most
        self._full_at: dict[str, float] = {}  # When the bucket is full again.

    def take(self, key: str, now: float) -> float:
        """Take a token; returns 0, or the seconds until there is one."""
        full_at = max(now, self._full_at.get(key, now))
        if (wait := full_at - self._slack - now) > _INSTANT:
            return wait
        if key not in self._full_at and len(self._full_at) >= self._most:
            self._forget(now)
        self._full_at[key] = full_at + self._gap
        return 0.0

    def _forget(self, now: float) -> None:
        """Drop full buckets, which are like new ones; if there is none, the oldest."""
        busy = {key: at for key, at in self._full_at.items() if at > now}
        if len(busy) >= self._most:
            # A quarter at once, so that many callers do not cause a search each time.
            busy = dict(list(busy.items())[self._most // 4 :])
        self._full_at = busy


_INSTANT = 1e-6  # Seconds; Unix time as a float does not tell shorter ones apart.
_SITE_BITS = 64  # Prefix length of an IPv6 address that one customer gets at least.


def neighbourhood(address: str) -> str:
    """The unit of a rate limit: an IPv4 address, or the /64 of an IPv6 one."""
    try:
        ip = ip_address(address)
    except ValueError:
        return ""
    if isinstance(ip, IPv6Address):
        if ip.ipv4_mapped is not None:
            return str(ip.ipv4_mapped)
        return f"{IPv6Address(int(ip) >> _SITE_BITS << _SITE_BITS)}/{_SITE_BITS}"
    return str(ip)
