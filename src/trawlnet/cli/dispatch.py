"""Runs the command that is named, and is the one place where a command's trouble ends up."""

from __future__ import annotations

import sys
from typing import Any

from trawlnet.cli.commands import TRAWLNET, GroupRow
from trawlnet.cli.common.errors import tell
from trawlnet.cli.common.output import mute_stdout
from trawlnet.cli.group import Group


def dispatch(arguments: list[str]) -> int:
    """Run the command; returns the exit code."""
    try:
        code = _run(arguments)
        sys.stdout.flush()
    except BrokenPipeError:
        mute_stdout()
        return 1
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - bugs become one line, too.
        return tell(error, as_json="--json" in arguments)
    return code if isinstance(code, int) else 0


def _run(arguments: list[str]) -> Any:
    for row in TRAWLNET.rows:
        # By itself: to pass the options of the group above it, typer would import pydantic.
        if isinstance(row, GroupRow) and row.name == arguments[0]:
            name = f"trawlnet {row.name}"
            return Group(row)(arguments[1:], prog_name=name, standalone_mode=False)
    return Group(TRAWLNET)(arguments, prog_name="trawlnet", standalone_mode=False)
