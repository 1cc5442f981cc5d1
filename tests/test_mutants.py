"""The list of mutants stays in step with the code that it breaks."""

from __future__ import annotations

import importlib.util
import sys
from collections import Counter
from pathlib import Path
from types import ModuleType

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
