"""What the archive verbs show: rows for programs, tables for people."""

from __future__ import annotations

import sys
from typing import Any

from trawlnet.archive.reader import Segment
from trawlnet.archive.tally import Tally
from trawlnet.cli.common.output import iso, size
from trawlnet.observe.lanes import shown as harmless

_NAME_MAX = 100


def size_shown(count: int) -> str:
    """For people on a terminal; for whoever reads a pipe, plain bytes."""
    return size(count) if sys.stdout.isatty() else f"{count} bytes"


def inspection(segment: Segment, counts: Tally) -> dict[str, Any]:
    entries = segment.footer.repo_count if segment.footer else None
    index = "none" if entries is None else "sound" if segment.index_is_sound() else "damaged"
    return {
        "segment": str(segment.path),
        "version": segment.header.version,
        "created": iso(segment.header.created_at_us / 1e6),
        "finalised": segment.finalised,
        "repo_count": segment.header.repo_count,
        "index_offset": segment.header.index_offset,
        "index_entries": entries,
        "index": index,
        "repos": counts.repos,
        "records": counts.records,
        "deltas": counts.deltas,
        "bytes": counts.bytes,
        "torn": counts.torn,
    }


def collection_rows(counts: Tally, *, unpacked: bool = False) -> list[dict[str, Any]]:
    rows = []
    for name, row in sorted(counts.collections.items()):
        shown: dict[str, Any] = {"collection": name, "repos": row.repos, "records": row.records}
        shown["compressed_bytes"] = row.compressed
        if unpacked:
            shown["unpacked_bytes"] = row.unpacked
        rows.append(shown)
    return rows


def collection_table(counts: Tally, *, unpacked: bool = False) -> str:
    heads = ["collection", "repos", "records", "compressed", *(["unpacked"] if unpacked else [])]
    rows = [heads]
    for name, row in sorted(counts.collections.items()):
        sizes = [row.compressed, *([row.unpacked] if unpacked else [])]
        figures = [f"{row.repos:,}", f"{row.records:,}", *map(_size, sizes)]
        rows.append([harmless(name, _NAME_MAX), *figures])
    widths = [max(len(row[n]) for row in rows) for n in range(len(heads))]
    return "\n".join(
        "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])]) for row in rows
    )


def _size(count: int) -> str:
    return size(count) if sys.stdout.isatty() else str(count)
