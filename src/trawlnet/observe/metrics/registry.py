"""The figures of the registry's web side: who asked what, and what registrations came to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from trawlnet.observe.metrics import catalogue as names
from trawlnet.observe.metrics.crawl import StatusClass
from trawlnet.observe.metrics.families import by_label, family


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
        requests = self.requests.items()
        yield family(
            names.REGISTRY_REQUESTS, {(route, str(word)): n for (route, word), n in requests}
        )
        yield by_label(names.REGISTRATIONS, self.registrations)
        yield by_label(names.REGISTRY_HOSTS, self.hosts)
