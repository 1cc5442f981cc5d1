"""The figures of the classic law, read from a Prometheus server that scrapes this crawl."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable
from urllib.parse import urlencode

from trawlnet.crawlers.ids.api.api import parse_json
from trawlnet.crawlers.ids.classic.law import NO_LAG, PeriodReading
from trawlnet.crawlers.metered import Getter
from trawlnet.engine.control import Control
from trawlnet.engine.ports import Clock
from trawlnet.net.client.answer import Response
from trawlnet.observe.metrics import catalogue as names

log = logging.getLogger(__name__)

_READ_EVERY = 15.0  # Seconds: as often as a server usually scrapes.
_LONGEST = 4  # Minutes.
_STEP = 60  # Seconds between two points.
_STATUS = names.IDS_STATUS
_ALL = f"sum(rate({_STATUS}[{{minutes}}m]))"


def queries(minutes: int) -> Mapping[str, str]:
    """One query for each figure; the window is at least one minute."""
    total = _ALL.format(minutes=minutes)
    share = f'sum(rate({_STATUS}{{{{status=~"{{}}"}}}}[{minutes}m])) / {total}'
    return {
        "fraction_404": share.format("3"),
        "error_fraction": share.format("6|7|8|9|10"),
        "pgcr_rate": f'sum(rate({_STATUS}{{status=~"1|2"}}[{minutes}m]))',
        "count_404": f'sum(increase({_STATUS}{{status="3"}}[{minutes}m]))',
        "p20_lag": f"histogram_quantile(0.20, sum(rate({names.IDS_LAG}_bucket[2m])) by (le))",
    }


def weighted(points: Sequence[float], otherwise: float) -> float:
    """The newest point has the largest weight; missing ones are skipped."""
    pairs = [(k + 1, p) for k, p in enumerate(points) if math.isfinite(p)]
    weight = sum(k for k, _ in pairs)
    return sum(k * p for k, p in pairs) / weight if weight else otherwise


def points_of(answer: Any) -> list[float]:
    """The values of the first series of a range query. Raises ValueError."""
    try:
        result = answer["data"]["result"]
        return [float(value) for _, value in result[0]["values"]] if result else []
    except (KeyError, IndexError, TypeError) as error:
        raise ValueError("not the answer of a range query") from error


@runtime_checkable
class ReadingPilot(Protocol):
    """A pilot that can use the figures of a metrics server."""

    def on_reading(self, reading: PeriodReading | None) -> None: ...


@dataclass(slots=True)
class PrometheusReader:
    http: Getter
    url: str
    clock: Clock
    pilot: ReadingPilot
    _failing: bool = False

    async def run(self, control: Control) -> None:
        """A companion of the crawl."""
        begun = self.clock.now()
        while True:
            await self.clock.sleep(_READ_EVERY)
            now = self.clock.now()
            minutes = min(_LONGEST, max(1, int((now - begun) / _STEP)))
            self._tell(await self.read(now, minutes))

    async def read(self, now: float, minutes: int) -> PeriodReading | str:
        """The figures, or why there are none."""
        found: dict[str, list[float]] = {}
        for name, query in queries(minutes).items():
            window = {"start": now - _STEP * minutes, "end": now, "step": _STEP}
            asked = urlencode({"query": query, **window})
            response = await self.http.get(f"{self.url.rstrip('/')}/api/v1/query_range?{asked}")
            if not isinstance(response, Response):
                return f"{response.reason}: {response.detail}"
            try:
                found[name] = points_of(parse_json(response.body))
            except ValueError as error:
                return f"HTTP {response.status}: {error}"
        counts = [point for point in found["count_404"] if math.isfinite(point)]
        return PeriodReading(
            fraction_404=weighted(found["fraction_404"], 0.0),
            p20_lag=weighted(found["p20_lag"], NO_LAG),
            pgcr_rate=weighted(found["pgcr_rate"], 0.0),
            count_404=round(counts[-1]) if counts else 0,
            error_fraction=weighted(found["error_fraction"], 0.0),
        )

    def _tell(self, reading: PeriodReading | str) -> None:
        if isinstance(reading, str):
            if not self._failing:
                log.warning("no figures from Prometheus: using own", extra={"why": reading})
            self._failing = True
            self.pilot.on_reading(None)
            return
        if self._failing:
            log.info("figures come from Prometheus again")
        self._failing = False
        self.pilot.on_reading(reading)
