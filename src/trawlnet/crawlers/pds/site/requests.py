"""Reads requests: bounded bodies, validated query parameters, and the caller's address."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeVar
from urllib.parse import urlsplit

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request

from trawlnet.crawlers.pds.site.buckets import neighbourhood
from trawlnet.tables.registry.browse import Sort
from trawlnet.tables.registry.rules import PdsSource, PdsStatus

_MOST_BODY = 8 << 10  # Bytes; a URL and a few words around it.
_BODY_SECONDS = 10.0
_MOST_ROWS = 1000
_USUAL_ROWS = 100
_MOST_PAGES = 100_000
_LONGEST_NAME = 253  # Characters of a host's name, or of a part of it.
_LONGEST_URL = 2048
_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")


E = TypeVar("E", bound=StrEnum)


@dataclass(frozen=True, slots=True)
class RegistryFilter:
    """A filter of registry rows."""

    contains: str = ""
    status: PdsStatus | None = None
    source: PdsSource | None = None
    after: str = ""
    limit: int = _USUAL_ROWS
    sort: Sort | None = None
    page: int = 1


def address_of(request: Request) -> str:
    """The address that rate limits count by; behind a trusted proxy, the client's."""
    return neighbourhood(request.client.host) if request.client is not None else ""


async def body_of(request: Request, media_type: str) -> bytes:
    """The whole body. Raises HTTPException: another type, too large, too slow, cut off."""
    said = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if said != media_type:
        raise HTTPException(415, f"The body must be {media_type}.")
    if request.headers.get("content-encoding", "identity").lower() != "identity":
        raise HTTPException(415, "The body must not be compressed.")
    announced = request.headers.get("content-length", "")
    if announced.isdecimal() and int(announced[:20]) > _MOST_BODY:
        raise _too_large()
    try:
        async with asyncio.timeout(_BODY_SECONDS):
            return await _read(request)
    except TimeoutError:
        raise HTTPException(408, "The body did not come in time.") from None
    except ClientDisconnect:
        raise HTTPException(400, "The body was cut off.") from None


async def _read(request: Request) -> bytes:
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > _MOST_BODY:
            raise _too_large()
    return body


def _too_large() -> HTTPException:
    # The rest is not read, so the connection cannot be used again.
    return HTTPException(413, f"More than {_MOST_BODY} bytes.", {"Connection": "close"})


def filter_of(request: Request) -> RegistryFilter:
    """Raises HTTPException for invalid parameters."""
    query = request.query_params
    return RegistryFilter(
        contains=_text(query.get("q", ""), "q", _LONGEST_NAME).strip(),
        status=_one_of(PdsStatus, query.get("status", ""), "status"),
        source=_one_of(PdsSource, query.get("source", ""), "source"),
        after=_text(query.get("after", ""), "after", _LONGEST_URL),
        limit=_count(query.get("limit", str(_USUAL_ROWS)), "limit", _MOST_ROWS),
        sort=_one_of(Sort, query.get("sort", ""), "sort"),
        page=_count(query.get("page", "1"), "page", _MOST_PAGES),
    )


def _text(value: str, name: str, longest: int) -> str:
    if len(value) > longest or _UNPRINTABLE.search(value):
        raise HTTPException(400, f"{name} must be printable text of up to {longest} characters.")
    return value


def _one_of(kind: type[E], value: str, name: str) -> E | None:
    if not value:
        return None
    try:
        return kind(value)
    except ValueError:
        raise HTTPException(400, f"{name} must be one of {', '.join(kind)}.") from None


def _count(value: str, name: str, most: int) -> int:
    if not re.fullmatch(r"[0-9]{1,6}", value) or not 1 <= int(value) <= most:
        raise HTTPException(400, f"{name} must be a number from 1 to {most}.")
    return int(value)


def is_same_origin(request: Request) -> bool:
    """Whether a form was sent from our own page. Browsers send the origin of a POST; other programs
    should use the endpoint."""
    site = request.headers.get("sec-fetch-site")
    if site is not None:
        return site == "same-origin"
    origin = request.headers.get("origin", "")
    return bool(origin) and urlsplit(origin).netloc.lower() == _host(request)


def _host(request: Request) -> str:
    return request.headers.get("host", "").lower()
