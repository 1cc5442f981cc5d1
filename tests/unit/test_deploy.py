"""The files that start a fleet say what the program understands, and hold no secret."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

from trawlnet.cli.whole import app

DEPLOY = Path(__file__).parents[2] / "deploy"
FILES = sorted(DEPLOY.rglob("*.yaml"))


def values(document: Any) -> Iterator[Any]:
    yield document
    inner = document.values() if isinstance(document, dict) else document
    if isinstance(document, dict | list):
        for one in inner:
            yield from values(one)


def documents(path: Path) -> list[Any]:
    return list(yaml.safe_load_all(path.read_text()))


def command_lines(path: Path) -> list[list[str]]:
    return [
        one
        for document in documents(path)
        for one in values(document)
        if isinstance(one, list) and one[:1] == ["trawlnet"]
    ]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_command_line_is_one_that_the_program_understands(path: Path) -> None:
    group = typer.main.get_command(app)
    for _, crawler, verb, *flags in command_lines(path):
        known = {flag for one in group.commands[crawler].commands[verb].params for flag in one.opts}
        assert {flag.partition("=")[0] for flag in flags} <= known


def test_there_is_a_crawl_in_both_worlds() -> None:
    lines = [line for path in FILES for line in command_lines(path)]
    assert len(lines) == 2
    assert all(any(flag.startswith("--fleet=ray://") for flag in line) for line in lines)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_no_secret_is_written_down(path: Path) -> None:
    assert not re.search(r"://[^/\s:@'|]*:[^@\s'|]+@", path.read_text())
    for document in documents(path):
        assert document.get("kind") != "Secret"
        for one in values(document):
            name = one.get("name", "") if isinstance(one, dict) else ""
            if isinstance(name, str) and re.search(r"PASSWORD|SECRET|KEY_ID", name):
                assert name.endswith("_FILE")


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_kubernetes_objects_fit_their_schemas(path: Path) -> None:
    import kubernetes_validate as validate

    for document in documents(path):
        if document.get("apiVersion") in ("v1", "apps/v1", "batch/v1"):
            validate.validate(document, validate.latest_version(), strict=True)
