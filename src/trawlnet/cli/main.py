"""`trawlnet`: finds the command, and is the one place where a command's trouble ends up."""

from __future__ import annotations

import gc
import os
import sys
from copy import copy
from importlib import import_module
from typing import TYPE_CHECKING, Any

from trawlnet.cli.errors import tell
from trawlnet.cli.talk import mute_stdout

if TYPE_CHECKING:
    from typer import Typer

# A command of one crawler does not wait for the others to be read in.
_GROUPS = ("repos", "pds", "ids", "web", "fleet", "sim")
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
    if arguments[0] in _GROUPS:
        from typer.main import get_group

        app = import_module(f"trawlnet.cli.{arguments[0]}").app
        group = get_group(_narrowed(app, arguments[1:2]))
        name = f"trawlnet {arguments[0]}"
        return group(arguments[1:], prog_name=name, standalone_mode=False)
    from trawlnet.cli.whole import app

    return app(arguments, prog_name="trawlnet", standalone_mode=False)


def _narrowed(app: Typer, verb: list[str]) -> Typer:
    """The app with the command that is asked for alone: the flags of all others need not be read.
    Whole if there is none of that name."""
    named = [one for one in app.registered_commands if [one.name] == verb]
    if not named:
        return app
    narrow = copy(app)
    narrow.registered_commands = named
    return narrow
