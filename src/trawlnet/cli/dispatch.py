"""Runs the named command; every error of a command is caught and printed here."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from typer.core import TyperGroup

from trawlnet.cli.commands import TRAWLNET, CommandRow, GroupRow
from trawlnet.cli.common.errors import report_error
from trawlnet.cli.common.output import mute_stdout
from trawlnet.cli.usage import help_line
from trawlnet.loading import load


class Group(TyperGroup):
    """Lists its commands from a table, and imports the one that is called."""

    def __init__(self, about: GroupRow) -> None:
        self._rows = about.rows
        self._path = "" if about is TRAWLNET else f"{about.name} "
        super().__init__(
            name=about.name,
            commands=_Commands(about.rows),  # type: ignore[arg-type]  # A mapping is all it takes.
            help=about.help,
            epilog=f"Example: trawlnet {about.example}",
            rich_markup_mode=None,
        )

    def list_commands(self, ctx: Any) -> list[str]:
        return [row.name for row in self._rows]

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(row.name, self._line(row)) for row in self._rows])

    def _line(self, row: CommandRow | GroupRow) -> str:
        return row.help if isinstance(row, GroupRow) else help_line(self._path + row.name)


class _Commands(Mapping[str, Any]):
    """Commands by name; each is built on its first use."""

    def __init__(self, rows: Sequence[CommandRow | GroupRow]) -> None:
        self._rows = {row.name: row for row in rows}
        self._made: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._made:
            self._made[name] = _command(self._rows[name])
        return self._made[name]

    def __contains__(self, name: object) -> bool:
        return name in self._rows

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)


def _command(row: CommandRow | GroupRow) -> Any:
    if isinstance(row, GroupRow):
        return Group(row)
    verb = load(row.place)
    if row.crawler:
        verb = verb(load(row.crawler))
    return verb.command(row.name)


def dispatch(arguments: list[str]) -> int:
    """Run the command; returns the exit code."""
    try:
        code = _run(arguments)
        sys.stdout.flush()
    except BrokenPipeError:
        mute_stdout()
        return 1
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - bugs become one line, too.
        return report_error(error, as_json="--json" in arguments)
    return code if isinstance(code, int) else 0


def _run(arguments: list[str]) -> Any:
    for row in TRAWLNET.rows:
        # By itself: to pass the options of the group above it, typer would import pydantic.
        if isinstance(row, GroupRow) and row.name == arguments[0]:
            name = f"trawlnet {row.name}"
            return Group(row)(arguments[1:], prog_name=name, standalone_mode=False)
    return Group(TRAWLNET)(arguments, prog_name="trawlnet", standalone_mode=False)
