"""`trawlnet completion`: a script that completes commands and flags, without starting trawlnet."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from trawlnet.cli.common.verb import Verb
from trawlnet.cli.usage import Usage, usages


class Shell(StrEnum):
    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


Name = Annotated[Shell, typer.Argument(metavar="bash|zsh|fish", help="The shell.")]


def completion(shell: Name) -> int:
    """Print a script that completes commands and flags in a shell.

    The script's first lines say where to save it.
    """
    print(script(shell, usages()), end="")
    return 0


def script(shell: Shell, known: Mapping[str, Usage]) -> str:
    """The shell's own part, after a function that lists what can follow the words so far."""
    head = Path(__file__).with_name(f"{shell}.sh").read_text("utf-8")
    table = _fish_table(known) if shell is Shell.FISH else _posix_table(known)
    # Behind the first comment: zsh looks for a mark in the first line.
    begin = re.match(r"(?:#.*\n)+", head)
    assert begin
    return f"{begin[0]}{table}{head[begin.end() :]}"


def _posix_table(known: Mapping[str, Usage]) -> str:
    lines = ["_trawlnet_usage() {", '    case "$1" in']
    for path, usage in known.items():
        sets = "; ".join(f"{name}='{words}'" for name, words in _words(usage).items())
        lines.append(f"        '{path}') {sets} ;;")
    return "\n".join([*lines, "    esac", "}", ""])


def _fish_table(known: Mapping[str, Usage]) -> str:
    lines = ["function _trawlnet_usage", '    switch "$argv[1]"']
    for path, usage in known.items():
        lines.append(f"        case '{path}'")
        lines += [
            f"            set -g _trawlnet_{name} {words}" for name, words in _words(usage).items()
        ]
    return "\n".join([*lines, "    end", "end", ""])


def _words(usage: Usage) -> dict[str, str]:
    return {
        "following": " ".join(usage["commands"]),
        "switches": " ".join(_shown(usage, usage["switches"])),
        "valued": " ".join(_shown(usage, usage["valued"])),
    }


def _shown(usage: Usage, flags: Sequence[str]) -> list[str]:
    """The flags that the help lists; hidden ones are left out."""
    listed = {word.rstrip(",") for line in usage["help"] for word in line.split()}
    return [flag for flag in flags if flag in listed]


COMPLETION = Verb(completion, "completion zsh > ~/.zfunc/_trawlnet")
