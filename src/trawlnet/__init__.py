"""trawlnet crawls whole networks: all of something, politely, durably, killed or not.

The names here are the API, described in docs/reference/api.md: each is imported from its room when
it is first asked for, so that `import trawlnet` imports nothing.
"""

TYPE_CHECKING = False  # As type checkers know it; `typing` itself takes long to import.
if TYPE_CHECKING:
    from typing import Any

    from trawlnet.archive.reader import NoArchive
    from trawlnet.captures.blobs import BlobStore
    from trawlnet.captures.line import CaptureLine
    from trawlnet.captures.records import RecordSink
    from trawlnet.engine.control import Control, Ending
    from trawlnet.engine.crawl import crawl
    from trawlnet.engine.floor import Feed, Limits, Parts
    from trawlnet.engine.gate import Gate
    from trawlnet.engine.outcome import Blame, Outcome, Reason
    from trawlnet.engine.ports import Clock, Counts, Failure, Handler, Page, Sink, Source, Store
    from trawlnet.engine.rules import Manners, RetryPolicy
    from trawlnet.engine.task import Task
    from trawlnet.hinted import UnknownFormat
    from trawlnet.net.agent import user_agent
    from trawlnet.net.client.answer import RequestLimits, Response, outcome_of
    from trawlnet.net.clock import SystemClock
    from trawlnet.net.guard import Guard
    from trawlnet.net.http import Http
    from trawlnet.net.lane import lane_of
    from trawlnet.net.trouble import Trouble
    from trawlnet.queues.open import open_queue
    from trawlnet.queues.queue import Delivery, Queue, QueueOptions, QueueSink
    from trawlnet.reading.archive import (
        Archive,
        ArchivedRecord,
        ArchivedRepo,
        DamagedArchive,
        open_archive,
    )
    from trawlnet.reading.captures import Captures, open_captures
    from trawlnet.reading.tables import query, query_arrow
    from trawlnet.sim.virtual import run_sim
    from trawlnet.storage.errors import SinkError
    from trawlnet.stores.errors import StoreError
    from trawlnet.stores.memory import MemoryStore
    from trawlnet.stores.open import open_store
    from trawlnet.tables.clickhouse.server import ClickHouseServer
    from trawlnet.tables.errors import TablesError

__version__ = "0.1.0"

_ROOMS = {
    "archive.reader": "NoArchive",
    "captures.blobs": "BlobStore",
    "captures.line": "CaptureLine",
    "captures.records": "RecordSink",
    "engine.control": "Control Ending",
    "engine.crawl": "crawl",
    "engine.floor": "Feed Limits Parts",
    "engine.gate": "Gate",
    "engine.outcome": "Blame Outcome Reason",
    "engine.ports": "Clock Counts Failure Handler Page Sink Source Store",
    "engine.rules": "Manners RetryPolicy",
    "engine.task": "Task",
    "hinted": "UnknownFormat",
    "net.agent": "user_agent",
    "net.client.answer": "RequestLimits Response outcome_of",
    "net.clock": "SystemClock",
    "net.guard": "Guard",
    "net.http": "Http",
    "net.lane": "lane_of",
    "net.trouble": "Trouble",
    "queues.open": "open_queue",
    "queues.queue": "Delivery Queue QueueOptions QueueSink",
    "reading.archive": "Archive ArchivedRecord ArchivedRepo DamagedArchive open_archive",
    "reading.captures": "Captures open_captures",
    "reading.tables": "query query_arrow",
    "sim.virtual": "run_sim",
    "storage.errors": "SinkError",
    "stores.errors": "StoreError",
    "stores.memory": "MemoryStore",
    "stores.open": "open_store",
    "tables.clickhouse.server": "ClickHouseServer",
    "tables.errors": "TablesError",
}
_HOMES = {name: f"trawlnet.{room}" for room, names in _ROOMS.items() for name in names.split()}

__all__ = [
    "Archive",
    "ArchivedRecord",
    "ArchivedRepo",
    "Blame",
    "BlobStore",
    "CaptureLine",
    "Captures",
    "ClickHouseServer",
    "Clock",
    "Control",
    "Counts",
    "DamagedArchive",
    "Delivery",
    "Ending",
    "Failure",
    "Feed",
    "Gate",
    "Guard",
    "Handler",
    "Http",
    "Limits",
    "Manners",
    "MemoryStore",
    "NoArchive",
    "Outcome",
    "Page",
    "Parts",
    "Queue",
    "QueueOptions",
    "QueueSink",
    "Reason",
    "RecordSink",
    "RequestLimits",
    "Response",
    "RetryPolicy",
    "Sink",
    "SinkError",
    "Source",
    "Store",
    "StoreError",
    "SystemClock",
    "TablesError",
    "Task",
    "Trouble",
    "UnknownFormat",
    "__version__",
    "crawl",
    "lane_of",
    "open_archive",
    "open_captures",
    "open_queue",
    "open_store",
    "outcome_of",
    "query",
    "query_arrow",
    "run_sim",
    "user_agent",
]


def __getattr__(name: str) -> "Any":
    if name not in _HOMES:
        raise AttributeError(f"module 'trawlnet' has no attribute {name!r}")
    from importlib import import_module

    value = globals()[name] = getattr(import_module(_HOMES[name]), name)
    return value


def __dir__() -> "list[str]":
    return sorted({*globals(), *__all__})
