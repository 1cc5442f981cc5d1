"""`trawlnet`: finds the command, and is the one place where a command's trouble ends up."""

from __future__ import annotations

import gc
import os
import sys
from typing import Any

from trawlnet.cli.commands import TRAWLNET
from trawlnet.cli.common.errors import tell
from trawlnet.cli.common.output import mute_stdout
from trawlnet.cli.lazy import Group, GroupRow

# Objects made between two looks for cycles. Modules are made of 200,000, and they stay.
_GARBAGE = 300_000


def main() -> None:
    gc.set_threshold(_GARBAGE)
    # None is used, and to find them is to read what every installed package says of itself.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    sys.exit(run(sys.argv[1:]))


def run(arguments: list[str]) -> int:
    """Run one command line; returns the exit code."""
    try:
        code = _run(arguments or ["--help"])
        sys.stdout.flush()
    except BrokenPipeError:
        mute_stdout()
        return 1
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - bugs become one line, too.
        return tell(error, as_json="--json" in arguments)
    return code if isinstance(code, int) else 0


def _run(arguments: list[str]) -> Any:
    if arguments == ["--version"]:  # What people type first.
        arguments = ["version"]
    for row in TRAWLNET.rows:
        # By itself: to pass the options of the group above it, typer would import pydantic.
        if isinstance(row, GroupRow) and row.name == arguments[0]:
            name = f"trawlnet {row.name}"
            return Group(row)(arguments[1:], prog_name=name, standalone_mode=False)
    return Group(TRAWLNET)(arguments, prog_name="trawlnet", standalone_mode=False)
