"""Counts requests: a wrapper around `Http` with the same methods."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from types import MappingProxyType
from typing import Protocol

from trawlnet.net.client.answer import RequestLimits, Response, Stream
from trawlnet.net.http import Http
from trawlnet.net.trouble import Trouble
from trawlnet.observe.metrics.crawl import HttpMeter

_NO_HEADERS: Mapping[str, str] = MappingProxyType({})


class Getter(Protocol):
    """The network as a handler needs it: `Http`, or the wrapper that counts."""

    async def get(
        self,
        url: str,
        *,
        lane: str | None = None,
        headers: Mapping[str, str] = _NO_HEADERS,
        limits: RequestLimits | None = None,
    ) -> Response | Trouble: ...

    def stream(
        self,
        url: str,
        *,
        lane: str | None = None,
        headers: Mapping[str, str] = _NO_HEADERS,
        limits: RequestLimits | None = None,
    ) -> AbstractAsyncContextManager[Stream | Trouble]: ...


class MeteredHttp:
    def __init__(self, http: Http, meter: HttpMeter) -> None:
        self._http = http
        self._meter = meter

    async def get(
        self,
        url: str,
        *,
        lane: str | None = None,
        headers: Mapping[str, str] = _NO_HEADERS,
        limits: RequestLimits | None = None,
    ) -> Response | Trouble:
        async with self.stream(url, lane=lane, headers=headers, limits=limits) as answer:
            return answer if isinstance(answer, Trouble) else await answer.whole()

    def stream(
        self,
        url: str,
        *,
        lane: str | None = None,
        headers: Mapping[str, str] = _NO_HEADERS,
        limits: RequestLimits | None = None,
    ) -> AbstractAsyncContextManager[Stream | Trouble]:
        """Counts after the body, also if reading it failed: those bytes were received, too."""
        return self._http.stream(url, lane=lane, headers=headers, limits=limits, on_end=self._count)

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
