"""The signatures of `import trawlnet`, read from the sources without running them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import griffe

ROOT = Path(__file__).parents[2]
# Classes that the engine uses by more than its users do: only these members are promised.
PROMISED = {
    "Gate": {"__init__", "turn", "treat", "retune", "share", "park"},
    "Control": {"__init__", "workers", "paused", "pause", "resume", "drain", "ending", "figures"},
    "MemoryStore": {"__init__"},
}
SNAPSHOT = Path(__file__).with_name("signatures.txt")


def written() -> str:
    """A name of the API and its members on a line each, in alphabetical order."""
    package = griffe.load("trawlnet", search_paths=[ROOT / "src"], allow_inspection=False)
    names = sorted(name for name in package.exports or () if str(name) != "__version__")
    return "".join(f"{line}\n" for name in names for line in _lines(package[str(name)]))


def _lines(told: Any) -> Iterator[str]:
    thing = told.final_target if told.is_alias else told
    if thing.is_class:
        bases = ", ".join(str(base) for base in thing.bases)
        yield f"class {thing.name}({bases})"
        for member in _members(thing):
            yield f"    {_line(member)}"
    else:
        yield _line(thing)


def _members(cls: Any) -> Iterator[Any]:
    """In the order written: fields of a dataclass are its parameters."""
    hidden = {"__init__"} if "dataclass" in cls.labels else set()
    for name, member in cls.members.items():
        is_ours = not name.startswith("_") or name in {"__init__", "__call__", "__iter__"} - hidden
        is_ours &= name in PROMISED.get(cls.name, {name})
        if is_ours and not member.is_alias and not member.is_class:
            yield member


def _line(thing: Any) -> str:
    if thing.is_function:
        word = "async def" if "async" in thing.labels else "def"
        marks = [mark for mark in ("classmethod", "staticmethod") if mark in thing.labels]
        given = ", ".join(_parameters(thing))
        return " ".join([*marks, word, f"{thing.name}({given}) -> {thing.annotation}"])
    mark = "property " if "property" in thing.labels else ""
    kind = f": {thing.annotation}" if thing.annotation is not None else ""
    # What an initialiser computes is no promise.
    is_default = not mark and "class-attribute" in thing.labels and thing.value is not None
    return f"{mark}{thing.name}{kind}{f' = {thing.value}' if is_default else ''}"


def _parameters(function: Any) -> Iterator[str]:
    kinds = griffe.ParameterKind
    starred = False
    for one in function.parameters:
        if one.kind is kinds.keyword_only and not starred:
            starred = True
            yield "*"
        starred = starred or one.kind is kinds.var_positional
        stars = {kinds.var_positional: "*", kinds.var_keyword: "**"}.get(one.kind, "")
        kind = f": {one.annotation}" if one.annotation is not None else ""
        bare = one.default is None or bool(stars)
        yield f"{stars}{one.name}{kind}{'' if bare else f' = {one.default}'}"


if __name__ == "__main__":
    SNAPSHOT.write_text(written())
