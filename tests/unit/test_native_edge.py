"""The native code reads nothing behind a repository, however wide its reads are."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.support.child import ROOT
from tests.support.repos.made_repos import DID, REV
from trawlnet.atproto.cid import Cid, cid_of
from trawlnet.atproto.dagcbor import encode
from trawlnet.atproto.repository.node_plain import key_layer
from trawlnet.sim.repository.car import CarBlock, write_car
from trawlnet.sim.repository.commit import Commit

NATIVE = ROOT / "src" / "trawlnet" / "native"
FOLDERS = [NATIVE / name for name in ("repo", "json", "hash", "live")]
SHORTEST = Cid(b"")  # No name of a block; it costs the record, not the tree.


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
def test_nothing_behind_the_last_byte_is_read(tmp_path: Path) -> None:
    """Four times as wide as usual: no read leans on what has to follow a key."""
    program = compiled(tmp_path, 64)
    cars = [edge_car(length) for length in range(7, 80)]
    files = [tmp_path / f"{n}.car" for n in range(len(cars))]
    for file, car in zip(files, cars, strict=True):
        file.write_bytes(car)
    done = subprocess.run([program, *files], capture_output=True, text=True)
    assert done.returncode == 0, f"killed after {done.stdout.count(chr(10)) // 2} repositories"
    assert done.stdout.splitlines() == ["0 0"] * 2 * len(cars)


def compiled(folder: Path, width: int) -> Path:
    program = folder / "at_the_edge"
    sources = [
        path for one in FOLDERS for path in one.glob("*.c") if not path.name.startswith("module")
    ]
    flags = ["-std=gnu11", "-O0", f"-DCOPY_SLACK={width}", *(f"-I{one}" for one in FOLDERS)]
    driver = ROOT / "tests" / "native" / "at_the_edge.c"
    subprocess.run(["cc", *flags, "-o", program, driver, *sources, "-lm"], check=True)
    return program


def edge_car(length: int) -> bytes:
    """Its last block is a tree node, as short as can be behind its last key, of this length."""
    stem = b"a.b.c/" + b"x" * (length - 7)
    # Keys of the lowest layer only: those of any other stand in another node.
    keys = [
        key for end in b"abcdefghijklmnopqrstuvwxyz" if key_layer(key := stem + bytes((end,))) == 0
    ]
    rows = [{"k": keys[0], "p": 0, "t": None, "v": SHORTEST}]
    rows += [
        {"k": key[length - 1 :], "p": length - 1, "t": None, "v": SHORTEST} for key in keys[1:]
    ]
    node = encode({"e": rows[:1] if length % 2 else rows, "l": None})
    commit = Commit(DID, cid_of(node), REV, sig=bytes(64)).encode()
    blocks = [CarBlock(cid_of(data), data) for data in (commit, node)]
    return write_car([blocks[0].cid], blocks)
