"""What a newcomer sees first."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.program import PATIENCE, at_once, environment, trawlnet
from trawlnet import loading
from trawlnet.cli.commands import TRAWLNET, CommandRow, GroupRow
from trawlnet.cli.common.errors import EXITS, Exit
from trawlnet.cli.dispatch import Group, dispatch
from trawlnet.cli.main import run
from trawlnet.cli.usage import answer, help_line, usages


def commands(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, inner in getattr(command, "commands", {}).items():
        yield (*path, name), inner
        yield from commands(inner, (*path, name))


EXTRAS = {module.partition(".")[0] for brought in loading.EXTRAS.values() for module in brought}
ALL = dict(commands(Group(TRAWLNET)))


def test_help_fits_one_screen() -> None:
    ran = trawlnet("--help")
    lines = ran.out.splitlines()
    assert ran.code == 0 and ran.err == ""
    assert len(lines) <= 24 and max(map(len, lines)) <= 80
    assert "repos" in ran.out and "Example: trawlnet" in ran.out


def test_without_arguments_help_is_shown() -> None:
    assert trawlnet().out == trawlnet("--help").out


def loaded_by(statement: str) -> set[str]:
    """The modules that are imported once a statement has run."""
    code = f"{statement}\nimport sys; print('loaded', *sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment()
    )
    return set(done.stdout.splitlines()[-1].split())


def rows(
    group: GroupRow, path: tuple[str, ...] = ()
) -> Iterator[tuple[tuple[str, ...], CommandRow]]:
    for row in group.rows:
        if isinstance(row, GroupRow):
            yield from rows(row, (*path, row.name))
        else:
            yield (*path, row.name), row


ROWS = dict(rows(TRAWLNET))


@pytest.mark.parametrize("path", ROWS, ids=" ".join)
def test_a_group_lists_its_commands_with_what_their_docstrings_say(path: tuple[str, ...]) -> None:
    assert ALL[path].help.split("\n\n")[0].replace("\n", " ") == help_line(" ".join(path))


# All of the package that an answer about usage may import.
LIGHT = {
    "trawlnet",
    "trawlnet.cli",
    "trawlnet.cli.common",
    "trawlnet.cli.common.complaint",
    "trawlnet.loading",
    "trawlnet.cli.main",
    "trawlnet.cli.usage",
    "trawlnet.net",
    "trawlnet.net.redact",
}


def test_a_question_about_usage_imports_no_command() -> None:
    """Help and mistyped words of every command and every group, in one process."""
    asked: list[list[str]] = [["--version"], ["version"], [], ["nonsense"], ["repos", "crwl"]]
    for path in [(), *ALL]:
        asked += [[*path, "--help"], [*path, "--nonsense"], [*path, "--helf", "--json"]]
    loaded = loaded_by(f"from trawlnet.cli.main import run\nfor one in {asked}: run(one)")
    assert {name for name in loaded if name.startswith("trawlnet")} == LIGHT
    slow = {"asyncio", "inspect", "pydantic", "typer", "aiohttp", "uvloop", "rich", "lmdb"}
    assert (slow | EXTRAS) & loaded == set()


def test_the_help_of_a_group_on_a_narrow_terminal_imports_none_of_its_commands() -> None:
    asked = [["--help"], *([one.name, "--help"] for one in TRAWLNET.rows if hasattr(one, "rows"))]
    narrow = "import os; os.environ['COLUMNS'] = '60'\nfrom trawlnet.cli.main import run"
    loaded = loaded_by(f"{narrow}\nfor one in {asked}: run(one)")
    assert "trawlnet.cli.commands" in loaded
    assert not {"pydantic", "aiohttp", "uvloop", "lmdb", "prometheus_client"} & loaded
    assert [
        name for name in loaded if re.match(r"trawlnet\.(crawlers\..*\.|sim|fleet)", name)
    ] == []


def test_help_on_a_narrow_terminal_fits_it() -> None:
    lines = trawlnet("repos", "crawl", "--help", COLUMNS="60").out.splitlines()
    assert len(lines) > 20 and max(map(len, lines[:-12])) <= 60


@pytest.mark.parametrize("json", [[], ["--json"]], ids=["text", "json"])
@pytest.mark.parametrize(
    "words",
    [
        ["--nonsense"],
        ["--nonsense=3"],
        ["--worksapce", "x"],
        ["-w", "--nonsense", "--other"],
        ["-w", "x", "word", "--nonsens", "--", "--more"],
        ["--workspace=x", "--nonsense"],
    ],
    ids=" ".join,
)
@pytest.mark.parametrize("path", [(), ("repos",), ("repos", "crawl"), ("web", "check")], ids=str)
def test_a_mistyped_flag_is_told_as_the_command_itself_would(
    path: tuple[str, ...], words: list[str], json: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    quick = answer([*path, *words, *json])
    said = capsys.readouterr()
    assert quick in (2, None) and said.out == ""
    assert dispatch([*path, *words, *json]) == 2
    assert quick is None or capsys.readouterr() == said


@pytest.mark.parametrize("path", [(), *(path for path in ALL if hasattr(ALL[path], "commands"))])
def test_a_mistyped_command_is_told_as_its_group_would(
    path: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    for word in ("nonsense", "crwl", "stat", "x'y"):
        assert answer([*path, word]) == 2
        said = capsys.readouterr()
        assert dispatch([*path, word]) == 2
        assert capsys.readouterr() == said


@pytest.mark.parametrize(
    "line",
    [
        "repos cat",
        "repos cat ./net",
        "repos cat ./net more words --did x",
        "repos cat --did",
        "web check",
        "web robots a b",
        "fleet scale",
        "repos crawl word",
        "repos crawl -w",
        "repos crawl --workers",
        "web crawl -w x --store",
    ],
)
def test_missing_and_extra_words_are_told_as_the_command_itself_would(
    line: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in os.environ if name.startswith("TRAWLNET_")]:
        monkeypatch.delenv(name)
    assert answer(line.split()) == 2
    quick = capsys.readouterr().err.splitlines()
    assert dispatch(line.split()) == 2
    assert capsys.readouterr().err.splitlines()[0] == quick[0]


NUMBERS = [
    (path, flag)
    for path, usage in usages().items()
    if path.partition(" ")[0] not in ("sim", "fleet")
    for flag in usage["numbers"]
]


@pytest.mark.parametrize("path", sorted({path for path, _ in NUMBERS}))
def test_a_word_for_a_number_is_a_mistake_to_the_command_too(
    path: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    where = ["-w", str(tmp_path)] if "-w" in usages()[path]["valued"] else []
    needed = ["word"] * len(usages()[path]["arguments"])
    for flag in [flag for there, flag in NUMBERS if there == path]:
        line = [*path.split(), *needed, *where, flag, "abc"]
        assert answer(line) == 2, line
        assert flag in capsys.readouterr().err
        assert dispatch(line) != 0, line
        capsys.readouterr()


def test_a_variable_can_stand_for_a_flag_that_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRAWLNET_REPOS_DID", "did:plc:abc")
    assert answer(["repos", "cat", "./net"]) is None


@pytest.mark.parametrize(
    "words",
    [
        ["--"],
        ["-x"],
        ["--workers", "--nonsense"],
        ["--bell\a"],
        ["--workers", "inf"],
        ["x", "--help"],
    ],
)
def test_what_only_the_command_can_judge_is_left_to_it(words: list[str]) -> None:
    assert answer(["repos", "crawl", *words]) is None


def test_commands_for_one_machine_need_no_extra() -> None:
    """They work where no extra is installed; simulated worlds and fleets have one of their own."""
    others = [("ids", "simulate"), ("ids", "law")]
    others += [path for path in ROWS if path[0] in ("fleet", "sim")]
    others.remove(("fleet", "plan"))
    asked = [[*path, "--help"] for path in ROWS if path not in others]
    loaded = loaded_by(
        f"import sys; sys.modules.update(dict.fromkeys({sorted(EXTRAS)}))\n"
        "from trawlnet.cli.dispatch import dispatch as do\n"
        f"assert {{do(one) for one in {asked}}} == {{0}}"
    )
    assert {"trawlnet.cli.crawl.run", "trawlnet.cli.dashboard.verb"} <= loaded


def test_a_crawl_loads_nothing_that_only_others_need() -> None:
    """A terminal's block, a config file and the server of metrics have imports of their own."""
    crawls = [f"trawlnet.crawlers.{name}.build" for name in ("ids", "pds", "repos", "web")]
    listing = f"import sys, trawlnet.cli.web.crawler, trawlnet.cli.crawl.run, {', '.join(crawls)}"
    loaded = subprocess.run(
        [sys.executable, "-c", f"{listing}; print(*sys.modules)"],
        capture_output=True,
        text=True,
        env=environment(),
    ).stdout.split()
    assert "trawlnet.crawlers.web.build" in loaded
    assert not {"rich", "yaml", "aiohttp", "starlette", "redis", "psycopg", "chdb"} & set(loaded)


@pytest.mark.parametrize("path", ALL, ids=" ".join)
def test_every_command_explains_itself_with_an_example(path: tuple[str, ...]) -> None:
    command = ALL[path]
    assert command.help
    assert f"Example: trawlnet {path[0]}" in command.epilog


@pytest.mark.parametrize("path", [path for path in ALL if not hasattr(ALL[path], "commands")])
def test_every_command_says_how_it_may_end(path: tuple[str, ...]) -> None:
    epilog = ALL[path].epilog
    for code in (Exit.DONE, Exit.ERROR, Exit.USAGE):
        assert f"  {int(code)}    {EXITS[code]}" in epilog


def test_a_command_read_alone_leaves_the_others_in_place(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["web", "check", "--help"]) == 0
    assert run(["web", "--help"]) == 0
    alone, whole = capsys.readouterr().out.split("Usage: trawlnet web [OPTIONS]")
    assert "--workspace" in alone
    assert "canonical" in whole and "crawl" in whole


def test_only_crawlers_that_exist_have_a_group() -> None:
    top = {path[0] for path in ALL}
    groups = {"repos", "pds", "ids", "web", "fleet", "sim"}
    assert top == groups | {
        "logs",
        "dashboard",
        "config",
        "doctor",
        "health",
        "completion",
        "manual",
        "version",
    }


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["repo"], "Did you mean 'repos'?"),
        (["repos", "crwl"], "Did you mean 'crawl'?"),
        (["repos"], "Missing command"),
        (["repos", "crawl", "--wokers", "3"], "--wokers"),
    ],
)
def test_a_mistyped_command_is_a_usage_error(arguments: list[str], words: str) -> None:
    ran = at_once(*arguments)
    assert ran.code == 2 and ran.out == ""
    assert ran.err.startswith("error: ") and words in ran.err
    assert "\nhint: trawlnet" in ran.err


def test_version_is_data() -> None:
    ran = trawlnet("version")
    assert (ran.code, ran.err) == (0, "") and ran.out.strip().count(".") == 2


def test_a_reader_that_has_had_enough_gets_no_traceback() -> None:
    line = f"{sys.executable} -m trawlnet config --json | head -n 1"
    done = subprocess.run(
        ["bash", "-c", line], capture_output=True, text=True, env=environment(), timeout=PATIENCE
    )
    assert done.stdout.count("\n") == 1
    assert "Traceback" not in done.stderr and "BrokenPipe" not in done.stderr
