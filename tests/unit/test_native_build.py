"""A build without zstd works, says what it lacks, and leaves zstd to Python's own."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.child import ROOT

_TELLS = """
from trawlnet.archive.format import repoblock
from trawlnet.native import loader, zstd
frame = zstd.FrameWriter(3, False).frame(b"text")
print(repoblock.backend(), loader.has_zstd, loader.block_encoder(), zstd.ZstdError.__module__)
print(zstd.read_frame(frame, 4))
"""


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_a_build_without_zstd_says_so_and_works(tmp_path: Path) -> None:
    package = tmp_path / "lib" / "trawlnet"
    shutil.copytree(ROOT / "src" / "trawlnet", package, ignore=shutil.ignore_patterns("*.so"))
    env = {**os.environ, "TRAWLNET_ZSTD": "0", "PYTHONPATH": str(package.parent)}
    env.pop("TRAWLNET_NATIVE", None)
    build = ["setup.py", "-q", "build_ext", "--build-lib", package.parent]
    build += ["--build-temp", tmp_path / "temp"]
    made = subprocess.run(
        [sys.executable, *build], cwd=ROOT, env=env, capture_output=True, text=True, check=True
    )
    assert "built without zstd" in made.stderr and "apt install libzstd-dev" in made.stderr
    ran = subprocess.run(
        [sys.executable, "-c", _TELLS], cwd=tmp_path, env=env, capture_output=True, check=True
    )
    assert ran.stdout.split() == [b"native", b"False", b"None", b"backports.zstd", b"b'text'"]
    env["TRAWLNET_NATIVE"] = "require"
    failed = subprocess.run(
        [sys.executable, *build, "--force"], cwd=ROOT, env=env, capture_output=True
    )
    assert failed.returncode and b"apt install libzstd-dev" in failed.stderr
