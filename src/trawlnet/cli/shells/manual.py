"""`trawlnet manual`: a man page for each command, from the same texts as its help."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated

from trawlnet import __version__
from trawlnet.cli.common.flags import argument
from trawlnet.cli.common.output import say
from trawlnet.cli.common.verb import Verb
from trawlnet.cli.usage import Usage, usages
from trawlnet.engine.durable import make_directory
from trawlnet.storage.files import replace_file

_SECTION = "man1"
# A name, then two spaces or more, then its words; a long name stands alone.
_ENTRY = re.compile(r"  (\S.*?)(?:  +(\S.*))?$")
_ROFF = {"\\": "\\e", "-": "\\-", "'": "\\(aq", "~": "\\(ti", "`": "\\(ga", "^": "\\(ha"}
_HEADS = {"Arguments:": "ARGUMENTS", "Options:": "OPTIONS", "Commands:": "COMMANDS"}

Folder = Annotated[Path, argument("DIR", "Folder; man1 is made in it.")]


def manual(folder: Folder) -> int:
    """Write a man page for each command into a folder.

    Read them with man -M DIR trawlnet-repos-crawl, or write them to ~/.local/share/man.
    """
    make_directory(folder / _SECTION)
    written = pages(usages())
    for name, text in written.items():
        replace_file(folder / _SECTION / name, text.encode())
    say(f"{len(written)} pages in {folder}: man -M {folder} trawlnet")
    return 0


def pages(known: Mapping[str, Usage]) -> dict[str, str]:
    """The text of each page by its file name."""
    return {f"{_name(path)}.1": _page(path, usage, known) for path, usage in known.items()}


def _name(path: str) -> str:
    return "-".join(["trawlnet", *path.split()])


def _page(path: str, usage: Usage, known: Mapping[str, Usage]) -> str:
    synopsis, *rest = usage["help"]
    about, parts, end = _parted(rest)
    summary = " ".join(_paragraph(about)).rstrip(".")
    lines = [
        f'.TH {_name(path).upper()} 1 "" "trawlnet {__version__}" "User Commands"',
        ".SH NAME",
        f"{_escaped(_name(path))} \\- {_escaped(summary)}",
        ".SH SYNOPSIS",
        f".B {_escaped(synopsis.removeprefix('Usage: '))}",
        ".SH DESCRIPTION",
        *_text(about),
    ]
    for head, entries in parts:
        lines += [f".SH {_HEADS[head]}", *_entries(entries)]
    lines += _ending(end)
    if others := _others(path, known):
        lines += [".SH SEE ALSO", ", ".join(f"\\fB{_escaped(one)}\\fR(1)" for one in others)]
    return "\n".join(lines) + "\n"


def _parted(lines: Sequence[str]) -> tuple[list[str], list[tuple[str, list[str]]], list[str]]:
    """The text before the lists, the lists by their headings, and the text after them."""
    about: list[str] = []
    parts: list[tuple[str, list[str]]] = []
    end: list[str] = []
    into = about
    for line in lines:
        if line in _HEADS:
            into = []
            parts.append((line, into))
        elif line.startswith("  Example: "):
            into = end
            into.append(line)
        else:
            into.append(line)
    return about, parts, end


def _paragraph(lines: Sequence[str]) -> Iterator[str]:
    """The first paragraph."""
    for line in lines:
        if line.strip():
            yield line.strip()
        elif lines.index(line) > 0:
            return


def _text(lines: Sequence[str]) -> Iterator[str]:
    waiting = False
    for line in lines:
        if not line.strip():
            waiting = True
            continue
        if waiting:
            yield ".PP"
            waiting = False
        yield _escaped(line.strip())


def _entries(lines: Sequence[str]) -> Iterator[str]:
    for line in lines:
        if entry := _ENTRY.fullmatch(line):
            yield ".TP"
            yield f".B {_escaped(entry[1])}"
            if entry[2]:
                yield _escaped(entry[2])
        elif line.strip():
            yield _escaped(line.strip())


def _ending(lines: Sequence[str]) -> Iterator[str]:
    """The example, which may be long, and the exit codes, which are a list."""
    is_codes = False
    for line in lines:
        if line.startswith("  Example: "):
            yield from (".SH EXAMPLE", _escaped(line.removeprefix("  Example: ")))
        elif line == "  Exit codes:":
            yield ".SH EXIT STATUS"
            is_codes = True
        elif is_codes and (code := re.match(r"\s+(\d+)\s+(.*)", line)):
            yield from (".TP", f".B {code[1]}", _escaped(code[2]))
        elif line.strip():
            yield _escaped(line.strip())


def _others(path: str, known: Mapping[str, Usage]) -> list[str]:
    """The group of a command, and the commands of a group."""
    below = [f"{path} {name}".strip() for name in known[path]["commands"]]
    above = [path.rpartition(" ")[0]] if path else []
    return [_name(one) for one in (*above, *below)]


def _escaped(text: str) -> str:
    """Escape a text for roff: backslashes, hyphens that are to be typed, a leading dot."""
    plain = "".join(_ROFF.get(one) or _ascii(one) for one in text)
    return f"\\&{plain}" if plain.startswith(".") else plain


def _ascii(letter: str) -> str:
    return letter if letter.isascii() else f"\\[u{ord(letter):04X}]"


MANUAL = Verb(manual, "manual ~/.local/share/man")
