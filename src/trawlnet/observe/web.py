"""The figures of the web crawler: its frontier, its pages by type, and what became of links."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from trawlnet.observe import metrics as names
from trawlnet.observe.metrics import Metrics

OTHER = "other"  # A type that this config does not know: a spool of another program may name any.
# What may become of a link; the counts of a linker have these names.
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
        self, metrics: Metrics, page_types: Iterable[str], links: Mapping[str, int]
    ) -> None:
        """`links` are the running counts by fate, read when somebody asks."""
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
        """A page of which the server said that it is as it was."""
        self._unchanged += 1

    def collect(self) -> Iterable[Metric]:
        pages = {kind: self._pages[kind] for kind in sorted({*self._types, OTHER})}
        yield _counter(names.WEB_PAGES, "Pages stored, by their type.", "page_type", pages)
        yield CounterMetricFamily(names.WEB_BYTES, "Bytes of pages stored.", value=self._bytes)
        yield CounterMetricFamily(
            names.WEB_UNCHANGED, "Pages that servers said are as they were.", value=self._unchanged
        )
        fates = {fate: self._links.get(fate, 0) for fate in LINK_FATES}
        yield _counter(names.WEB_LINKS, "Links by what became of them.", "fate", fates)
        counts = self._metrics.counts()
        frontier = {"open": counts.open, "scheduled": counts.scheduled, "known": counts.known}
        family = GaugeMetricFamily(names.WEB_FRONTIER, "URLs in the frontier.", labels=["state"])
        for state, figure in frontier.items():
            family.add_metric([state], figure)
        yield family


def _counter(name: str, text: str, label: str, values: Mapping[str, int]) -> Metric:
    family = CounterMetricFamily(name, text, labels=[label])
    for value, figure in values.items():
        family.add_metric([value], figure)
    return family
