"""The metrics of the web crawler: its frontier, its pages by type, and its links by fate."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from trawlnet.observe.metrics import catalogue as names
from trawlnet.observe.metrics.crawl import CrawlMetrics
from trawlnet.observe.metrics.families import by_label, one_sample

OTHER = "other"  # A type that this config does not have: another program may write any.
# The fates of a link; the counts of a linker have these names.
LINK_FATES = (
    "links_extracted",
    "already_seen",
    "too_deep",
    "policy_denied",
    "robots_denied",
    "cap_exceeded",
)


class WebMeter(Collector):
    def __init__(
        self, metrics: CrawlMetrics, page_types: Iterable[str], links: Mapping[str, int]
    ) -> None:
        """`links` are the running counts by fate, read at each scrape."""
        self._metrics = metrics
        self._links = links
        self._types = frozenset(page_types)
        self._pages: Counter[str] = Counter()
        self._unchanged = 0
        self._bytes = 0
        metrics.yields |= {"pages": 0, "bytes": 0}
        metrics.registry.register(self)

    def stored(self, page_type: str, size: int) -> None:
        """A page whose body is durable now."""
        self._pages[page_type if page_type in self._types else OTHER] += 1
        self._bytes += size
        self._metrics.sink_bytes += size
        self._metrics.yields["pages"] += 1
        self._metrics.yields["bytes"] += size

    def unchanged(self) -> None:
        """A page that the server reported as not modified."""
        self._unchanged += 1

    def collect(self) -> Iterable[Metric]:
        pages = {kind: self._pages[kind] for kind in sorted({*self._types, OTHER})}
        yield by_label(names.WEB_PAGES, pages)
        yield one_sample(names.WEB_BYTES, self._bytes)
        yield one_sample(names.WEB_UNCHANGED, self._unchanged)
        yield by_label(names.WEB_LINKS, {fate: self._links.get(fate, 0) for fate in LINK_FATES})
        counts = self._metrics.counts()
        frontier = {"open": counts.open, "scheduled": counts.scheduled, "known": counts.known}
        yield by_label(names.WEB_FRONTIER, frontier)
