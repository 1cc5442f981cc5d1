"""A budget that changes while a crawl runs: who asks is told what the gate has been told."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from trawlnet.crawlers.ids.config import budget_of
from trawlnet.crawlers.ids.ledger.askers import Askers
from trawlnet.engine.control import Control
from trawlnet.engine.gate import Gate
from trawlnet.engine.ports import Clock

_LOOK_EVERY = 1.0  # Seconds; the gate holds to a smaller budget meanwhile.


def heeding(
    gate: Gate, lane: str, askers: Askers, clock: Clock
) -> Callable[[Control], Coroutine[Any, Any, None]]:
    """Runs beside the crawl. The gate alone would do for less; for more, the pilot must know."""

    async def heed(control: Control) -> None:
        manners = gate.manners(lane)
        while True:
            await clock.sleep(_LOOK_EVERY)
            if gate.manners(lane) != manners:
                manners = gate.manners(lane)
                askers.allow(clock.now(), budget_of(manners))
                control.wake(lane)

    return heed
