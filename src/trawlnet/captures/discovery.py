"""The discovery spool: one JSON object for each found page, for programs that visit it, too."""

from __future__ import annotations

from typing import Any

from trawlnet.captures.capture import Capture

BOOKMARK = "state/spool_bookmark.json"
SPOOL = "spool"
NAME = "discoveries"


def discovery_of(capture: Capture) -> dict[str, Any]:
    return {
        "url": capture.url,
        "page_type": capture.page_type,
        "depth": capture.depth,
        "referrer": capture.referrer,
        "metadata": {
            "status_code": capture.http_status,
            "content_length": len(capture.body or b""),
            "latency_ms": round(capture.fetch_latency_ms, 3),
        },
    }
