"""Completions and man pages have every command and every flag, and real shells take them."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.support.program import Ran, trawlnet
from tests.support.servers import require
from trawlnet.cli.commands import TRAWLNET
from trawlnet.cli.dispatch import Group
from trawlnet.cli.shells.completion import Shell, script
from trawlnet.cli.shells.manual import pages
from trawlnet.cli.usage import usages

KNOWN = usages()


def flags_of(path: str) -> set[str]:
    """From the commands themselves, without those that are accepted and not listed."""
    command: Any = Group(TRAWLNET)
    for word in path.split():
        command = command.commands[word]
    shown = [one for one in command.params if not getattr(one, "hidden", False)]
    found = {option for one in shown for option in one.opts if option.startswith("-")}
    return found | {"--help"}


FLAGS = {path: flags_of(path) for path in KNOWN}


@pytest.fixture(scope="module", params=Shell)
def shell(request: pytest.FixtureRequest) -> Shell:
    return Shell(request.param)


def completed(shell: Shell, lines: list[str], folder: Path) -> list[list[str]]:
    """What the shell offers at the end of each line; `FILES` where it would offer files."""
    program = require(shell)
    place = folder / f"completions.{shell}"
    place.write_text(script(shell, KNOWN))
    asked = {
        Shell.BASH: f"""source {place}
while IFS= read -r line; do
    read -ra COMP_WORDS <<< "$line"
    [ "${{line% }}" = "$line" ] || COMP_WORDS+=("")
    COMP_CWORD=$(( ${{#COMP_WORDS[@]}} - 1 ))
    _trawlnet
    [ ${{#COMPREPLY[@]}} = 0 ] && echo FILES || echo "${{COMPREPLY[@]}}"
done""",
        # Both functions are zsh's, and only there while somebody types.
        Shell.ZSH: f"""compdef() {{ : }}
compadd() {{ print -r -- "${{@:2}}" }}
_files() {{ print FILES }}
source {place}
while IFS= read -r line; do
    words=("${{(@s: :)line}}")
    CURRENT=${{#words}}
    _trawlnet
done""",
        Shell.FISH: f"""source {place}
function __fish_complete_path; echo FILES; end
while read -l line
    echo (complete -C "$line")
end
true""",
    }
    flags = {Shell.BASH: ["--norc"], Shell.ZSH: ["-f"], Shell.FISH: ["--no-config"]}[shell]
    ran = subprocess.run(
        [program, *flags, "-c", asked[shell]],
        input="".join(f"{line}\n" for line in lines),
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    assert ran.stderr == ""
    return [line.split() for line in ran.stdout.splitlines()]


def test_every_flag_of_every_command_is_offered(shell: Shell, tmp_path: Path) -> None:
    lines = [f"trawlnet {path} --".replace("  ", " ") for path in KNOWN]
    offers = completed(shell, lines, tmp_path)
    for path, offered in zip(KNOWN, offers, strict=True):
        assert {one for one in offered if one.startswith("--")} == {
            flag for flag in FLAGS[path] if flag.startswith("--")
        }, path


def test_every_command_of_every_group_is_offered(shell: Shell, tmp_path: Path) -> None:
    groups = [path for path, usage in KNOWN.items() if usage["commands"]]
    lines = [f"trawlnet {path} ".replace("  ", " ") for path in groups]
    offers = completed(shell, lines, tmp_path)
    assert [set(offered) for offered in offers] == [set(KNOWN[path]["commands"]) for path in groups]


def test_files_are_offered_where_a_value_is_wanted(shell: Shell, tmp_path: Path) -> None:
    lines = [
        "trawlnet repos crawl -w ",
        "trawlnet web crawl --json --workspace ",
        "trawlnet repos tally ",
    ]
    assert completed(shell, lines, tmp_path) == [["FILES"]] * 3


def test_bash_knows_whom_to_complete(tmp_path: Path) -> None:
    ran = trawlnet("completion", "bash")
    (tmp_path / "script").write_text(ran.out)
    said = subprocess.run(
        ["bash", "--norc", "-c", f"source {tmp_path}/script; complete -p trawlnet"],
        capture_output=True,
        text=True,
    )
    assert said.stdout == "complete -o default -F _trawlnet trawlnet\n", said.stderr
    assert "completions/trawlnet" in ran.out.partition("_trawlnet_usage")[0], "where to keep it"


@pytest.fixture(scope="module")
def manual(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Ran]:
    folder = tmp_path_factory.mktemp("man")
    return folder, trawlnet("manual", folder)


def test_there_is_a_page_for_every_command(manual: tuple[Path, Ran]) -> None:
    folder, ran = manual
    assert ran.code == 0 and ran.err.startswith(f"{len(KNOWN)} pages in ")
    names = {path.stem for path in (folder / "man1").iterdir()}
    assert names == {"-".join(["trawlnet", *path.split()]) for path in KNOWN}


@pytest.mark.parametrize("path", KNOWN)
def test_a_page_has_every_flag_and_command(path: str) -> None:
    text = pages(KNOWN)["-".join(["trawlnet", *path.split()]) + ".1"]
    plain = text.replace("\\-", "-")
    heads = re.findall(r"^\.SH (.+)$", text, re.MULTILINE)
    assert heads[:3] == ["NAME", "SYNOPSIS", "DESCRIPTION"]
    for word in (*FLAGS[path], *KNOWN[path]["commands"]):
        assert re.search(rf"^\.B ([^\n]*, )?{re.escape(word)}( |,|$)", plain, re.MULTILINE), word
    assert all(line.isascii() for line in text.splitlines())


def test_man_shows_the_pages_without_a_warning(manual: tuple[Path, Ran]) -> None:
    man, (folder, _) = require("man"), manual
    for page in sorted((folder / "man1").iterdir()):
        show = [man, "--warnings", "-E", "UTF-8", "-l", page]
        shown = subprocess.run(show, capture_output=True, text=True, check=True)
        assert shown.stderr == "", page.name
        assert "NAME" in shown.stdout and "SYNOPSIS" in shown.stdout


def test_another_shell_is_refused() -> None:
    ran = trawlnet("completion", "tcsh")
    assert ran.code == 2 and "tcsh" in ran.err
