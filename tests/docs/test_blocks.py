"""Every code block of the documentation is run, or checked, or says why it cannot be run."""

from __future__ import annotations

import ast
import json
import re
import sqlite3
from contextlib import closing
from itertools import pairwise
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
import yaml

from tests.docs.blocks import ROOT, Block, blocks, commands, programs
from tests.docs.test_sessions import runs
from tests.frozen.ice import thaw
from trawlnet.cli.commands import TRAWLNET
from trawlnet.cli.common.sections import SECTIONS
from trawlnet.cli.dispatch import Group

SHELL = [block for block in blocks() if block.is_shell]
TREE = Group(TRAWLNET)
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))

# Why a command outside the sessions is not run; it is checked nevertheless.
NOT_RUN = {
    r"^(make|pip|docker|install|cd|cp|export|ray) ": "it changes the machine that it is run on",
    r"^trawlnet (completion|manual) .*~/": "it writes into the reader's home",
    r"^trawlnet doctor": "what it prints is the machine's",
    r"\.demo/net": "tests/crash/test_demo.py compares it with what the demo prints",
    r"you@example\.org|\.example\b|example\.org": "it asks servers that are not here",
    r"redis://|^redis-server|s3://|ray://": "it needs servers that stay, or a cluster",
    r"repos serve|-w \./net --host 0\.0\.0\.0": "it serves until it is stopped, and prints nothing",
}
RUN = [block for block in SHELL if runs(block) or block.page.startswith("docs/tutorial/")]
TOLD = {block.text for block in RUN}  # A page may repeat a transcript of another one.
ELSEWHERE = [
    (block, command.line)
    for block in SHELL
    if block.text not in TOLD
    for command in commands(block)
]


@pytest.mark.parametrize(("block", "line"), ELSEWHERE, ids=str)
def test_a_command_is_run_or_there_is_a_reason(block: Block, line: str) -> None:
    reasons = [why for what, why in NOT_RUN.items() if re.search(what, line)]
    assert reasons, f"{block} is not run: run it in test_sessions, or say why not"


def test_no_reason_is_left_over() -> None:
    used = [what for what in NOT_RUN if any(re.search(what, line) for _, line in ELSEWHERE)]
    assert used == list(NOT_RUN)


@pytest.mark.parametrize("block", SHELL, ids=str)
def test_a_command_line_is_one_that_the_program_understands(block: Block) -> None:
    for command in commands(block):
        for name, *words in programs(command.line):
            if name == "trawlnet":
                _check(words, f"{block}: {command.line}")
            elif name == "docker":
                _check_docker(words, f"{block}: {command.line}")
            elif name == "make":
                assert set(_plain(words)) <= TARGETS, f"{block}: {command.line}"
            elif name.endswith("python") and words[0].endswith(".py"):
                assert (ROOT / words[0]).exists(), f"{block}: {command.line}"


def _check(words: list[str], where: str) -> None:
    command: Any = TREE
    while hasattr(command, "commands"):
        assert words and words[0] in command.commands, f"{where}: there is no such command"
        command, words = command.commands[words[0]], words[1:]
    known = {option for one in command.params for option in (*one.opts, *one.secondary_opts)}
    for word in words:
        if re.match(r"--?[a-z]", word):
            assert word.partition("=")[0] in known | {"--help"}, f"{where}: there is no {word}"


COMPOSE = yaml.safe_load((ROOT / "deploy" / "compose.yaml").read_text())["services"]
PROFILES = {one for service in COMPOSE.values() for one in service.get("profiles", ())}


def _check_docker(words: list[str], where: str) -> None:
    """Its own flags are not known here: files, profiles, services and what the image runs are."""
    after = dict(pairwise(words))
    assert (ROOT / after.get("-f", "")).exists() or "logs" in words, where
    assert after.get("--profile", "ids") in PROFILES, f"{where}: there is no such profile"
    if words[0] == "compose" and words[1] in ("exec", "logs", "stop"):
        named = [word for word in words[2:] if not word.startswith("-")]
        assert named[0] in COMPOSE, f"{where}: there is no such service"
    elif words[0] in ("run", "exec") and "trawlnet" in words:
        _check(words[words.index("trawlnet") + 1 :], where)


def _plain(words: list[str]) -> list[str]:
    return [word for word in words if "=" not in word]


@pytest.mark.parametrize("block", [b for b in blocks() if b.language == "yaml"], ids=str)
def test_a_config_is_one_that_the_crawlers_take(block: Block) -> None:
    told = yaml.safe_load(block.text)
    assert set(told) <= set(SECTIONS)
    for section, keys in told.items():
        SECTIONS[section].model_validate(keys)


@pytest.mark.parametrize("block", [b for b in blocks() if b.language == "json"], ids=str)
def test_json_is_json(block: Block) -> None:
    for line in block.text.splitlines():
        json.loads(line.replace(", …", "").replace("…", "..."))


PYTHON = [block for block in blocks() if block.language == "python"]
ALONE = [block for block in PYTHON if not block.page.startswith("docs/tutorial/")]


@pytest.mark.parametrize("block", PYTHON, ids=str)
def test_python_is_python(block: Block) -> None:
    """Those of the tutorial are parts of a program that is run: see unit/test_examples.py."""
    ast.parse(dedent(block.text))


@pytest.mark.parametrize("block", ALONE, ids=str)
def test_python_that_stands_alone_runs(
    block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside the workspace of a finished crawl."""
    thaw("repos-done", tmp_path / "net")
    monkeypatch.chdir(tmp_path)
    exec(block.text, {"__name__": "__main__"})


@pytest.mark.parametrize("block", [b for b in blocks() if b.language == "sql"], ids=str)
def test_sql_finds_its_tables_and_columns(block: Block, tmp_path: Path) -> None:
    """In the registry of a crawl that has scanned."""
    registry = thaw("pds-killed-0.1.0", tmp_path) / "state" / "pds" / "registry.db"
    with closing(sqlite3.connect(registry)) as tables:
        for query in filter(None, map(str.strip, block.text.split(";"))):
            assert tables.execute(query).fetchall(), query


@pytest.mark.parametrize("block", [b for b in blocks() if b.language == "nginx"], ids=str)
def test_nginx_is_well_formed_and_hands_on_what_the_server_reads(block: Block) -> None:
    lines = [line.strip() for line in block.text.splitlines()]
    assert all(line.endswith((";", "{", "}")) for line in lines)
    assert block.text.count("{") == block.text.count("}")
    given = set(re.findall(r"proxy_set_header (\S+) ", block.text))
    assert given == {"Host", "X-Forwarded-For", "X-Forwarded-Proto"}


@pytest.mark.parametrize("block", [b for b in blocks() if b.language == "js"], ids=str)
def test_a_client_in_javascript_uses_packages_that_are_tried(block: Block) -> None:
    """`tests/interop` runs such clients."""
    tried = ROOT / "tests" / "interop" / "jetstream_clients" / "package.json"
    imported = re.findall(r'^import .* from "(.+)";', block.text, re.MULTILINE)
    assert imported and set(imported) <= set(json.loads(tried.read_text())["dependencies"])


def test_a_language_is_one_that_is_checked() -> None:
    """`text` is a picture, or output that no session comes to."""
    known = {"console", "sh", "yaml", "json", "python", "sql", "nginx", "js", "text"}
    assert {block.language for block in blocks() if not block.is_shell} <= known
