"""How often one caller may come: buckets that refill with time, in bounded memory."""

from __future__ import annotations

from ipaddress import IPv6Address, ip_address

_MOST = 50_000  # Callers that are remembered.


class Buckets:
    """`size` takes at once, refilled evenly within `refill` seconds, for each key."""

    def __init__(self, size: int, refill: float, most: int = _MOST) -> None:
        self._gap = refill / size
        self._slack = self._gap * (size - 1)
        self._most = most
        self._full_at: dict[str, float] = {}  # When the bucket would be full again.

    def take(self, key: str, now: float) -> float:
        """0 when there was something to take, else the seconds until there is."""
        full_at = max(now, self._full_at.get(key, now))
        if (wait := full_at - self._slack - now) > _INSTANT:
            return wait
        if key not in self._full_at and len(self._full_at) >= self._most:
            self._forget(now)
        self._full_at[key] = full_at + self._gap
        return 0.0

    def _forget(self, now: float) -> None:
        """Full buckets are as good as new; if none is, the one that came first goes."""
        kept = {key: at for key, at in self._full_at.items() if at > now}
        if len(kept) >= self._most:
            # A quarter at once: a crowd must not make us look through them all each time.
            kept = dict(list(kept.items())[self._most // 4 :])
        self._full_at = kept


_INSTANT = 1e-6  # Seconds; Unix time as a float does not tell shorter ones apart.
_SITE_BITS = 64  # Of an IPv6 address: what one customer is given, at the least.


def neighbourhood(address: str) -> str:
    """Whoever has one address of it has them all: an IPv4 address, or the /64 of an IPv6 one."""
    try:
        ip = ip_address(address)
    except ValueError:
        return ""
    if isinstance(ip, IPv6Address):
        if ip.ipv4_mapped is not None:
            return str(ip.ipv4_mapped)
        return f"{IPv6Address(int(ip) >> _SITE_BITS << _SITE_BITS)}/{_SITE_BITS}"
    return str(ip)
