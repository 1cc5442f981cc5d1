"""`trawlnet web configure`: creates a workspace, with every key of its config explained."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from trawlnet.cli.common.errors import Exit
from trawlnet.cli.common.flags import Folder, Json, argument
from trawlnet.cli.common.output import emit, say
from trawlnet.cli.common.verb import PLAIN, Verb
from trawlnet.cli.common.workspace import create, shown
from trawlnet.cli.common.yaml_text import written
from trawlnet.crawlers.web.config import WebConfig
from trawlnet.crawlers.web.source import SEEDS
from trawlnet.engine.durable import make_directory

_FOLDERS = ("store/html", "spool/discoveries", "warc", "logs", "state/web")
_WIDTH = 96  # Characters of a line.
_SEEDS_TEXT = (
    "# One URL per line to start from, like this one without its mark:\n# https://example.org/\n"
)

Seeds = Annotated[list[str] | None, argument("SEED", "URLs to put into seeds.txt.")]


def configure(workspace: Folder, seeds: Seeds = None, json: Json = False) -> int:
    """Create a workspace: folders, a trawlnet.yaml with every key explained, seeds.txt."""
    create(workspace, "web")
    for name in _FOLDERS:
        make_directory(workspace / name)
    made = _write_new(workspace / "trawlnet.yaml", config_text())
    made += _write_new(workspace / SEEDS, _SEEDS_TEXT)
    if seeds:
        with (workspace / SEEDS).open("a", encoding="utf-8") as file:
            file.writelines(f"{seed}\n" for seed in seeds)
    if json:
        emit({"workspace": str(workspace), "made": [str(path) for path in made]})
        return 0
    for path in made:
        say(f"made {shown(path)}")
    say(f"edit {shown(workspace / 'trawlnet.yaml')} and {shown(workspace / SEEDS)}, then:")
    say(f"  trawlnet web crawl -w {shown(workspace)}")
    return 0


def _write_new(path: Path, text: str) -> list[Path]:
    """Write a file unless it exists."""
    if path.exists():
        return []
    path.write_text(text, "utf-8")
    return [path]


def config_text() -> str:
    """The section `web:` with every key at its default, as a comment."""
    lines = ["# Everything here is optional; a line without its # is in force.", "web:"]
    lines += _lines(WebConfig, "  ")
    return "\n".join(lines) + "\n"


def _lines(model: type[BaseModel], indent: str) -> Iterator[str]:
    for name, field in model.model_fields.items():
        kind = field.annotation
        if isinstance(kind, type) and issubclass(kind, BaseModel):
            yield f"{indent}{name}:"
            yield from _lines(kind, indent + "  ")
            continue
        if field.description:
            margin = f"{indent}# "
            yield from textwrap.wrap(
                field.description, _WIDTH, initial_indent=margin, subsequent_indent=margin
            )
        yield f"{indent}# {name}: {_written(field)}"


def _written(field: FieldInfo) -> str:
    value = field.get_default(call_default_factory=True)
    return _flow(list(value) if isinstance(value, tuple) else value)


def _flow(value: Any) -> str:
    return written(value.value if isinstance(value, Enum) else value)


CONFIGURE = Verb(
    configure,
    "web configure -w ./site https://example.org/",
    (*PLAIN, Exit.NO_WORKSPACE),
    "web",
)
