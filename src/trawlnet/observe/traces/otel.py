"""Sends traces of tasks as OpenTelemetry spans over OTLP/HTTP, by a thread of the library."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.sampling import ALWAYS_ON
from opentelemetry.trace import Span, Status, StatusCode, Tracer, set_span_in_context

from trawlnet.engine.outcome import Reason
from trawlnet.observe.traces.wrappers import AttemptTrace, TraceStep

log = logging.getLogger(__name__)

_QUEUE = 8192  # Spans that wait to be sent; further ones are dropped.
_SEND_WITHIN = 5.0  # Seconds for one request to the collector.
_LAST_WITHIN = 5.0  # Seconds at the end to send the rest.
_SEND_EVERY_MS = 1000
_TEXT_CHARS = 300
_NS = 1_000_000_000


@contextmanager
def exporting(crawler: str, service: str) -> Iterator[Callable[[AttemptTrace], None]]:
    """The library reads the address and the headers from its OTEL_ variables."""
    provider = TracerProvider(
        sampler=ALWAYS_ON,  # `Choice` has sampled already.
        resource=Resource.create({"service.name": service, "trawlnet.crawler": crawler}),
        shutdown_on_exit=False,
    )
    processor = BatchSpanProcessor(
        _LoggedOnce(OTLPSpanExporter(timeout=_SEND_WITHIN)),
        max_queue_size=_QUEUE,
        schedule_delay_millis=_SEND_EVERY_MS,
    )
    provider.add_span_processor(processor)
    tracer = provider.get_tracer("trawlnet")
    library = logging.getLogger("opentelemetry")
    level = library.level
    library.setLevel(logging.CRITICAL)  # It logs every failure at length.
    try:
        yield lambda walked: _send(tracer, walked)
    finally:
        # In a daemon thread, because a hanging collector must not delay the exit.
        ending = threading.Thread(target=provider.shutdown, name="traces-end", daemon=True)
        ending.start()
        ending.join(_LAST_WITHIN)
        library.setLevel(level)


class _LoggedOnce(SpanExporter):
    """Logs once that the collector does not answer; its traces are lost."""

    def __init__(self, exporter: SpanExporter) -> None:
        self._exporter = exporter
        self._away = False

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        result = self._exporter.export(spans)
        away = result is not SpanExportResult.SUCCESS
        if away and not self._away:
            log.warning("traces not sent", extra={"spans": len(spans)})
        elif self._away and not away:
            log.info("traces are sent again")
        self._away = away
        return result

    def shutdown(self) -> None:
        self._exporter.shutdown()


def _send(tracer: Tracer, walked: AttemptTrace) -> None:
    task, steps = walked.task, walked.steps
    root = tracer.start_span("task", start_time=_ns(steps[0].begun))
    root.set_attributes(
        {
            "trawlnet.key": _text(task.key),
            "trawlnet.lane": _text(task.lane),
            "trawlnet.attempt": task.attempt,
            "trawlnet.reason": walked.reason,
        }
    )
    if not Reason(walked.reason).answer:
        root.set_status(Status(StatusCode.ERROR, _text(f"{walked.reason} {walked.detail}")))
    if walked.left_out:
        root.set_attribute("trawlnet.steps_left_out", walked.left_out)
    handle = next((step for step in steps if step.name == "handle"), None)
    within = root if handle is None else _child(tracer, root, handle)
    for step in steps:
        if step is not handle:
            parent = within if step.name in _OF_THE_HANDLER else root
            _child(tracer, parent, step).end(_ns(step.ended))
    if handle is not None:
        within.end(_ns(handle.ended))
    root.end(_ns(steps[-1].ended))


_OF_THE_HANDLER = ("gate", "fetch", "parse")


def _child(tracer: Tracer, parent: Span, step: TraceStep) -> Span:
    context = set_span_in_context(parent)
    span = tracer.start_span(step.name, context, start_time=_ns(step.begun))
    if step.lane:
        span.set_attribute("trawlnet.lane", _text(step.lane))
    return span


def _ns(seconds: float) -> int:
    return int(seconds * _NS)


def _text(remote: str) -> str:
    """Replace lone surrogates, which are valid in Python and invalid in UTF-8."""
    return remote[:_TEXT_CHARS].encode("utf-8", "replace").decode("utf-8")
