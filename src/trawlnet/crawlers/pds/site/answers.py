"""Responses: JSON for programs, pages for people, and security headers for all."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any

import orjson
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from trawlnet.crawlers.pds.site import page
from trawlnet.crawlers.pds.site.register import Declined, Fault
from trawlnet.tables.registry.rules import PdsRow

# No external resources, no scripts, and no other site may frame the form.
SAFE_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; img-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    # Not `no-referrer`: browsers then hide the origin of our own form, too.
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}
STATUS_OF = {Fault.INVALID: 400, Fault.TOO_MANY: 429, Fault.UNAVAILABLE: 503}


def as_json(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return Response(orjson.dumps(value), status, headers, "application/json")


def refusal(status: int, error: str, message: str, wait: float = 0.0) -> Response:
    """An error in the protocol's format."""
    headers = {"Retry-After": str(math.ceil(wait))} if wait > 0.0 else None
    return as_json({"error": error, "message": message}, status, headers)


def declined(answer: Declined) -> Response:
    return refusal(STATUS_OF[answer.fault], answer.fault, answer.message, answer.wait)


def trouble(request: Request, status: int, message: str, headers: dict[str, str]) -> Response:
    """An error as HTML or JSON, as the client accepts."""
    if _wants_html(request):
        words = HTTPStatus(status).phrase
        root = "../" * (request.url.path.count("/") - 1)
        return HTMLResponse(page.trouble(words, message, root), status, headers)
    error = _ERRORS.get(status, "InvalidRequest" if status < 500 else "InternalServerError")
    return as_json({"error": error, "message": message}, status, headers)


def _wants_html(request: Request) -> bool:
    if request.url.path.startswith(("/xrpc/", "/api/")):
        return False
    return "text/html" in request.headers.get("accept", "")


_ERRORS = {
    403: "Forbidden",
    404: "NotFound",
    405: "MethodNotAllowed",
    408: "RequestTimeout",
    413: "PayloadTooLarge",
    415: "UnsupportedMediaType",
    429: str(Fault.TOO_MANY),
    501: "MethodNotImplemented",
    503: str(Fault.UNAVAILABLE),
}


def row_as_json(row: PdsRow) -> dict[str, Any]:
    """The registry's columns under their own names; times in ISO 8601."""
    return {
        "pds_url": row.pds_url,
        "discovered_at": iso(row.discovered_at),
        "discovery_source": row.discovery_source,
        "status": row.status,
        "last_scan_at": iso(row.last_scan_at),
        "next_scan_at": iso(row.next_scan_at),
        "has_chive_records": row.has_chive_records,
        "chive_record_count": row.chive_record_count,
        "consecutive_failures": row.consecutive_failures,
        "scan_priority": row.scan_priority,
        "last_error": row.last_error,
        "account_count": row.account_count,
        "updated_at": iso(row.updated_at),
    }


def iso(instant: float | None) -> str | None:
    if instant is None:
        return None
    text = datetime.fromtimestamp(instant, UTC).isoformat(timespec="milliseconds")
    return text.replace("+00:00", "Z")
