"""Traces: on when OTEL_EXPORTER_OTLP_ENDPOINT is set, else off and not even imported."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec

from trawlnet.cli.common.errors import UsageTrouble
from trawlnet.cli.common.output import say
from trawlnet.engine.ports import Clock
from trawlnet.loading import load
from trawlnet.observe.traces.wrappers import Choice, Ways

_ENDPOINTS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
_RATIO = "OTEL_TRACES_SAMPLER_ARG"


@contextmanager
def tracing(crawler: str, clock: Clock) -> Iterator[Ways | None]:
    """Yields None when no collector is configured."""
    environ = os.environ
    if not any(map(environ.get, _ENDPOINTS)) or environ.get("OTEL_SDK_DISABLED") == "true":
        yield None
        return
    ratio = _ratio(environ)
    if find_spec("opentelemetry") is None or find_spec("opentelemetry.sdk") is None:
        # The variable may be meant for other programs of this machine.
        say("traces are off: opentelemetry is not installed; pip install 'trawlnet[otel]'")
        yield None
        return
    exporting = load("trawlnet.observe.traces.otel:exporting")
    with exporting(crawler, environ.get("OTEL_SERVICE_NAME") or "trawlnet") as send:
        yield Ways(clock, send, Choice(ratio))


def _ratio(environ: Mapping[str, str]) -> float:
    text = environ.get(_RATIO) or "1"
    try:
        ratio = float(text)
    except ValueError:
        ratio = -1.0
    if not 0.0 <= ratio <= 1.0:
        raise UsageTrouble(f"{_RATIO}: {text} is not a share of tasks", "a number from 0 to 1")
    return ratio
