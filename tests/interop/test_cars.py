"""The CARs that `repos car` makes are what two other implementations take for the repository."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import tempfile
import warnings
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from tests.support.repos.living import LivingArchive, LivingRepo
from tests.support.repos.made_segments import NOW
from tests.support.repos.provable import KEY
from tests.support.servers import require
from trawlnet.archive.compact import compact
from trawlnet.atproto.cid import cid_of
from trawlnet.cli.main import run

PACKAGES = ("@atproto/repo@0.9.1", "@atcute/repo@1.0.2")
READER = Path(__file__).with_name("read_cars.mjs")
INSTALL_SECONDS = 300


@pytest.fixture(scope="module")
def modules() -> Path:
    """Installed once for all runs, beside other temporary files. Without Node.js or the registry
    the tests are skipped with a warning, and under CI they fail."""
    require("node")
    npm = require("npm")
    name = sha256(" ".join(PACKAGES).encode()).hexdigest()[:16]
    folder = Path(tempfile.gettempdir()) / f"trawlnet-npm-{os.getuid()}-{name}"
    folder.mkdir(mode=0o700, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / ".ready").exists():
            command = [npm, "install", "--prefix", str(folder), "--no-audit", "--no-fund"]
            done = subprocess.run(
                [*command, "--ignore-scripts", *PACKAGES],
                capture_output=True,
                text=True,
                timeout=INSTALL_SECONDS,
            )
            if done.returncode:
                unreachable(done.stderr)
            (folder / ".ready").touch()
    return folder


def unreachable(said: str) -> None:
    message = f"npm cannot install {' and '.join(PACKAGES)}: {said.strip()[-300:]}"
    if os.environ.get("CI"):
        pytest.fail(message)
    warnings.warn(message, stacklevel=2)
    pytest.skip(message)


def read_by_others(modules: Path, jobs: list[dict[str, str]]) -> list[dict[str, Any]]:
    ran = subprocess.run(
        ["node", str(READER), str(modules)],
        input="".join(json.dumps(job) + "\n" for job in jobs),
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert ran.returncode == 0, ran.stderr
    return [json.loads(line) for line in ran.stdout.split("\n")[:-1]]


def cars_of(archive: Path, lives: list[LivingRepo], folder: Path) -> list[dict[str, str]]:
    folder.mkdir()
    jobs = []
    for life in lives:
        car = folder / f"{life.did[-4:]}.car"
        assert run(["repos", "car", str(archive), "--did", life.did, "-o", str(car)]) == 0
        jobs.append({"car": str(car), "did": life.did, "key": KEY.public.did_key})
    return jobs


def test_two_other_implementations_read_them_full_changed_and_folded(
    tmp_path: Path, modules: Path
) -> None:
    past = LivingArchive(tmp_path / "archive", 4, odd=0.0)
    for stage in ("changed", "folded", "changed again"):
        if stage == "folded":
            assert compact(past.folder, lambda: NOW).folded
        if stage == "changed again":
            past.go_on()
        jobs = cars_of(past.folder, past.lives, tmp_path / stage)
        for life, found in zip(past.lives, read_by_others(modules, jobs), strict=True):
            records = {path: str(cid_of(data)) for path, data in life.truth.items()}
            expected = {"rev": life.rev, "head": str(life.head()), "records": records}
            assert found["reference"] == expected, stage
            assert found["other"] == {"records": records}, stage


def test_they_would_have_noticed(tmp_path: Path, modules: Path) -> None:
    """Another key, and one byte of a record that is not what it was."""
    past = LivingArchive(tmp_path / "archive", 5, 2, odd=0.0)
    jobs = cars_of(past.folder, past.lives, tmp_path / "cars")
    jobs[0]["key"] = "did:key:zQ3shokFTS3brHcDQrn82RUDfCZESWL1ZdCEJwekUDPQiYBme"
    spoilt = Path(jobs[1]["car"])
    data = bytearray(spoilt.read_bytes())
    data[-1] ^= 1
    spoilt.write_bytes(data)
    found = read_by_others(modules, jobs)
    assert "error" in found[0]["reference"]
    assert "error" in found[1]["reference"] or "error" in found[1]["other"]
