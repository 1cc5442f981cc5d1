"""Among the copies are some of the present formats: the next version can show that it reads them.

If one of these fails after a change of a format: `python -m tests.frozen.make VERSION NAME…`
freezes what the present code writes, beside the older copies.
"""

from __future__ import annotations

import re
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from tests.frozen.ice import copies, thaw
from trawlnet.archive.format import rca
from trawlnet.archive.reader import find_segments, open_segment
from trawlnet.tables.clickhouse.open import STEPS
from trawlnet.tables.relational.database import NEWEST


def in_sqlite(path: Path) -> dict[str, int]:
    with closing(sqlite3.connect(path)) as db:
        rows = db.execute("SELECT folder, MAX(version) FROM schema_versions GROUP BY folder")
        return dict(rows.fetchall())


def in_clickhouse(folder: Path) -> int:
    """As it is: whoever opens it as a workspace brings it up to date. One process has one embedded
    ClickHouse, and it cannot be the tests'."""
    code = (
        "import sys; from chdb.session import Session; "
        "print(Session(sys.argv[1]).query('SELECT max(version) FROM schema_version', 'CSV'))"
    )
    command = [sys.executable, "-c", code, str(folder)]
    return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def in_dump(path: Path) -> dict[str, int]:
    """Of PostgreSQL: rows of the table, folder and version."""
    rows = re.findall(r"^(\w+)\t(\d+)$", path.read_text(), re.MULTILINE)
    return {folder: max(int(v) for one, v in rows if one == folder) for folder, _ in rows}


@pytest.mark.parametrize("kind", ["pds-killed", "pds-follow"])
def test_registries_and_their_records_are_of_the_present_schema(kind: str, tmp_path: Path) -> None:
    found = [
        in_sqlite(thaw(name, tmp_path / name) / "state" / "pds" / "registry.db")
        for name in copies(kind)
    ]
    assert {"registry": NEWEST["registry"], "scanned": NEWEST["scanned"]} in found


def test_registries_in_postgresql_are_of_the_present_schema(tmp_path: Path) -> None:
    dumps = [thaw(name, tmp_path / name) / "postgres.sql" for name in copies("pds-postgres")]
    assert NEWEST["registry"] in [in_dump(dump).get("registry") for dump in dumps]
    assert NEWEST["scanned"] in [in_dump(dump).get("scanned") for dump in dumps]


def test_instances_are_of_the_present_schema(tmp_path: Path) -> None:
    files = [
        thaw(name, tmp_path / name) / "state" / "ids" / "instances.db"
        for name in copies("ids-killed")
    ]
    assert NEWEST["instances"] in [in_sqlite(file)["instances"] for file in files]


@pytest.mark.parametrize("kind", ["repos-killed", "repos-done", "repos-follow"])
def test_segments_are_of_the_present_version(kind: str, tmp_path: Path) -> None:
    archives = [thaw(name, tmp_path / name) / "archive" for name in copies(kind)]
    segments = [open_segment(path) for archive in archives for path in find_segments(archive)]
    assert rca.NEWEST in {segment.header.version for segment in segments}


def test_parts_of_a_fleet_are_of_the_present_version(tmp_path: Path) -> None:
    archives = [thaw(name, tmp_path / name) / "archive" for name in copies("repos-fleet")]
    parts = [path for archive in archives for path in (archive / "parts").glob("*.rca")]
    assert rca.NEWEST in {open_segment(path).header.version for path in parts}


@pytest.mark.parametrize("kind", ["repos-done", "repos-follow", "plc-killed", "ids-killed"])
def test_tables_in_clickhouse_are_of_the_present_schema(kind: str, tmp_path: Path) -> None:
    folders = [thaw(name, tmp_path / name) / "tables" for name in copies(kind)]
    assert len(STEPS) in [in_clickhouse(folder) for folder in folders if folder.exists()]
