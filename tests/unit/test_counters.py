"""Counters in a CSV file."""

from __future__ import annotations

from pathlib import Path

from trawlnet.captures.capture import Capture
from trawlnet.captures.counters import CounterCsv, count


def test_rows_come_every_ten_seconds_and_a_torn_one_is_cut(tmp_path: Path) -> None:
    path = tmp_path / "logs" / "crawler_metrics.csv"
    counters = CounterCsv(path)
    assert counters.due(1_704_804_000.0)
    counters.write(1_704_804_000.5, {"pages_fetched": 42, "errors": 1})
    assert not counters.due(1_704_804_010.0)
    assert counters.due(1_704_804_010.5)
    with path.open("ab") as file:
        file.write(b"1704804010,pages_fe")
    CounterCsv(path).write(1_704_804_011.0, {"pages_fetched": 43})
    assert path.read_text().splitlines() == [
        "timestamp,metric,value",
        "1704804000,errors,1",
        "1704804000,pages_fetched,42",
        "1704804011,pages_fetched,43",
    ]


def test_a_long_file_makes_room(tmp_path: Path) -> None:
    path = tmp_path / "m.csv"
    for second in range(3):
        CounterCsv(path, most_bytes=10).write(second, {"a": second})
    assert path.read_text().splitlines() == ["timestamp,metric,value", "2,a,2"]
    assert (tmp_path / "m.old.csv").read_text().splitlines()[1:] == ["1,a,1"]


def test_what_a_batch_counts() -> None:
    batch = [
        Capture(0.0, "u", 200, b"four"),
        Capture(0.0, "u", 200, None),
        Capture(0.0, "u", 304),
        Capture(0.0, "u", 301, b""),
    ]
    assert count(batch) == {
        "pages_fetched": 4,
        "status_2xx": 2,
        "status_3xx": 2,
        "pages_saved": 1,
        "bytes_saved": 4,
        "not_html": 1,
        "not_modified_304": 1,
    }
