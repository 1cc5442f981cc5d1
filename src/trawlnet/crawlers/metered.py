"""Counts requests: a wrapper around `Http` with the same methods."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from typing import Protocol, TypedDict, Unpack

from trawlnet.net.client.answer import RequestLimits, Response, Stream
from trawlnet.net.http import Http
from trawlnet.net.trouble import Trouble
from trawlnet.observe.metrics.crawl import HttpMeter


class RequestOptions(TypedDict, total=False):
    """The options of `Http.get` and `Http.stream`."""

    lane: str | None
    headers: Mapping[str, str]
    limits: RequestLimits | None


class Getter(Protocol):
    """The network as a handler needs it: `Http`, or the wrapper that counts."""

    async def get(self, url: str, **options: Unpack[RequestOptions]) -> Response | Trouble: ...

    def stream(
        self, url: str, **options: Unpack[RequestOptions]
    ) -> AbstractAsyncContextManager[Stream | Trouble]: ...


class MeteredHttp:
    def __init__(self, http: Http, meter: HttpMeter) -> None:
        self._http = http
        self._meter = meter

    async def get(self, url: str, **options: Unpack[RequestOptions]) -> Response | Trouble:
        async with self.stream(url, **options) as answer:
            return answer if isinstance(answer, Trouble) else await answer.whole()

    def stream(
        self, url: str, **options: Unpack[RequestOptions]
    ) -> AbstractAsyncContextManager[Stream | Trouble]:
        """Counts after the body, also if reading it failed: those bytes were received, too."""
        return self._http.stream(url, on_end=self._count, **options)

    def _count(self, answer: Stream | Trouble) -> None:
        if isinstance(answer, Trouble):
            self._meter.request_ended(None, 0, 0)
            return
        for _ in answer.hops:
            self._meter.request_ended(_REDIRECT, 0, 0)
        self._meter.request_ended(
            answer.status, answer.wire_bytes, answer.inflated_bytes, answer.elapsed
        )


_REDIRECT = 302  # Only its class is counted.
