"""What opening the embedded tables must not take along."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

OPENED = """
import asyncio, sys
from pathlib import Path
from trawlnet.tables.open import opened

async def main():
    async with opened(Path(sys.argv[1])):
        print(*(name for name in ("pyarrow", "numpy") if name in sys.modules))

asyncio.run(main())
import pyarrow
print("pyarrow is there for others")
"""


def test_tables_are_opened_without_pyarrow_and_leave_it_to_others(tmp_path: Path) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", OPENED, str(tmp_path / "tables")], capture_output=True, text=True
    )
    assert ran.stdout.splitlines() == ["", "pyarrow is there for others"], ran.stderr
