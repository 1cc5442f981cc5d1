"""Rate limits of a simulated server: the headers always, the refusals when they are switched on."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from aiohttp import web

from trawlnet.sim.atproto.xrpc import XrpcRefusal

WINDOW = 300  # Seconds.
_GET_REPO = "com.atproto.sync.getRepo"
_GET_REPO_LIMIT = 6000
_GLOBAL_LIMIT = 3000


@dataclass(slots=True)
class RateLimits:
    """Two buckets per server, as the reference has them; all of loopback is one client."""

    enforced: bool = False
    _window: int = 0
    _used: Counter[tuple[int, str]] = field(default_factory=Counter)

    def spend(self, host: int, method: str, now: float) -> dict[str, str]:
        """The headers of this request's answer. Raises RateLimited when it is one too many."""
        bucket, limit = ("repo", _GET_REPO_LIMIT) if method == _GET_REPO else ("", _GLOBAL_LIMIT)
        window = int(now) // WINDOW
        if window != self._window:
            self._window = window
            self._used.clear()
        self._used[host, bucket] += 1
        # A limit that is not enforced sends no headers about it.
        left = max(limit - self._used[host, bucket], 0 if self.enforced else 1)
        reset = (window + 1) * WINDOW
        headers = {
            "RateLimit-Limit": str(limit),
            "RateLimit-Remaining": str(left),
            "RateLimit-Reset": str(reset),
            "RateLimit-Policy": f"{limit};w={WINDOW}",
        }
        if self.enforced and self._used[host, bucket] > limit:
            raise RateLimited({**headers, "Retry-After": str(reset - int(now))})
        return headers


class RateLimited(XrpcRefusal):
    def __init__(self, headers: dict[str, str]) -> None:
        super().__init__("RateLimitExceeded", "Rate Limit Exceeded", 429)
        self.headers = headers

    def response(self) -> web.Response:
        response = super().response()
        response.headers.update(self.headers)
        return response
