"""Answers to questions about usage: help, the version, and mistakes in the command line.

A command's own module imports what the command runs with, and typer imports pydantic. None of it is
needed to show a text, so the texts are in usage.json, which `python tests/test_docs.py` writes.
"""

from __future__ import annotations

import json
import os
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
    numbers: list[str]  # Those of them whose value is a whole number.
    required: list[str]  # Those that must be there.
    arguments: list[str]  # Words without a flag that must be there, by their names.
    most: int | None  # Words without a flag that may be there; None if any number may.


def answer(arguments: Sequence[str]) -> int | None:
    """Print the answer and return the exit code; None if the command itself must run."""
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
    mistake = _wrong_command(usage, rest) if usage["commands"] else _wrong_words(usage, rest)
    if not mistake or not mistake.isprintable():
        return None
    complain(mistake, f"{program} --help", as_json="--json" in arguments)
    return _USAGE_EXIT


def usages() -> Mapping[str, Usage]:
    """Every group and command, by the words that one types after `trawlnet`."""
    known: dict[str, Usage] = json.loads(_FILE.read_text("utf-8"))
    return known


def help_line(path: str) -> str:
    """The first paragraph of a command's help, after its usage line; empty for a command that
    usage.json does not have yet."""
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
        return _wrong_flag(group, rest[0])
    close = ", ".join(map(repr, get_close_matches(rest[0], group["commands"])))
    return f"No such command {rest[0]!r}" + (f". Did you mean {close}?" if close else "")


def _wrong_words(usage: Usage, rest: Sequence[str]) -> str:
    """The mistake that the command would report first; empty if only the command can know."""
    words = iter(rest)
    values: list[tuple[str, str]] = []
    plain: list[str] = []
    for word in words:
        name, has_value, value = word.partition("=")
        if word in usage["valued"]:
            following = next(words, None)
            if following is None:
                return f"Option {word!r} requires an argument"
            values.append((word, following))
        elif word == "--" or (word.startswith("-") and not word.startswith("--")):
            return ""  # Short flags may be several in one.
        elif not word.startswith("--"):
            plain.append(word)
        elif mistake := _wrong_flag(usage, name):
            return mistake
        elif has_value:
            values.append((name, value))
    if "--help" in rest:
        return ""
    return _wrong_value(usage, values) or _missing(usage, values, plain) or _extra(usage, plain)


def _wrong_flag(usage: Usage, word: str) -> str:
    name = word.partition("=")[0]
    known = {*usage["switches"], *usage["valued"]}
    if name in known or not name.startswith("--"):
        return ""
    close = ", ".join(sorted(get_close_matches(name, [one for one in known if one[1] == "-"])))
    return f"No such option: {name}" + (f" (Possible options: {close})" if close else "")


def _wrong_value(usage: Usage, values: Sequence[tuple[str, str]]) -> str:
    for flag, value in values:
        # A word is certainly no number; the command judges anything else.
        if flag in usage["numbers"] and value.isalpha() and value.lower() not in _WORDS:
            return f"{flag}: expected a whole number, got {value!r}"
    return ""


_WORDS = {"inf", "infinity", "nan", "none", "null"}


def _missing(usage: Usage, values: Sequence[tuple[str, str]], plain: Sequence[str]) -> str:
    if any(name.startswith("TRAWLNET_") for name in os.environ):
        return ""  # A variable can stand for a flag.
    there = {flag for flag, _ in values}
    # In the order of the command's own checks: arguments come first.
    if missing := usage["arguments"][len(plain) :]:
        return f"Missing argument {missing[0]!r}"
    if missing := [flag for flag in usage["required"] if flag not in there]:
        return f"Missing option {missing[0]!r}"
    return ""


def _extra(usage: Usage, plain: Sequence[str]) -> str:
    extra = plain[usage["most"] :] if usage["most"] is not None else ()
    return f"Got unexpected extra argument(s) ({' '.join(extra)})" if extra else ""
