"""`import trawlnet` offers what is documented, promises its signatures, and imports nothing."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

import trawlnet
from tests.api.signatures import SNAPSHOT, written

ROOT = Path(__file__).parents[2]


def test_the_signatures_are_those_that_were_promised() -> None:
    assert SNAPSHOT.read_text() == written(), (
        "the API changed: if that is meant, run `python -m tests.api.signatures`, and say in "
        "CHANGELOG.md what whoever uses it has to change"
    )


@pytest.mark.parametrize("name", trawlnet.__all__)
def test_a_name_is_what_its_room_calls_so(name: str) -> None:
    if name != "__version__":
        assert getattr(trawlnet, name) is getattr(import_module(trawlnet._HOMES[name]), name)
    assert name in dir(trawlnet)


def test_what_the_type_checker_sees_is_what_is_there() -> None:
    assert {*trawlnet._HOMES, "__version__"} == set(trawlnet.__all__)
    source = (ROOT / "src" / "trawlnet" / "__init__.py").read_text()
    block = source.split("if TYPE_CHECKING:")[1].split("__version__ =")[0]
    seen: dict[str, object] = {}
    exec("\n".join(line.removeprefix("    ") for line in block.splitlines()), seen)
    told = {name: value for name, value in seen.items() if name not in ("__builtins__", "Any")}
    assert told == {name: getattr(trawlnet, name) for name in trawlnet._HOMES}


def test_another_name_is_no_attribute() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Nonsense'"):
        trawlnet.Nonsense  # noqa: B018 - asking for it is the test.


def loaded_by(statement: str) -> set[str]:
    code = f"import sys; before = set(sys.modules); {statement}; print(*set(sys.modules) - before)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(ran.stdout.split())


def test_importing_the_package_imports_nothing_else() -> None:
    assert loaded_by("import trawlnet") == {"trawlnet"}


def test_a_name_of_the_engine_costs_no_more_than_the_engine() -> None:
    loaded = loaded_by("from trawlnet import Task, Outcome, Reason, Page, Parts, crawl")
    rooms = {name.split(".")[1] for name in loaded if name.startswith("trawlnet.")}
    assert rooms == {"engine"}
    assert not loaded & {"lmdb", "pydantic", "pyarrow", "yarl", "typer", "msgspec"}


def test_every_name_is_documented() -> None:
    page = (ROOT / "docs" / "reference" / "api.md").read_text()
    assert [name for name in trawlnet.__all__ if f"`{name}" not in page] == []


# What says what the methods of a class do, where they are those of a Protocol.
PROTOCOLS = {"MemoryStore": trawlnet.Store}


def methods_of(name: str) -> Iterator[str]:
    """Those without a docstring."""
    promised = PROTOCOLS.get(name)
    for method, made in vars(getattr(trawlnet, name)).items():
        if method.startswith("_") or not (callable(made) or hasattr(made, "fget")):
            continue
        said = made.__doc__ or getattr(getattr(promised, method, None), "__doc__", None)
        if not said:
            yield f"{name}.{method}"


def test_every_class_and_method_says_what_it_is_for() -> None:
    classes = [name for name in trawlnet.__all__ if isinstance(getattr(trawlnet, name), type)]
    assert [name for name in classes if not is_described(name)] == []
    assert [method for name in classes for method in methods_of(name)] == []


def is_described(name: str) -> bool:
    """A dataclass without a docstring gets one that only repeats its fields."""
    said = getattr(trawlnet, name).__doc__
    return bool(said) and not said.startswith(f"{name}(")


def test_the_package_says_that_it_is_typed() -> None:
    assert (ROOT / "src" / "trawlnet" / "py.typed").exists()
