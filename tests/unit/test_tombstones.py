"""Tombstones survive torn lines and strangers, and come back as they were written."""

from __future__ import annotations

from pathlib import Path

from trawlnet.archive.tombstones import NAME, Tombstone, append_tombstones, read_tombstones

ONE = Tombstone("did:plc:" + "a" * 24, "deactivated", 1_700_000_000_123_456)
TWO = Tombstone("did:web:x.example", "not_found", 1_700_000_001_000_000)


def test_what_was_written_is_read(tmp_path: Path) -> None:
    assert list(read_tombstones(tmp_path)) == []
    append_tombstones(tmp_path, [])
    assert not (tmp_path / NAME).exists()
    append_tombstones(tmp_path, [ONE])
    append_tombstones(tmp_path, [TWO])
    assert list(read_tombstones(tmp_path)) == [ONE, TWO]
    assert b'"at":"2023-11-14T22:13:20.123456Z"' in (tmp_path / NAME).read_bytes()


def test_a_torn_line_costs_itself_only(tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(ONE.line() + TWO.line()[:20])
    append_tombstones(tmp_path, [TWO])
    assert list(read_tombstones(tmp_path)) == [ONE, TWO]


def test_other_lines_are_passed_over(tmp_path: Path) -> None:
    junk = b'[]\n{"did":5}\n{"did":"did:web:x","reason":"r","at":"2023-01-01"}\n\xff\n\n'
    (tmp_path / NAME).write_bytes(junk + ONE.line())
    assert list(read_tombstones(tmp_path)) == [ONE]
