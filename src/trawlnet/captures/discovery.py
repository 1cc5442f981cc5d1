"""The discovery spool: one JSON object for each found page, for programs that visit it, too."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from trawlnet.captures.capture import Capture
from trawlnet.queues.open import open_queue
from trawlnet.queues.queue import Queue, QueueOptions

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


async def open_discoveries(
    workspace: Path, *, backlog_bytes: int | None = None, segment_bytes: int = 64 * 1024 * 1024
) -> Queue:
    """Segments stay after they have been read, because several programs may read them."""
    options = QueueOptions(
        backlog_bytes=backlog_bytes,
        segment_bytes=segment_bytes,
        keep=True,
        bookmark=workspace / BOOKMARK,
    )
    return await open_queue(workspace / SPOOL, NAME, options)
