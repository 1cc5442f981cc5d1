"""Turns lines of the capture log into rows of pages, edges and CDXJ."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from itertools import chain
from operator import attrgetter
from typing import Any

from trawlnet.captures.line import CaptureLine
from trawlnet.queues.queue import encode
from trawlnet.webpage.surt import surt

PAGE_COLUMNS = (
    *("timestamp", "url", "page_type", "depth", "referrer", "http_status", "content_type"),
    *("encoding", "content_sha256", "content_bytes", "stored_path", "etag", "last_modified"),
    *("fetch_latency_ms", "retries", "proxy_id", "metadata"),
)
EDGE_COLUMNS = ("from", "to", "text", "depth", "context")


def csv_bytes(rows: Iterable[Sequence[Any]], *, spreadsheet_safe: bool = False) -> bytes:
    """CSV, with fields quoted where needed. With `spreadsheet_safe`, an apostrophe before a cell
    that looks like a formula makes it text, because a spreadsheet would run it; without, the data
    stays unchanged. A NUL, at which some readers stop, is replaced.

    The csv module writes the same; `bench/own_hands.py` compares them.
    """
    cell = _harmless_cell if spreadsheet_safe else _cell
    text = "".join([",".join(map(cell, row)) + "\r\n" for row in rows])
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace")


def _cell(value: Any) -> str:
    if not isinstance(value, str):
        return "" if value is None else str(value)
    if "," in value or '"' in value or "\n" in value or "\r" in value:
        return '"' + value.replace('"', '""') + '"'
    return value


_FORMULA = tuple("=+-@\t\r\n\uff1d\uff0b\uff0d\uff20")  # The last four are full-width.


def _harmless_cell(value: Any) -> str:
    # Some programs skip leading blanks and quotes.
    if isinstance(value, str) and value.lstrip(" \"'").startswith(_FORMULA):
        return _cell(f"'{value}")
    return _cell(value)


def page_rows(lines: Sequence[CaptureLine], spreadsheet_safe: bool = False) -> bytes:
    return csv_bytes(map(_page, lines), spreadsheet_safe=spreadsheet_safe)


def edge_rows(lines: Sequence[CaptureLine], spreadsheet_safe: bool = False) -> bytes:
    return b"".join(_edges(line, spreadsheet_safe) for line in lines if line.links)


def _edges(line: CaptureLine, spreadsheet_safe: bool) -> bytes:
    """A page has dozens of edges, and mostly none needs quoting, so check all of them at once."""
    here, depth, links = line.final_url or line.url, line.depth, line.links
    if not spreadsheet_safe and _is_plain(here + "".join(chain.from_iterable(links))):
        before, between = f"{here},", f",{depth},"
        rows = [f"{before}{to},{text}{between}{context}\r\n" for to, text, context in links]
        return "".join(rows).encode("utf-8", "replace")
    rows_of_links = ((here, to, text, depth, context) for to, text, context in links)
    return csv_bytes(rows_of_links, spreadsheet_safe=spreadsheet_safe)


def _is_plain(text: str) -> bool:
    """Whether the text needs no quoting. Five searches for one byte each."""
    return not ("," in text or '"' in text or "\n" in text or "\r" in text or "\0" in text)


def cdxj_lines(lines: Sequence[CaptureLine], spreadsheet_safe: bool = False) -> bytes:
    """`spreadsheet_safe` has no effect: nobody opens CDXJ in a spreadsheet."""
    return b"".join(_cdxj(line) for line in lines if line.warc)


_fields = attrgetter(*PAGE_COLUMNS)


def _page(line: CaptureLine) -> Sequence[Any]:
    at, *others, latency, retries, proxy, metadata = _fields(line)
    words = encode(metadata).decode() if metadata else ""
    return (int(at), *others, round(latency, 3), retries, proxy, words)


def _cdxj(line: CaptureLine) -> bytes:
    assert line.warc
    url = line.final_url or line.url
    at = datetime.fromtimestamp(line.timestamp, UTC).strftime("%Y%m%d%H%M%S")
    mime = line.content_type.partition(";")[0].strip() or "unk"
    fields = {
        "url": url,
        "mime": "warc/revisit" if line.warc.revisit else mime,
        "status": str(line.http_status),
        "digest": line.warc.digest,
        "length": str(line.warc.length),
        "offset": str(line.warc.offset),
        "filename": line.warc.file,
    }
    known = {name: value for name, value in fields.items() if value}
    return f"{surt(url)} {at} ".encode("utf-8", "replace") + encode(known) + b"\n"
