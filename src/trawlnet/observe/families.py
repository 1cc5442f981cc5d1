"""Figures as the Prometheus library wants them, with kind, labels and text from the catalogue."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, UnknownMetricFamily
from prometheus_client.metrics_core import Metric

from trawlnet.observe.catalogue import LISTED, Kind

Labels = TypeVar("Labels", bound=tuple[str, ...])
Family = type[CounterMetricFamily | GaugeMetricFamily | UnknownMetricFamily]


def family(name: str, values: Mapping[Labels, float]) -> Metric:
    """One sample for each combination of labels."""
    listed = LISTED[name]
    made = _FAMILIES[listed.kind](name, listed.text, labels=listed.labels)
    for labels, figure in values.items():
        made.add_metric(labels, figure)
    return made


_FAMILIES: Mapping[Kind, Family] = {
    Kind.COUNTER: CounterMetricFamily,
    Kind.GAUGE: GaugeMetricFamily,
    Kind.UNKNOWN: UnknownMetricFamily,
}


def by_label(name: str, values: Mapping[str, float]) -> Metric:
    return family(name, {(str(value),): figure for value, figure in values.items()})


def alone(name: str, figure: float) -> Metric:
    """For a series without labels."""
    return family(name, {(): figure})


def histogram(name: str, buckets: Sequence[float], registry: CollectorRegistry) -> Histogram:
    listed = LISTED[name]
    return Histogram(name, listed.text, listed.labels, buckets=buckets, registry=registry)


def counter(name: str, registry: CollectorRegistry) -> Counter:
    listed = LISTED[name]
    return Counter(name, listed.text, listed.labels, registry=registry)
