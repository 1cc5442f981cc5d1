"""The demo succeeds, leaves no process behind, and each of its checks can fail."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

from demo_checks import (  # noqa: E402 - Needs the path set above.
    Check,
    Kill,
    Truth,
    check_archive,
    check_failures,
    check_manners,
)

HERE = "each is what its server sends when asked again"  # The network is down by then.


def demo(folder: Path) -> list[str]:
    command = [sys.executable, str(ROOT / "scripts" / "demo.py"), "--folder", str(folder)]
    return [*command, "--seed", "9", "--scale", "0.4"]


@pytest.fixture(scope="module")
def finished(
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[Path, subprocess.CompletedProcess[str]]:
    folder = tmp_path_factory.mktemp("demo") / "files"
    return folder, subprocess.run(demo(folder), capture_output=True, text=True, timeout=150)


@pytest.fixture
def files(finished: tuple[Path, Any], tmp_path: Path) -> Path:
    return Path(shutil.copytree(finished[0], tmp_path / "files"))


def alive(folder: Path) -> list[str]:
    """Processes that name the demo's folder."""
    found = []
    for line in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = line.read_bytes().decode(errors="replace")
        except OSError:
            continue
        if str(folder) in words and int(line.parent.name) != os.getpid():
            found.append(words)
    return found


def test_the_demo_succeeds_and_says_so(finished: tuple[Path, Any]) -> None:
    folder, done = finished
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("  ok  ") == 8
    assert "FAILED" not in done.stdout
    assert "Nothing was lost" in done.stdout
    assert not alive(folder)


def test_a_demo_that_is_stopped_takes_its_processes_along(tmp_path: Path) -> None:
    folder = tmp_path / "files"
    process = subprocess.Popen(demo(folder), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 60
    while not (folder / "net").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    assert process.wait(60) == 143
    assert not alive(folder)


def failed(checks: Iterable[Check]) -> set[str]:
    return {check.what for check in checks if not check.good} - {HERE}


def of_archive(files: Path, truth: Truth) -> set[str]:
    return failed(check_archive(files / "net", truth))


Rows = list[dict[str, Any]]


def rewrite(files: Path, change: Callable[[Rows], Rows]) -> None:
    index = files / "net" / "archive" / "index.jsonl"
    rows = change([json.loads(line) for line in index.read_text().splitlines()])
    index.write_text("".join(json.dumps(row) + "\n" for row in rows))


def test_a_lost_wrong_or_doubled_repository_fails_its_check(
    files: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("demo_checks._fetch", lambda pds, did: None)
    truth = Truth.read(files / "manifest.json")
    assert of_archive(files, truth) == set()
    key = next(iter(truth.repos))

    def fresh(name: str) -> Path:
        return Path(shutil.copytree(files, tmp_path / name))

    lost = fresh("lost")
    rewrite(lost, lambda rows: [row for row in rows if row["key"] != key])
    assert "every repository is there" in of_archive(lost, truth)

    flipped = fresh("flipped")
    for car in (flipped / "net" / "archive" / "cars").rglob("*.car"):
        car.write_bytes(car.read_bytes()[:-1] + b"\0")
    assert of_archive(flipped, truth) == {"each is a whole CAR: hashes, tree, owner"}

    doubled = fresh("doubled")
    elsewhere = key.partition("@")[0] + "@elsewhere"
    rewrite(doubled, lambda rows: [*rows, {**rows[0], "key": elsewhere}])
    assert of_archive(doubled, truth) == {"each is there once, with one content"}


def test_a_wrong_reason_fails_its_check(files: Path) -> None:
    truth = Truth.read(files / "manifest.json")
    right = dict(truth.inactive)
    assert right
    assert failed(check_failures(truth, right)) == set()
    wrong = right | {next(iter(right)): "not_found"}
    assert failed(check_failures(truth, wrong)) == {"every inactive account has its reason"}
    refused = right | {next(iter(truth.repos)): "timeout"}
    assert failed(check_failures(truth, refused)) == {"no repository is on record as a failure"}


@pytest.mark.parametrize(
    ("gap", "settled", "again", "what"),
    [
        (0.05, 50, False, set()),
        (0.025, 100, False, {"servers were asked 20 times a second at most"}),
        (0.05, 50, True, {"what was settled before the kill was not asked again"}),
        (0.05, 49, True, set()),  # The one asked again was the one not settled.
    ],
)
def test_haste_and_repeated_work_fail_their_checks(
    tmp_path: Path, gap: float, settled: int, again: bool, what: set[str]
) -> None:
    rows = [{"host": "h", "path": f"/{n}", "time": 1e9 + n * gap} for n in range(100)]
    kill = Kill(rows[settled - 1]["time"] + gap / 2 if settled > 49 else 1e9 + 2.475, settled)
    if again:
        rows.append({"host": "h", "path": "/3", "time": 1e9 + 60})
    log = tmp_path / "requests.jsonl"
    log.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert failed(check_manners(log, 20.0, kill, until=2e9)) == what
