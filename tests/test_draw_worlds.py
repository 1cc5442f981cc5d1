"""`make worlds` goes on over its areas fairly, counts what it drew, and tells what it found."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[1]
DRAWN = """
from hypothesis import given, settings, strategies as st

@given(st.integers())
@settings(max_examples=7, database=None)
def test_it(number):
    assert {law}
"""
ENDLESS = """
import pathlib, time

def test_it():
    try:
        pathlib.Path("begun").touch()
        time.sleep(120)
    finally:
        pathlib.Path("tidied").touch()
"""


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project of its own, whose areas a test writes; without plugins that take long to load."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    plugins = "-p _hypothesis_pytestplugin -p pytest_timeout"
    (tmp_path / "pytest.ini").write_text(f"[pytest]\naddopts = {plugins}\n")
    (tmp_path / "scripts").mkdir()
    script = (PROJECT / "scripts" / "draw_worlds.py").read_text()
    (tmp_path / "scripts" / "draw_worlds.py").write_text(script)
    (tmp_path / "tests" / "random_worlds").mkdir(parents=True)
    return tmp_path


def area(tree: Path, name: str, text: str) -> None:
    (tree / "tests" / "random_worlds" / f"test_{name}.py").write_text(text)


def command(tree: Path, *flags: str) -> list[str]:
    return [sys.executable, str(tree / "scripts" / "draw_worlds.py"), *flags]


@pytest.mark.slow
def test_a_finding_is_told_and_the_other_areas_go_on(tree: Path) -> None:
    area(tree, "good", DRAWN.format(law="number == number"))
    area(tree, "awry", DRAWN.format(law="number is None"))  # The first, by its name.
    flags = ["--seconds", "120", "--workers", "1", "--json", str(tree / "summary.json")]
    process = subprocess.Popen(
        command(tree, *flags), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    lines = []
    while not any("worlds: good seed" in line for line in lines):
        lines.append(process.stdout.readline())
        assert lines[-1], lines
    process.send_signal(signal.SIGINT)
    lines += process.communicate(timeout=120)[0].splitlines()

    assert process.returncode == 1
    areas = {row["name"]: row for row in json.loads((tree / "summary.json").read_text())}
    assert areas["good"]["worlds"] == 7 * len(areas["good"]["seeds"]) > 0
    assert not areas["good"]["findings"]
    seed = areas["awry"]["seeds"][0]
    assert f"test_awry.py --timeout=3600 --hypothesis-seed={seed}" in areas["awry"]["findings"][0]
    assert any(line.startswith(f"finding: {areas['awry']['findings'][0]}") for line in lines)


def test_an_interrupt_lets_the_tests_tidy_up_and_gives_the_summary(tree: Path) -> None:
    area(tree, "endless", ENDLESS)
    process = subprocess.Popen(command(tree), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    deadline = time.monotonic() + 120
    while not (tree / "begun").exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=120)
    assert process.returncode == 0
    assert (tree / "tidied").exists()
    assert output.decode().splitlines()[-1].split() == ["endless", "0", "0", "0", "0"]


def test_an_area_that_does_not_exist_is_refused(tree: Path) -> None:
    area(tree, "good", DRAWN.format(law="True"))
    done = subprocess.run(
        command(tree, "--only", "goood"), capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert done.stderr == "error: no area goood; hint: good\n"
