"""How fast each PDS may be asked: by the number of its accounts, as far as they are known."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace

from trawlnet.crawlers.repos.accounts.residents import ENOUGH, Residents
from trawlnet.crawlers.repos.config import ReposConfig, manners
from trawlnet.engine.gate import Gate
from trawlnet.engine.ports import Work
from trawlnet.engine.rules import Manners

SMALL = 100  # Accounts; a PDS below this is somebody's own machine.
_LANES_AT_ONCE = 1000
LARGE = ENOUGH  # Accounts; from here on it is infrastructure.


def rate_for(accounts: int, config: ReposConfig) -> float:
    if accounts < SMALL:
        return config.small_pds_rps
    return config.large_pds_rps if accounts >= LARGE else config.default_pds_rps


def unknown(config: ReposConfig) -> Manners:
    """How a PDS is treated that was counted once, and nobody knows how many it had."""
    return replace(manners(config), rate=min(config.small_pds_rps, config.default_pds_rps))


class PdsRates:
    """Tells the gate how many accounts each lane has. What nobody counted makes it slower only."""

    def __init__(self, residents: Residents, gate: Gate, config: ReposConfig) -> None:
        self._residents = residents
        self._gate = gate
        self._config = config
        self._usual = manners(config)
        self._lanes: set[str] = set()

    @classmethod
    async def open(cls, residents: Residents, gate: Gate, config: ReposConfig) -> PdsRates:
        """With what was counted before."""
        rates = cls(residents, gate, config)
        rates.heed(await residents.known())
        return rates

    @property
    def pdses(self) -> int:
        return len(self._lanes)

    async def add(self, found: Mapping[str, Collection[str]]) -> None:
        """DIDs on these lanes; those that are known to be there change nothing."""
        self.heed(await self._residents.add(found))

    async def begin(self, lane: str | None = None) -> None:
        """Count one lane from nothing, or all: they are about to be told again."""
        await self._residents.begin(lane)
        self._lanes = self._lanes - {lane} if lane is not None else set()

    async def doubt(self, store: Work, others: Collection[str]) -> None:
        """Take lanes with work that nobody has counted for small ones: whoever counted them was
        killed before it was written down. `others` are no PDSes."""
        after: str | None = None
        while lanes := await store.lanes(after, _LANES_AT_ONCE):
            after = lanes[-1].lane
            uncounted = {work.lane for work in lanes} - self._lanes - set(others)
            for lane in uncounted:
                self._gate.treat(lane, unknown(self._config))

    def heed(self, accounts: Mapping[str, int]) -> None:
        """So many accounts are on these lanes."""
        for lane, count in accounts.items():
            if count:
                self._lanes.add(lane)
            rate = rate_for(count, self._config)
            if self._gate.manners(lane).rate != rate:
                self._gate.treat(lane, replace(self._usual, rate=rate))
