"""Every code block of the documentation is run, or checked, or says why it cannot be run."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest
import yaml

from tests.docs.blocks import ROOT, Block, blocks, commands, programs
from tests.docs.test_sessions import SESSIONS
from tests.frozen.ice import thaw
from trawlnet.cli.commands import TRAWLNET
from trawlnet.cli.common.sections import SECTIONS
from trawlnet.cli.dispatch import Group

SHELL = [block for block in blocks() if block.is_shell]
TREE = Group(TRAWLNET)
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))

# Why a block is not run, by what is in it; its command lines are checked nevertheless.
NOT_RUN = {
    r"you@example\.org|\.example\b|example\.org|bungie\.net|hacker-news|BUNGIE|… ?$|--plc-url …|=…":
    "it asks servers that are not here",
    r"ray://|\bray |redis://|redis-server|s3://|amqp://|postgresql://|CLICKHOUSE_ADDRESS":
    "it needs a cluster, or servers that stay",
    r"^make |pip install|^cd deploy|^install |~/\.local":
    "it changes the machine that it is run on",
    r"trawlnet dashboard|--dashboard|(pds|repos) serve|--metrics-address|curl ":
    "it serves until it is stopped",
    r"sim ids|ids crawl|ids store|ids status|ids/instances|instance_store":
    "it follows a world that grows in real time: tests/cli/test_ids_end_to_end.py does",
    r"pds/registry\.db|net/lexicons": "it needs a crawl of collections that only real PDSes have",
    r"--hosts sizes\.csv|bench/": "it takes hours, or gigabytes",
    r"trawlnet logs |repos query|sim atproto --seed 1 ":
    "what it prints depends on the crawl before it",
}  # fmt: skip


def _is_run(block: Block) -> bool:
    return block.page in SESSIONS or block.page.startswith("docs/tutorial/")


@pytest.mark.parametrize("block", SHELL, ids=str)
def test_a_block_of_commands_is_run_or_there_is_a_reason(block: Block) -> None:
    reasons = [why for what, why in NOT_RUN.items() if re.search(what, block.text, re.MULTILINE)]
    assert _is_run(block) or reasons, f"{block} is not run: run it in test_sessions, or say why not"


def test_no_reason_is_left_over() -> None:
    texts = [block.text for block in SHELL if not _is_run(block)]
    used = [what for what in NOT_RUN if any(re.search(what, text, re.M) for text in texts)]
    assert used == list(NOT_RUN)


@pytest.mark.parametrize("block", SHELL, ids=str)
def test_a_command_line_is_one_that_the_program_understands(block: Block) -> None:
    for command in commands(block):
        for name, *words in programs(command.line):
            if name == "trawlnet":
                _check(words, f"{block}: {command.line}")
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


def test_a_language_is_one_that_is_checked() -> None:
    known = {"", "console", "sh", "yaml", "json", "python", "sql"}
    assert {block.language for block in blocks()} <= known
