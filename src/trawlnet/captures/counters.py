"""Counters in a CSV file, a row for each of them every few seconds."""

from __future__ import annotations

import csv
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from trawlnet.captures.capture import Capture
from trawlnet.captures.rows import csv_bytes
from trawlnet.engine.durable import make_directory
from trawlnet.storage.files import disk_errors, truncate_torn_line

COLUMNS = ("timestamp", "metric", "value")


class CounterCsv:
    """Appends whole rows without syncing: they are figures, not results."""

    def __init__(self, path: Path, *, every: float = 10.0, most_bytes: int = 256 << 20) -> None:
        self._path = path
        self._every = every
        self._most_bytes = most_bytes
        self._next = 0.0
        with disk_errors(f"opening {path}"):
            make_directory(path.parent)
            if path.exists():
                truncate_torn_line(path)

    def due(self, now: float) -> bool:
        return now >= self._next

    def write(self, now: float, values: Mapping[str, float]) -> None:
        """Write all values now, whether due or not."""
        self._next = now + self._every
        rows = csv_bytes((int(now), name, value) for name, value in sorted(values.items()))
        with disk_errors(f"writing {self._path}"):
            self._rotate()
            with self._path.open("ab") as file:
                if file.tell() == 0:
                    file.write(csv_bytes([COLUMNS]))
                file.write(rows)

    def _rotate(self) -> None:
        """Start a new file; one older file stays."""
        if self._path.exists() and self._path.stat().st_size >= self._most_bytes:
            self._path.replace(self._path.with_suffix(".old.csv"))


def latest(path: Path) -> dict[str, float]:
    """The last value of each counter, from the end of the file; empty if there is no file."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _TAIL_BYTES))
            lines = file.read().decode("utf-8", "replace").splitlines()
    except FileNotFoundError:
        return {}
    values: dict[str, float] = {}
    # The first line may be cut off, and the last one incomplete.
    for row in csv.reader(lines[1:]):
        try:
            _, name, value = row
            values[name] = float(value)
        except ValueError:
            continue
    return values


_TAIL_BYTES = 64 << 10  # Many times the size of one write.


def count(captures: Iterable[Capture]) -> dict[str, int]:
    """The counts of a batch, for the counters of a scraper."""
    counts: dict[str, int] = {}

    def add(name: str, by: int = 1) -> None:
        counts[name] = counts.get(name, 0) + by

    for capture in captures:
        add("pages_fetched")
        add(f"status_{capture.http_status // 100}xx")
        if capture.http_status == 304:
            add("not_modified_304")
        elif capture.stored:
            add("pages_saved")
            add("bytes_saved", len(capture.body or b""))
        elif 200 <= capture.http_status < 300:
            add("not_html")
    return counts
