"""The list of mutants stays in step with the code that it breaks."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections import Counter
from pathlib import Path
from types import ModuleType

import pytest

PROJECT = Path(__file__).parents[1]


def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("mutants", PROJECT / "scripts" / "mutants.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["mutants"] = module  # Its dataclass looks itself up there.
    spec.loader.exec_module(module)
    return module


def test_every_mutant_fits_the_code_as_it_is() -> None:
    for mutant in script().mutants():
        text = (PROJECT / mutant.file).read_text()
        assert mutant.applied(text) != text, mutant.name


def test_every_mutant_has_a_name_of_its_own_and_tests_that_exist() -> None:
    mutants = script().mutants()
    names = Counter(f"{mutant.area}/{mutant.name}" for mutant in mutants)
    assert not [name for name, times in names.items() if times > 1]
    for mutant in mutants:
        files = [test.split("::")[0] for test in mutant.tests if not test.startswith("-")]
        assert any((PROJECT / file).exists() for file in files), mutant.name


def test_the_page_lists_every_mutant() -> None:
    module = script()
    page = module.PAGE.read_text()
    current = module.page_with(page, module.mutants())
    assert page == current, "run: .venv/bin/python scripts/mutants.py --write"


@pytest.mark.parametrize(
    ("code", "output", "words"),
    [
        (0, b"1 passed", "survived"),
        (1, b"FAILED tests/test_a.py::test_b[c - d] - AssertionError: e", "killed"),
        (
            1,
            b"E   Failed: Timeout (>300.0s) from pytest-timeout.\nFAILED tests/test_a.py::test_b",
            "no verdict (a test ran into its time limit)",
        ),
        (1, b"ERROR tests/test_a.py::test_b - OSError", "no verdict (a test could not begin)"),
        (5, b"no tests ran", "no verdict (pytest exit 5)"),
    ],
)
def test_only_a_test_that_looked_has_killed(code: int, output: bytes, words: str) -> None:
    done = subprocess.CompletedProcess[bytes]([], code, stdout=output)
    assert script().words_for(done) == words


def test_the_tests_that_noticed_are_named_without_their_parameters() -> None:
    lines = [
        "FAILED tests/a.py::test_b[x - y] - no",
        "FAILED tests/a.py::test_b[z]",
        "FAILED b.py::c - d",
    ]
    output = "\n".join(lines).encode()
    assert script().failed_tests(output) == ["tests/a.py::test_b", "b.py::c"]
