"""The state that handlers share: the registration service, rate limits, and cached figures."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Protocol

from trawlnet.crawlers.atproto.serviceauth import ServiceAuth
from trawlnet.crawlers.pds.site.buckets import Buckets
from trawlnet.crawlers.pds.site.page import PageFigures
from trawlnet.crawlers.pds.site.register import Registrar

_FRESH = 5.0  # Seconds for which figures are cached, for any number of readers.


class Meter(Protocol):
    def answered(self, route: str, status: int) -> None: ...

    def registered(self, result: str) -> None: ...


class FigureBoard:
    """The figures of the page, computed when they are read and stale."""

    def __init__(self) -> None:
        self._figures: PageFigures | None = None

    async def read(self, service: Registrar) -> PageFigures:
        now = service.clock.now()
        if self._figures is None or not 0.0 <= now - self._figures.now < _FRESH:
            self._figures = PageFigures(
                await service.books.stats(now), await service.books.largest(), now
            )
        return self._figures

    def wipe(self) -> None:
        """Drop the figures, so that a caller sees the change that they made."""
        self._figures = None


@dataclass(frozen=True, slots=True)
class SiteContext:
    service: Registrar
    auth: ServiceAuth
    callers: Buckets  # Registrations by address.
    visitors: Buckets  # All requests by address.
    meter: Meter
    scrape: Callable[[], Awaitable[bytes]]  # The metrics as text.
    board: FigureBoard = field(default_factory=FigureBoard)
