"""The figures of `repos serve`: who is connected, what was sent, and why connections ended."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from enum import StrEnum

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from trawlnet.observe.metrics import catalogue as names
from trawlnet.observe.metrics.families import by_label, one_sample

METRICS_TYPE = CONTENT_TYPE_LATEST


class EventSource(StrEnum):
    ARCHIVE = "archive"
    LOG = "log"


class Gone(StrEnum):
    """Why a connection ended, or never began."""

    LEFT = "left"  # The client closed it, or its network did.
    SLOW = "slow"  # It read nothing for too long.
    BEHIND = "behind"  # The log no longer had what comes next.
    REFUSED = "refused"  # It asked for what nobody can give, or too often.
    BUSY = "busy"  # There were too many clients.


class EventMeter(Collector):
    def __init__(self) -> None:
        self.clients = 0
        self._sent: Counter[str] = Counter({str(source): 0 for source in EventSource})
        self._gone: Counter[str] = Counter({str(why): 0 for why in Gone})
        self._registry = CollectorRegistry()
        self._registry.register(self)

    def sent(self, source: EventSource, count: int) -> None:
        self._sent[str(source)] += count

    def gone(self, why: Gone) -> None:
        self._gone[str(why)] += 1

    def text(self) -> bytes:
        return generate_latest(self._registry)

    def collect(self) -> Iterable[Metric]:
        yield one_sample(names.EVENT_CLIENTS, self.clients)
        yield by_label(names.EVENTS_SENT, self._sent)
        yield by_label(names.EVENT_CLIENTS_GONE, self._gone)
