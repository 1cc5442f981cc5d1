"""The registry as commands look back at it: counts, failures and retries, without any claim."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from trawlnet.crawlers.pds.figures import counts_from, failures_of
from trawlnet.engine.outcome import Reason
from trawlnet.engine.ports import Clock, Counts, Failure, Ledger
from trawlnet.tables.registry.registry import Registry


@dataclass(frozen=True, slots=True)
class RegistryLedger:
    registry: Registry
    clock: Clock

    async def counts(self) -> Counts:
        return counts_from(await self.registry.stats(self.clock.now()))

    async def failures(self, reason: Reason | None = None) -> AsyncIterator[Failure]:
        async for failure in failures_of(self.registry, reason):
            yield failure

    async def retry(self, reason: Reason | None = None) -> int:
        return await self.registry.retry(reason, self.clock.now())

    async def close(self) -> None:
        await self.registry.close()


if TYPE_CHECKING:
    _LEDGER: type[Ledger] = RegistryLedger
