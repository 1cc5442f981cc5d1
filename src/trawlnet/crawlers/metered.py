"""Requests that are counted: a wrapper around `Http` with the same way to ask."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from types import MappingProxyType, TracebackType
from typing import Protocol

from trawlnet.net.answer import Limits, Response, Stream
from trawlnet.net.http import Http
from trawlnet.net.trouble import Trouble
from trawlnet.observe.metrics import HttpMeter

_NO_HEADERS: Mapping[str, str] = MappingProxyType({})


class Getter(Protocol):
    """What a handler needs of the network: `Http`, or one that also counts."""

    async def get(
        self,
        url: str,
        *,
        lane: str | None = None,
        headers: Mapping[str, str] = _NO_HEADERS,
        limits: Limits | None = None,
    ) -> Response | Trouble: ...

    def stream(
        self,
        url: str,
        *,
        lane: str | None = None,
        headers: Mapping[str, str] = _NO_HEADERS,
        limits: Limits | None = None,
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
        limits: Limits | None = None,
    ) -> Response | Trouble:
        async with self.stream(url, lane=lane, headers=headers, limits=limits) as answer:
            return answer if isinstance(answer, Trouble) else await answer.whole()

    def stream(
        self,
        url: str,
        *,
        lane: str | None = None,
        headers: Mapping[str, str] = _NO_HEADERS,
        limits: Limits | None = None,
    ) -> AbstractAsyncContextManager[Stream | Trouble]:
        asked = self._http.stream(url, lane=lane, headers=headers, limits=limits)
        return _Counted(asked, self._meter)


class _Counted:
    """One answer, counted after its body, also when reading it failed: those bytes came, too."""

    __slots__ = ("_answer", "_asked", "_meter")
    _answer: Stream | Trouble

    def __init__(
        self, asked: AbstractAsyncContextManager[Stream | Trouble], meter: HttpMeter
    ) -> None:
        self._asked = asked
        self._meter = meter

    async def __aenter__(self) -> Stream | Trouble:
        self._answer = await self._asked.__aenter__()
        return self._answer

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool | None:
        self._count(self._answer)
        return await self._asked.__aexit__(kind, error, trace)

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
