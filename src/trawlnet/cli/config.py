"""`trawlnet config`: the effective value of every key, and where it came from."""

from __future__ import annotations

import json as jsonlib
from pathlib import Path
from typing import Annotated, Any

import typer

from trawlnet.cli.common.errors import Exit, UsageTrouble
from trawlnet.cli.common.flags import Folder, Json, default_workspace
from trawlnet.cli.common.output import emit, say
from trawlnet.cli.common.sections import SECTIONS, load_section
from trawlnet.cli.common.settings import suggestion
from trawlnet.cli.common.verb import PLAIN, Verb
from trawlnet.cli.common.workspace import Workspace, find, shown
from trawlnet.net.redact import redacted

Section = Annotated[
    str | None, typer.Argument(metavar="CRAWLER", help="Show only the section of this crawler.")
]


def show(*, crawler: Section = None, workspace: Folder, json: Json = False) -> int:
    """Show every config key: its value, and where it came from."""
    if crawler is not None and crawler not in SECTIONS:
        raise UsageTrouble(f"unknown crawler {crawler}", suggestion(crawler, SECTIONS, "crawlers"))
    _look_for(workspace, crawler or next(iter(SECTIONS)))
    for name in [crawler] if crawler else SECTIONS:
        rows = _rows(name, workspace)
        if json:
            for row in rows:
                emit(row)
        else:
            print(_table(name, rows))
    return 0


def _look_for(path: Path, crawler: str) -> None:
    """Show the defaults if there is no workspace yet; refuse a wrong -w."""
    if path.exists() or path != default_workspace():
        find(path, crawler)
    else:
        say(f"there is no workspace {shown(path)} yet: these are the values of a new one")


def _rows(crawler: str, path: Path) -> list[dict[str, Any]]:
    settings = load_section(Workspace(path, crawler), SECTIONS[crawler])
    values = redacted(settings.config.model_dump(mode="json"))
    return [
        {"key": f"{crawler}.{key}", "value": value, "source": settings.sources[key]}
        for key, value in values.items()
    ]


def _table(crawler: str, rows: list[dict[str, Any]]) -> str:
    """Valid YAML, so that a line can be copied into trawlnet.yaml."""
    lines = [f"{crawler}:"]
    for row in rows:
        pair = f"{row['key'].removeprefix(crawler + '.')}: {jsonlib.dumps(row['value'])}"
        lines.append(f"  {pair:<40} # {row['source']}")
    return "\n".join(lines)


CONFIG = Verb(show, "config repos -w ./net", (*PLAIN, Exit.NO_WORKSPACE))
