"""Start a module of the tests as a process of its own."""

from __future__ import annotations

import os
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PATH = os.pathsep.join([str(ROOT / "src"), str(ROOT)])  # This working copy, and its tests.


def module(name: str, *arguments: object) -> list[str]:
    """The command of `tests.NAME`."""
    return [sys.executable, "-m", f"tests.{name}", *map(str, arguments)]


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": PATH}
