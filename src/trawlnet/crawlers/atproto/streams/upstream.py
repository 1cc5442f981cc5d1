"""A server whose firehose is read."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from trawlnet.net.lane import lane_of


@dataclass(frozen=True, slots=True)
class Upstream:
    url: str  # Without a path.
    is_pds: bool  # It speaks for its own accounts only; a relay speaks for all.

    @property
    def host(self) -> str:
        return self.url.partition("://")[2]

    def is_home_of(self, pds: str) -> bool:
        """Whether an account with this PDS lives here."""
        try:
            return _lane_at(pds) == _lane_at(self.url)
        except ValueError:
            return False


# Every frame of a PDS asks for two of these.
_lane_at = lru_cache(maxsize=65_536)(lane_of)
