"""A bench writes its own rows of the page about benchmarks, and no others."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "bench"))
from record import PAGE, recorded  # noqa: E402 - it lies beside the benches.

NAMES = re.findall(r"<!-- (\w+): written by bench/(\w+)\.py -->", PAGE.read_text())


def test_rows_are_replaced_and_the_rest_stays() -> None:
    page = "before\n<!-- a: written by bench/a.py -->\n| old |\n<!-- end of a -->\nafter\n"
    new = recorded(page, "a", {"theirs / ours": 2.345}, "2026-01-02", "a machine")
    assert new.startswith("before\n") and new.endswith("<!-- end of a -->\nafter\n")
    assert "| theirs / ours | 2.35 | 2026-01-02 | a machine |" in new and "old" not in new
    assert recorded(new, "a", {"theirs / ours": 2.345}, "2026-01-02", "a machine") == new


def test_a_bench_without_a_place_is_told() -> None:
    with pytest.raises(AssertionError, match="no place for b"):
        recorded("nothing", "b", {}, "2026-01-02", "a machine")


@pytest.mark.parametrize("name, bench", NAMES)
def test_every_place_is_filled_by_its_bench(name: str, bench: str) -> None:
    assert name == bench
    assert f'record("{name}", ' in (ROOT / "bench" / f"{bench}.py").read_text()
    rows = PAGE.read_text().split(f"<!-- {name}:")[1].split("<!-- end")[0]
    assert re.search(r"^\| .+ \| \d+\.\d\d \| \d{4}-\d\d-\d\d \| .+ \|$", rows, re.MULTILINE)
