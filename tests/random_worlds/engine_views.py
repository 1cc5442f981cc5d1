"""What people are shown of a crawl, held against what has happened."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from tests.random_worlds.engine_law import Fates, by_word
from trawlnet.cli.crawl.status import status_row
from trawlnet.engine.control import Control
from trawlnet.engine.crawl import Parts
from trawlnet.observe.metrics.crawl import CrawlMetrics
from trawlnet.observe.progress import ProgressMeter
from trawlnet.observe.terminal.render import as_object


class Views:
    """`status`, the terminal and the dashboard, the metrics."""

    def __init__(self, parts: Parts, control: Control) -> None:
        self._parts = parts
        self._progress = ProgressMeter("toy", parts, control)
        self._scrape = CrawlMetrics("toy", parts.clock).watch(parts, control)

    async def agree(self, fates: Fates) -> None:
        await self._status(fates)
        await self._live(fates)
        await self._metrics(fates)

    async def _status(self, fates: Fates) -> None:
        row = status_row("toy", await self._parts.store.counts())
        assert row["attempts"] == {str(word): n for word, n in fates.attempts.items() if n}
        assert row["settled"] == {str(word): n for word, n in by_word(fates).items()}
        assert row["known"] == _pending(fates) + sum(by_word(fates).values())
        assert row["known"] == row["open"] + row["scheduled"] + sum(row["settled"].values())
        assert row["leased"] + row["waiting"] <= row["open"] and row["blocked"] <= row["open"]

    async def _live(self, fates: Fates) -> None:
        shown = as_object(await self._progress.snapshot())
        assert shown["known"] == shown["done"] + shown["open"]  # type: ignore[operator]
        assert shown["known"] == _pending(fates) + sum(by_word(fates).values())
        assert sum(shown["errors"].values()) <= shown["attempts"]  # type: ignore[attr-defined, operator]

    async def _metrics(self, fates: Fates) -> None:
        text = (await self._scrape.text()).decode()
        sums: dict[str, float] = {}
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                sums[sample.name] = sums.get(sample.name, 0.0) + sample.value
        assert sums["trawlnet_attempts_total"] == sum(self._scrape.control.figures.tally.values())
        open_ = sum(one.word is None and not one.scheduled for one in fates.keys.values())
        assert sums["trawlnet_open_tasks"] >= open_  # A leased revisit is open, too.


def _pending(fates: Fates) -> int:
    return sum(one.word is None for one in fates.keys.values())
