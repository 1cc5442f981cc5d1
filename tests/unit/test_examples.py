"""The examples do what their text says."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.program import PATIENCE

ROOT = Path(__file__).parents[2]


def reachable() -> set[int]:
    """What a reader of the toy API would find by hand: from 1, over links that are not gone."""
    found, todo = set(), [1]
    while todo:
        n = todo.pop()
        if n % 7 and n <= 60 and n not in found:
            found.add(n)
            todo += [2 * n, 2 * n + 1]
    return found


@pytest.mark.parametrize("name", ["toy_api.py"])
def test_the_example_finds_each_reachable_thing_once(name: str) -> None:
    done = subprocess.run(
        [sys.executable, ROOT / "examples" / name],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        env={"PYTHONPATH": str(ROOT / "src")},
    )
    assert done.returncode == 0, done.stderr
    things = reachable()
    assert done.stdout.startswith(f"{len(things)} things stored")
    assert f"{len(things):4} tries came to ok" in done.stdout
    assert f"{sum(n % 5 == 0 for n in things):4} tries came to unavailable" in done.stdout
