"""The captures of a web crawl: one line for each fetched page, and its body."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trawlnet.captures.blobs import read_blob
from trawlnet.captures.line import CaptureLine
from trawlnet.captures.role import ROLES, read_all
from trawlnet.reading.arrow import pyarrow, reader_of
from trawlnet.storage.workspace_format import check_format

if TYPE_CHECKING:
    from pyarrow import RecordBatchReader


class Captures:
    """Every capture of a workspace in the order of time, from `crawl` and from `scrape`; a crawl
    may be writing more."""

    def __init__(self, workspace: Path) -> None:
        self._workspace = workspace

    def __iter__(self) -> Iterator[CaptureLine]:
        for lines in read_all(self._workspace, {}):
            yield from lines

    def body(self, capture: CaptureLine) -> bytes | None:
        """The fetched body, inflated and checked against its hash; None if none was stored.
        Raises FileNotFoundError if the file is missing, ValueError if it is damaged."""
        return read_blob(self._workspace / capture.stored_path) if capture.stored_path else None

    def to_arrow(self) -> RecordBatchReader:
        """The captures as batches, without links, metadata and places in WARC files."""
        types = _types(pyarrow())
        fields = attrgetter(*types)
        rows = ((datetime.fromtimestamp(line.timestamp, UTC), *fields(line)[1:]) for line in self)
        return reader_of(list(types.items()), rows)


def open_captures(workspace: str | Path) -> Captures:
    """The captures of a `trawlnet web` workspace. Raises FileNotFoundError if it has none, and
    UnknownFormat if a newer version of trawlnet wrote it."""
    folder = Path(workspace)
    check_format(folder / "state" / "web")
    if not any((folder / role.log).is_dir() for role in ROLES):
        raise FileNotFoundError(
            f"there are no captures in {folder}: name the workspace of a `trawlnet web crawl`"
        )
    return Captures(folder)


def _types(pa: Any) -> dict[str, Any]:
    text = pa.string()
    return {
        "timestamp": pa.timestamp("us", tz="UTC"),
        "url": text,
        "http_status": pa.int32(),
        "final_url": text,
        "page_type": text,
        "depth": pa.int32(),
        "referrer": text,
        "content_type": text,
        "encoding": text,
        "content_sha256": text,
        "content_bytes": pa.int64(),
        "stored_path": text,
        "etag": text,
        "last_modified": text,
        "fetch_latency_ms": pa.float64(),
        "retries": pa.int32(),
    }
