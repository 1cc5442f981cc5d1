"""The rules of the house that a machine can check: who imports whom, who prints, who tells time."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "trawlnet"
TESTS = ROOT / "tests"

# Each room and the rooms of ours that it may import, from the bottom up; its own is always allowed.
MAY_IMPORT: dict[str, set[str]] = {
    "engine": set(),
    "native": set(),
    "atproto": {"native"},
    "webpage": {"native"},
    "net": {"engine", "native"},
    "stores": {"engine"},
    "storage": {"engine"},
    "queues": {"engine", "storage"},
    "archive": {"engine", "native", "atproto", "storage"},
    "captures": {"engine", "native", "webpage", "storage", "queues"},
    "tables": {"engine", "native", "atproto", "webpage"},
    "observe": {"engine", "net"},
    "sim": {"engine", "net", "atproto"},
}
_BELOW = set(MAY_IMPORT) - {"sim", "native"}
MAY_IMPORT["reading"] = _BELOW
MAY_IMPORT["crawlers"] = _BELOW
MAY_IMPORT["fleet"] = _BELOW | {"crawlers", "native"}
MAY_IMPORT["cli"] = set(MAY_IMPORT)

# What every room may import: the error for bytes that are not what they claim to be, the base of
# errors with a hint, the loader.
EVERYBODY = {"malformed", "hinted", "loading"}

# Third-party packages that only one room or file may know, so that they stay optional.
ONLY_IN = {
    "redis": "stores/redis/",
    "aio_pika": "queues/rabbitmq",
    "typer": "cli/",
    "rich": ("observe/", "cli/"),
    "lmdb": ("stores/lmdb/", "captures/page_index.py"),
    "chdb": "tables/clickhouse/chdb.py",
    "clickhouse_connect": "tables/clickhouse/server.py",
    "prometheus_client": "observe/metrics/",
    "obstore": "storage/s3.py",
    "pyarrow": "reading/",
    "ray": "fleet/ray.py",
    "opentelemetry": "observe/traces/otel.py",
    "websockets": ("net/client/", "net/server/"),
}

# Files in a folder, besides its opening sentence.
FILES_IN_A_FOLDER = 20


def modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def room_of(path: Path) -> str:
    inside = path.relative_to(PACKAGE).parts
    return inside[0] if len(inside) > 1 else ""


@cache
def imports(path: Path) -> tuple[str, ...]:
    return tuple(_imports(path))


def _imports(path: Path) -> Iterator[str]:
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            assert node.module
            yield node.module
    yield from (place.partition(":")[0] for place in loaded(path))


def loaded(path: Path) -> Iterator[str]:
    """What a module has the loader import, where the name is written out."""
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "load":
            (place,) = node.args
            if isinstance(place, ast.Constant):
                yield str(place.value)


@pytest.mark.parametrize("room", sorted(MAY_IMPORT))
def test_a_room_imports_only_what_lies_below_it(room: str) -> None:
    allowed = MAY_IMPORT[room] | {room} | EVERYBODY
    wrong = [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in modules()
        if room_of(path) == room
        for name in imports(path)
        if name.startswith("trawlnet.") and name.split(".")[1] not in allowed
    ]
    assert wrong == []


# What is an extra, or slow and seldom needed, is imported by one function, `load` of
# `loading.py`, which `imports` above reads like any other import.
LOADER = "loading.py"
IMPORTS_BY_NAME = {
    LOADER,
    "__init__.py",  # `import trawlnet` imports nothing, the loader neither.
    "cli/doctor.py",  # It looks whether libraries load.
    "native/loader.py",  # What was compiled, where it was.
}


def test_a_module_imports_at_its_top() -> None:
    functions = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
    found = {
        path.relative_to(PACKAGE).as_posix()
        for path in modules()
        for function in ast.walk(tree(path))
        if isinstance(function, functions)
        for node in ast.walk(function)
        if isinstance(node, ast.Import | ast.ImportFrom)
    }
    assert found == {"__init__.py"}


def test_one_function_imports_by_name() -> None:
    users = {
        path.relative_to(PACKAGE).as_posix()
        for path in modules()
        if {"import_module", "importlib.import_module", "__import__"} & calls(path)
    }
    assert users == IMPORTS_BY_NAME


def test_what_the_loader_is_asked_for_is_there() -> None:
    asked = {place for path in modules() for place in loaded(path) if place.startswith("trawlnet.")}
    assert asked
    for place in asked:
        module, _, name = place.partition(":")
        home = PACKAGE.parent.joinpath(*module.split(".")).with_suffix(".py")
        assert home.exists(), place
        names = {getattr(node, "name", "") for node in tree(home).body}
        assert name in names, place


def test_the_command_line_has_no_imports_for_types_alone() -> None:
    assert [
        p.name for p in modules() if room_of(p) == "cli" and "TYPE_CHECKING" in p.read_text()
    ] == []


def test_every_room_is_known() -> None:
    assert {room_of(path) for path in modules()} - {""} <= set(MAY_IMPORT)


def test_a_folder_is_small_enough_to_see() -> None:
    folders = [PACKAGE, *(path for path in PACKAGE.rglob("*") if path.is_dir())]
    sizes = {
        folder.relative_to(PACKAGE).as_posix(): sum(
            path.is_file() and path.suffix not in (".so", ".pyc") for path in folder.iterdir()
        )
        for folder in folders
    }
    assert {name: size for name, size in sizes.items() if size > FILES_IN_A_FOLDER + 1} == {}


def test_every_folder_of_code_opens_with_a_sentence() -> None:
    folders = {path.parent for path in modules()}
    assert [f.relative_to(ROOT) for f in folders if not (f / "__init__.py").exists()] == []


def test_a_class_name_has_one_meaning() -> None:
    homes: dict[str, list[str]] = {}
    for path in modules():
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.ClassDef):
                homes.setdefault(node.name, []).append(path.relative_to(PACKAGE).as_posix())
    assert {name: found for name, found in homes.items() if len(found) > 1} == {}


# Where a directory may be lost with the power: it is scratch, or somebody syncs it later.
MAY_LOSE_DIRECTORIES = {
    "crawlers/repos/visiting/spill.py",
    "engine/durable.py",
    "fleet/shard.py",
    "captures/blobs.py",
    "tables/clickhouse/snapshot.py",  # Gone when its reader is.
}


def test_a_new_directory_is_made_by_the_one_function_that_syncs_its_name() -> None:
    others = {
        str(path.relative_to(PACKAGE))
        for path in modules()
        if room_of(path) != "sim" and re.search(r"\b(mkdir|makedirs)\(", path.read_text())
    }
    assert others == MAY_LOSE_DIRECTORIES


def test_the_engine_is_standard_library_only() -> None:
    foreign = {
        name
        for path in modules()
        if room_of(path) == "engine"
        for name in set(imports(path)) - only_for_the_checker(path)
        if name.split(".")[0] not in sys.stdlib_module_names | {"trawlnet"}
    }
    assert foreign == set()


def only_for_the_checker(path: Path) -> set[str]:
    """What is imported under TYPE_CHECKING, and so by no program that runs."""
    blocks = [
        node
        for node in ast.walk(tree(path))
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
    ]
    found = (inner for block in blocks for top in block.body for inner in ast.walk(top))
    return {node.module for node in found if isinstance(node, ast.ImportFrom) and node.module}


# Not a crawler: what the crawlers of one protocol have in common.
SHARED = ("atproto",)


def test_a_crawler_does_not_know_another_crawler() -> None:
    for path in modules():
        inside = path.relative_to(PACKAGE).parts
        if inside[0] != "crawlers" or len(inside) < 3:
            continue
        for name in imports(path):
            parts = name.split(".")
            if parts[:2] == ["trawlnet", "crawlers"] and len(parts) > 3:
                assert parts[2] in (inside[1], *SHARED), f"{path.relative_to(ROOT)} imports {name}"


@pytest.mark.parametrize("package", sorted(ONLY_IN))
def test_a_package_is_known_only_where_it_is_at_home(package: str) -> None:
    homes = ONLY_IN[package]
    for path in modules():
        inside = path.relative_to(PACKAGE).as_posix()
        if any(name.split(".")[0] == package for name in imports(path)):
            assert inside.startswith(homes), f"{inside} imports {package}"


@cache
def calls(path: Path) -> frozenset[str]:
    nodes = ast.walk(tree(path))
    return frozenset(dotted(node.func) for node in nodes if isinstance(node, ast.Call))


def dotted(called: ast.expr) -> str:
    """What is called, if it is a name or below one."""
    names = []
    while isinstance(called, ast.Attribute):
        names.append(called.attr)
        called = called.value
    names.append(called.id if isinstance(called, ast.Name) else "()")
    return ".".join(reversed(names))


def test_only_the_command_line_prints() -> None:
    assert [p for p in modules() if room_of(p) != "cli" and "print" in calls(p)] == []


TIME = re.compile(r"(time\.(time|time_ns|monotonic)|datetime(\.datetime)?\.(now|utcnow|today))$")
CLOCKS = {"net/clock.py"}


def test_the_time_is_passed_not_taken() -> None:
    wrong = [
        f"{path.relative_to(PACKAGE)}: {call}"
        for path in modules()
        if room_of(path) not in ("cli", "sim")
        and path.relative_to(PACKAGE).as_posix() not in CLOCKS
        for call in calls(path)
        if TIME.search(call)
    ]
    assert wrong == []


def test_no_sql_or_lua_inside_python() -> None:
    words = re.compile(r"\b(SELECT .+ FROM|INSERT INTO|redis\.call)\b")
    wrong = [
        path.relative_to(ROOT)
        for path in modules()
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and words.search(node.value)
    ]
    assert wrong == []


def test_every_module_says_what_it_is() -> None:
    silent = [p.relative_to(ROOT) for p in modules() if not ast.get_docstring(tree(p))]
    assert silent == []


def test_nothing_is_left_for_later() -> None:
    marks = re.compile(r"\b(TODO|FIXME|XXX|NotImplementedError)\b")
    assert [p.relative_to(ROOT) for p in modules() if marks.search(p.read_text())] == []


def test_the_broad_excepts_are_few_and_named() -> None:
    """One in the worker; the others hand an error on to whoever awaits it."""
    broad = [
        path.relative_to(PACKAGE).as_posix()
        for path in modules()
        for node in ast.walk(tree(path))
        if isinstance(node, ast.ExceptHandler)
        and (node.type is None or ast.unparse(node.type) == "Exception")
        and not any(isinstance(inner, ast.Raise) for inner in ast.walk(node))
    ]
    assert set(broad) <= {
        "engine/crawl.py",
        "sim/virtual.py",
        "cli/common/errors.py",
        "cli/dispatch.py",
    }


IMPORTED = re.compile(r"^\s*(?:from|import)\s+(\w+)", re.MULTILINE)  # Tests are many to parse.


def test_what_tests_share_has_one_name() -> None:
    """`servers` beside `tests.support.servers` would be two modules, each with its own ports."""
    helpers = {path.stem for path in TESTS.rglob("*.py")} - {"__init__"}
    assert [
        (path.relative_to(ROOT).as_posix(), name)
        for path in sorted(TESTS.rglob("*.py"))
        for name in IMPORTED.findall(path.read_text())
        if name in helpers
    ] == []
