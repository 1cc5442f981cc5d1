"""The demo succeeds, leaves no process behind, and each of its checks can fail."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.docs.blocks import blocks
from tests.docs.session import agrees
from tests.support.program import PATIENCE, wait_until
from trawlnet.archive.format.rca import encode_block, parse_block
from trawlnet.archive.segment_file import check
from trawlnet.archive.writer import SegmentWriter

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

from demo_checks import (  # noqa: E402 - Needs the path set above.
    Check,
    Kill,
    Truth,
    archived,
    check_archive,
    check_failures,
    check_manners,
    check_table,
)


def demo(folder: Path) -> list[str]:
    command = [sys.executable, str(ROOT / "scripts" / "demo.py"), "--folder", str(folder)]
    return [*command, "--seed", "9", "--scale", "0.4"]


@pytest.fixture(scope="module")
def finished(
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[Path, subprocess.CompletedProcess[str]]:
    folder = tmp_path_factory.mktemp("demo") / "files"
    return folder, subprocess.run(demo(folder), capture_output=True, text=True, timeout=240)


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
    assert done.stdout.count("  ok  ") == 10
    assert "FAILED" not in done.stdout
    assert "Nothing was lost" in done.stdout
    assert not alive(folder)


def test_the_readme_shows_what_the_demo_prints(finished: tuple[Path, Any]) -> None:
    """Of a larger network: its figures and largest collections differ."""
    folder, done = finished
    printed = [_drawn(line, str(folder)) for line in (done.stdout + done.stderr).splitlines()]
    (block,) = [one for one in blocks() if one.page == "README.md" and ".demo/net" in one.text]
    for line in block.text.splitlines():
        # No server of the small network is dead, so that no task is given up there.
        if not line.startswith("hint: "):
            assert any(agrees(_drawn(line, "./.demo"), one) for one in printed), line


def _drawn(line: str, folder: str) -> str:
    line = re.sub(r"│ [a-z]\S+ ", "│ NAME ", line.replace(folder, ".demo"))
    return re.sub("─+", "─", line).strip()


def test_a_demo_that_is_stopped_takes_its_processes_along(tmp_path: Path) -> None:
    folder = tmp_path / "files"
    process = subprocess.Popen(demo(folder), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_until((folder / "net").exists, "its workspace")
    process.send_signal(signal.SIGTERM)
    assert process.wait(PATIENCE) == 143
    assert not alive(folder)


def failed(checks: Iterable[Check]) -> set[str]:
    return {check.what for check in checks if not check.good}


def of_archive(files: Path, truth: Truth) -> set[str]:
    return failed(check_archive(files / "net", truth))


def rewrite(files: Path, change: Callable[[list[bytes]], list[bytes]]) -> None:
    """The archive anew, with other blocks."""
    archive = files / "net" / "archive"
    (path,) = archive.glob("*.rca")
    data = path.read_bytes()
    blocks = [data[block.offset : block.end] for block in archived(files / "net")]
    path.unlink()
    writer = SegmentWriter(archive, lambda: 1.0)
    writer.append([check(block) for block in change(blocks)])
    writer.close()


def test_a_lost_wrong_or_doubled_repository_fails_its_check(files: Path, tmp_path: Path) -> None:
    truth = Truth.read(files / "manifest.json")
    assert of_archive(files, truth) == set()

    def fresh(name: str) -> Path:
        return Path(shutil.copytree(files, tmp_path / name))

    def without_records(block: bytes) -> bytes:
        head = parse_block(block)
        return encode_block(head.did, head.pds, head.rev, head.crawled_at_us, [])

    lost = fresh("lost")
    rewrite(lost, lambda blocks: blocks[1:])
    assert of_archive(lost, truth) == {EVERY, EXACTLY}

    fewer = fresh("fewer")
    rewrite(fewer, lambda blocks: [without_records(one) for one in blocks])
    assert of_archive(fewer, truth) == {EXACTLY}

    doubled = fresh("doubled")
    rewrite(doubled, lambda blocks: [*blocks, *blocks])
    assert of_archive(doubled, truth) == {"only what the kill interrupted was written twice"}

    made_up = replace(truth, liars=frozenset(truth.repos))
    assert of_archive(files, made_up) == {"no made-up repository was believed"}

    flipped = fresh("flipped")
    segment = next((flipped / "net" / "archive").glob("*.rca"))
    data = bytearray(segment.read_bytes())
    data[-40] ^= 1
    segment.write_bytes(data)
    assert of_archive(flipped, truth) == {"every byte of the archive is as it was written"}


EVERY = "every repository is there"
EXACTLY = "each has exactly its records, collection by collection"


def test_a_table_with_a_record_too_many_or_too_few_fails_its_check(files: Path) -> None:
    truth = Truth.read(files / "manifest.json")
    counts = Counter[str]()
    for records in truth.repos.values():
        counts.update(records)
    rows = [{"collection": name, "records": str(number)} for name, number in counts.items()]
    assert check_table(truth, rows).good
    more = {**rows[0], "records": int(rows[0]["records"]) + 1}
    for wrong in (rows[1:], [more, *rows[1:]], []):
        assert not check_table(truth, wrong).good


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
    times = [1e9 + n * gap for n in range(100)]
    rows = [
        {"host": "h", "path": f"/getRepo/{n}", "time": at, "since": at}
        for n, at in enumerate(times)
    ]
    kill = Kill(rows[settled - 1]["time"] + gap / 2 if settled > 49 else 1e9 + 2.475, settled)
    if again:
        rows.append(rows[3] | {"time": 1e9 + 60, "since": 1e9 + 60})
    log = tmp_path / "requests.jsonl"
    log.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert failed(check_manners(log, 20.0, kill)) == what
