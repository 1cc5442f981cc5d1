"""Builds the objects of the Prometheus library, with kind, labels and help from the catalogue."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from typing import TypeVar

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    UnknownMetricFamily,
)
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from trawlnet.observe.metrics.catalogue import LISTED, SeriesKind

Labels = TypeVar("Labels", bound=tuple[str, ...])
Family = type[CounterMetricFamily | GaugeMetricFamily | UnknownMetricFamily]


def family(name: str, values: Mapping[Labels, float]) -> Metric:
    """One sample for each combination of labels."""
    listed = LISTED[name]
    made = _FAMILIES[listed.kind](name, listed.text, labels=listed.labels)
    for labels, figure in values.items():
        made.add_metric(labels, figure)
    return made


_FAMILIES: Mapping[SeriesKind, Family] = {
    SeriesKind.COUNTER: CounterMetricFamily,
    SeriesKind.GAUGE: GaugeMetricFamily,
    SeriesKind.UNKNOWN: UnknownMetricFamily,
}


def by_label(name: str, values: Mapping[str, float]) -> Metric:
    return family(name, {(str(value),): figure for value, figure in values.items()})


def one_sample(name: str, figure: float) -> Metric:
    """For a series without labels."""
    return family(name, {(): figure})


def histogram(name: str, buckets: Sequence[float], registry: CollectorRegistry) -> Histogram:
    listed = LISTED[name]
    return Histogram(name, listed.text, listed.labels, buckets=buckets, registry=registry)


class LocalHistogram(Collector):
    """A histogram with one set of labels for one thread, at a tenth of the cost of the library's,
    which has locks."""

    def __init__(self, name: str, labels: Sequence[str], buckets: Sequence[float]) -> None:
        self._name = name
        self._labels = labels
        self._bounds = list(buckets)
        self._counts = [0] * (len(self._bounds) + 1)  # The last is for larger values.
        self._sum = 0.0

    def observe(self, figure: float) -> None:
        self._counts[bisect_left(self._bounds, figure)] += 1
        self._sum += figure

    def collect(self) -> Iterable[Metric]:
        listed = LISTED[self._name]
        made = HistogramMetricFamily(self._name, listed.text, labels=listed.labels)
        bounds = [*map(floatToGoString, self._bounds), "+Inf"]
        counts = zip(bounds, accumulate(self._counts), strict=True)
        made.add_metric(self._labels, list(counts), self._sum)
        yield made


def tally(name: str, buckets: Sequence[float], registry: CollectorRegistry) -> LocalHistogram:
    made = LocalHistogram(name, (), buckets)
    registry.register(made)
    return made


def counter(name: str, registry: CollectorRegistry) -> Counter:
    listed = LISTED[name]
    return Counter(name, listed.text, listed.labels, registry=registry)
