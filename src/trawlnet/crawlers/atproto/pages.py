"""Pages of what a server lists: rows and a cursor, with suspicion of those that lead nowhere."""

from __future__ import annotations

import re
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from trawlnet.webpage.domain import is_address

PAGE_BYTES = 4 << 20  # A full page takes a tenth of this.
_CURSOR_CHARS = 2000
_PAGES = 50_000  # The largest PDS known lists 22 million accounts, 1000 to a page.
_IDLE_PAGES = 20  # In a row; servers that filter their pages send empty ones now and then.
_REMEMBERED = 8  # Pages; a server that goes in circles mostly goes in small ones.


@dataclass(frozen=True, slots=True)
class Trail:
    """The page to ask for, and what is remembered of those before it."""

    cursor: str = ""  # Empty: the first page.
    number: int = 1  # Of the page.
    idle: int = 0  # Empty pages before it, in a row.
    recent: tuple[int, ...] = ()  # Digests of the pages before it.


@dataclass(frozen=True, slots=True)
class Rows:
    rows: Sequence[Any]
    cursor: str  # Empty: this was the last page.


def parse_page(body: bytes, field: str) -> Rows | None:
    """None for what is not a page of such a listing."""
    try:
        page = orjson.loads(body)
    except ValueError:
        return None
    if not isinstance(page, dict) or field not in page:
        return None
    # Servers written in Go send null for an empty list.
    rows = [] if page[field] is None else page[field]
    cursor = page.get("cursor") or ""
    if not isinstance(rows, list) or not isinstance(cursor, str) or len(cursor) > _CURSOR_CHARS:
        return None
    return Rows(rows, cursor)


def page_after(trail: Trail, page: Rows) -> Trail | str:
    """The next page, or why there is none in spite of a cursor."""
    digest = zlib.crc32(orjson.dumps(page.rows))
    idle = 0 if page.rows else trail.idle + 1
    if page.cursor == trail.cursor:
        return "the cursor repeats"
    if page.rows and digest in trail.recent:
        return "the same page again"
    if idle >= _IDLE_PAGES:
        return f"{idle} empty pages in a row"
    if trail.number >= _PAGES:
        return f"more than {_PAGES} pages"
    return Trail(page.cursor, trail.number + 1, idle, (*trail.recent, digest)[-_REMEMBERED:])


_HOST = re.compile(r"(?P<host>[a-zA-Z0-9.-]{1,253}|\[[0-9a-fA-F:.]{2,45}\])(?::(?P<port>\d{1,5}))?")


def host_url(name: str, *, allow_private: bool) -> str | None:
    """The URL of a host that a relay names without a scheme; None for what is no host."""
    match = _HOST.fullmatch(name)
    if match is None or int(match["port"] or 1) not in range(1, 65536):
        return None
    # Private worlds have no certificates.
    plain = allow_private and (is_address(match["host"]) or match["host"] == "localhost")
    return f"{'http' if plain else 'https'}://{name.lower()}"
