"""Write docs/reference/files.md: every module with the first line that it says about itself."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "trawlnet"
PAGE = ROOT / "docs" / "reference" / "files.md"
HEAD = """# Every file, and what it is about

`scripts/file_index.py` writes this page from the first line of each module; a test compares them.
The rooms stand in the order in which they may import each other, from the commands down.
"""
ORDER = [
    *("cli", "fleet", "reading", "crawlers", "observe", "sim"),
    *("captures", "archive", "tables", "queues", "storage", "stores"),
    *("net", "webpage", "atproto", "native", "engine"),
]


def sentence(path: Path) -> str:
    text = path.read_text("utf-8")
    if path.suffix == ".py":
        return (ast.get_docstring(ast.parse(text)) or "").split("\n\n")[0].replace("\n", " ")
    match = re.match(r"(?:--|/\*|//)\s*(.*?)(?:\*/)?$", text.split("\n", 1)[0])
    return match[1].strip() if match else ""


def folders(room: Path) -> Iterator[Path]:
    yield room
    for path in sorted(room.rglob("*")):
        if path.is_dir() and (path / "__init__.py").exists():
            yield path


def section(folder: Path) -> str:
    name = folder.relative_to(PACKAGE).as_posix()
    rows = [
        f"- [`{path.name}`](../../src/trawlnet/{name}/{path.name}): {sentence(path)}"
        for path in sorted(folder.glob("*.py"))
        if path.name != "__init__.py"
    ]
    level = "##" if "/" not in name else "###"
    return "\n".join([f"{level} {name}/", "", sentence(folder / "__init__.py"), "", *rows, ""])


def page() -> str:
    rooms = sorted(
        (path for path in PACKAGE.iterdir() if (path / "__init__.py").exists()),
        key=lambda path: ORDER.index(path.name),
    )
    parts = [section(folder) for room in rooms for folder in folders(room)]
    return "\n".join([HEAD, *parts]).rstrip("\n") + "\n"


if __name__ == "__main__":
    if "--check" in sys.argv[1:]:
        sys.exit(PAGE.read_text("utf-8") != page())
    PAGE.write_text(page(), "utf-8")
