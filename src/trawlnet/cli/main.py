"""`trawlnet`: finds the command, and is the one place where a command's trouble ends up."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import Any

from trawlnet.cli.errors import tell
from trawlnet.cli.talk import mute_stdout

# A command of one crawler does not wait for the others to be read in.
_GROUPS = ("repos", "pds", "ids", "web", "fleet", "sim")


def main() -> None:
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
    if arguments[0] in _GROUPS:
        from typer.main import get_group

        group = get_group(import_module(f"trawlnet.cli.{arguments[0]}").app)
        name = f"trawlnet {arguments[0]}"
        return group(arguments[1:], prog_name=name, standalone_mode=False)
    from trawlnet.cli.whole import app

    return app(arguments, prog_name="trawlnet", standalone_mode=False)
