"""What opening the embedded tables must not take along."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

OPENED = """
import asyncio, os, sys
from pathlib import Path
from trawlnet.tables.clickhouse.open import opened

async def look_around(seen):
    while True:
        seen.add(os.getcwd())
        await asyncio.sleep(0)

async def main():
    seen = set()
    others = asyncio.create_task(look_around(seen))
    async with opened(Path(sys.argv[1])):
        print(*(name for name in ("pyarrow", "numpy") if name in sys.modules))
    others.cancel()
    print(*seen)

asyncio.run(main())
import pyarrow
print("pyarrow is there for others")
"""


def test_tables_are_opened_without_pyarrow_and_leave_it_and_the_folder_to_others(
    tmp_path: Path,
) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", OPENED, "tables"], cwd=tmp_path, capture_output=True, text=True
    )
    said = ["", str(tmp_path), "pyarrow is there for others"]
    assert ran.stdout.splitlines() == said, ran.stderr
