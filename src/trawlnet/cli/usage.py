"""Answers to questions about usage: help, the version, a mistyped command or flag.

A command's own module imports what the command runs with, and typer imports pydantic. None of it is
needed to show a text, so the texts are in usage.json, which `python tests/test_docs.py` writes.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import TypedDict

from trawlnet import __version__
from trawlnet.cli.common.complaint import complain

_FILE = Path(__file__).with_name("usage.json")
_COLUMNS = 80  # Of the texts. A narrower terminal needs other line breaks, and typer makes them.
_USAGE_EXIT = 2


class Usage(TypedDict):
    """A command or a group, as usage.json has it under the words that one types."""

    help: list[str]  # Lines.
    commands: list[str]  # Of a group.
    switches: list[str]
    valued: list[str]  # Flags that take a value.


def answer(arguments: Sequence[str]) -> int | None:
    """Print the answer and return the exit code; None when only the command itself can tell."""
    if arguments == ["--version"] or arguments == ["version"]:
        print(__version__)
        return 0
    known = usages()
    path, rest = _split(known, arguments)
    usage = known[path]
    program = f"trawlnet {path}".rstrip()
    if rest == ["--help"]:
        if shutil.get_terminal_size().columns < _COLUMNS:
            return None
        print(*usage["help"], sep="\n")
        return 0
    mistake = _wrong_command(usage, rest) if usage["commands"] else _wrong_flag(usage, rest)
    if not mistake or not mistake.isprintable():
        return None
    complain(mistake, f"{program} --help", as_json="--json" in arguments)
    return _USAGE_EXIT


def usages() -> Mapping[str, Usage]:
    """Every group and command, by the words that one types after `trawlnet`."""
    known: dict[str, Usage] = json.loads(_FILE.read_text("utf-8"))
    return known


def help_line(path: str) -> str:
    """The first paragraph of a command's help, behind the line on its usage; empty for one that
    is too new to be stored."""
    known = usages()
    if path not in known:
        return ""
    lines = known[path]["help"]
    start = lines.index("") + 1
    return " ".join(line.strip() for line in lines[start : lines.index("", start)])


def _split(known: Mapping[str, Usage], arguments: Sequence[str]) -> tuple[str, list[str]]:
    """The longest beginning that names a group or a command, and the rest."""
    path, rest = "", list(arguments)
    while rest and rest[0] in known[path]["commands"]:
        path = f"{path} {rest.pop(0)}".lstrip()
    return path, rest


def _wrong_command(group: Usage, rest: Sequence[str]) -> str:
    if not rest:
        return "Missing command"
    if rest[0].startswith("-"):
        return _wrong_flag(group, rest)
    close = ", ".join(map(repr, get_close_matches(rest[0], group["commands"])))
    return f"No such command {rest[0]!r}" + (f". Did you mean {close}?" if close else "")


def _wrong_flag(usage: Usage, rest: Sequence[str]) -> str:
    """What is wrong with the first long flag that is not known; empty if only typer can tell."""
    known = {*usage["switches"], *usage["valued"]}
    words = iter(rest)
    for word in words:
        name, _, _ = word.partition("=")
        if word in usage["valued"]:
            next(words, None)
        elif word == "--" or (word.startswith("-") and not word.startswith("--")):
            return ""  # Short flags may be several in one.
        elif word.startswith("--") and name not in known:
            long = [one for one in known if one.startswith("--")]
            close = ", ".join(sorted(get_close_matches(name, long)))
            return f"No such option: {name}" + (f" (Possible options: {close})" if close else "")
    return ""
