"""The figures of the registry's web side: who asked what, and what registrations came to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from trawlnet.observe.metrics import (
    REGISTRATIONS,
    REGISTRY_HOSTS,
    REGISTRY_REQUESTS,
    StatusClass,
)


class RegistryMeter(Collector):
    """Read when somebody asks; routes and results are closed sets of ours."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.requests: Counter[tuple[str, StatusClass]] = Counter()
        self.registrations: Counter[str] = Counter()
        self.hosts: Mapping[str, int] = {}  # By status, as of the last look.
        self._registry = registry
        registry.register(self)

    def answered(self, route: str, status: int) -> None:
        self.requests[route, StatusClass.of(status)] += 1

    def registered(self, result: str) -> None:
        self.registrations[result] += 1

    def text(self) -> bytes:
        return generate_latest(self._registry)

    def collect(self) -> Iterable[Metric]:
        requests = CounterMetricFamily(
            REGISTRY_REQUESTS,
            "Requests by route and class of their status.",
            labels=["route", "status_class"],
        )
        for (route, status_class), count in self.requests.items():
            requests.add_metric([route, status_class], count)
        yield requests
        registrations = CounterMetricFamily(
            REGISTRATIONS, "Registrations by what they came to.", labels=["result"]
        )
        for result, count in self.registrations.items():
            registrations.add_metric([result], count)
        yield registrations
        hosts = GaugeMetricFamily(REGISTRY_HOSTS, "PDSes in the registry.", labels=["status"])
        for status, count in self.hosts.items():
            hosts.add_metric([status], count)
        yield hosts
