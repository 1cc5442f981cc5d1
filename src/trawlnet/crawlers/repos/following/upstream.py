"""A server whose firehose is read."""

from __future__ import annotations

from dataclasses import dataclass

from trawlnet.crawlers.repos.work import lane_at


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
            return lane_at(pds) == lane_at(self.url)
        except ValueError:
            return False
