"""Figures of a bench, for docs/reference/benchmarks.md: written when BENCH_RECORD is set.

A bench replaces its own rows. Ratios only: rates say more about the machine than about the code.
"""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "benchmarks.md"
HEAD = "| what is compared | ratio | measured | machine |\n|---|---|---|---|"


def record(bench: str, ratios: Mapping[str, float]) -> None:
    if os.environ.get("BENCH_RECORD"):
        day = datetime.now(UTC).date().isoformat()
        PAGE.write_text(recorded(PAGE.read_text(), bench, ratios, day, machine()))


def recorded(page: str, bench: str, ratios: Mapping[str, float], day: str, where: str) -> str:
    """The page with these rows in place of the bench's old ones."""
    begin, end = f"<!-- {bench}: written by bench/{bench}.py -->", f"<!-- end of {bench} -->"
    rows = [f"| {what} | {ratio:.2f} | {day} | {where} |" for what, ratio in ratios.items()]
    pattern = re.compile(re.escape(begin) + ".*?" + re.escape(end), re.DOTALL)
    assert pattern.search(page), f"{PAGE.name} has no place for {bench}"
    return pattern.sub(lambda _: "\n".join([begin, HEAD, *rows, end]), page)


def machine() -> str:
    """Processor, how many of them, and how busy they were."""
    names = re.findall(r"^model name\s*: (.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    name = names[0].replace("(R)", "") if names else platform.machine()
    busy = f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.0f}"
    return f"{name.strip()}, {busy}, Python {platform.python_version()}"
