"""On a system that is not Linux: what only Linux has is taken away, and crawls come home."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.support.program import PATIENCE, Ran, environment, started, trawlnet, wait_until
from tests.support.repos.run import blocks_written
from tests.support.web.site import captures

# Before anything of ours is imported, as it would be there.
ABSENT = """
import ctypes, fcntl, os, socket
for place, names in (
    (fcntl, "F_OFD_SETLK F_OFD_SETLKW F_OFD_GETLK"),
    (os, "O_TMPFILE sched_getscheduler sched_setscheduler sched_param sched_getaffinity"
         " posix_fallocate posix_fadvise copy_file_range eventfd memfd_create pidfd_open"),
    (socket, "TCP_INFO SO_RCVLOWAT SO_INCOMING_CPU TCP_QUICKACK TCP_USER_TIMEOUT"),
):
    for name in names.split():
        if hasattr(place, name):
            delattr(place, name)

class Library(ctypes.CDLL):
    def __getattr__(self, name):
        if name in ("syncfs", "mallopt", "malloc_trim"):
            raise AttributeError(name)
        return super().__getattr__(name)

ctypes.CDLL = Library
import pathlib
read_bytes = pathlib.Path.read_bytes
def read(path):
    if str(path).startswith("/proc"):
        raise FileNotFoundError(2, "not here", str(path))
    return read_bytes(path)
pathlib.Path.read_bytes = read
from trawlnet.cli.main import main
main()
"""


def elsewhere(*words: object) -> Ran:
    done = subprocess.run(
        [sys.executable, "-c", ABSENT, *map(str, words)],
        capture_output=True,
        text=True,
        env=environment(),
        timeout=PATIENCE,
    )
    return Ran(done.returncode, done.stdout, done.stderr)


def test_doctor_says_what_is_absent() -> None:
    found = {row["what"]: row["mark"] for row in elsewhere("doctor", "--json").rows}
    here = {row["what"]: row["mark"] for row in trawlnet("doctor", "--json").rows}
    assert found["native core"] == here["native core"]
    for what in ("syncfs", "batch threads", "low-water marks"):
        assert found[what] == "missing"


def test_repositories_come_home(network: Any, tmp_path: Path) -> None:
    # Each is too large for so little memory, and goes to a file first.
    ran = elsewhere(*network.crawl(tmp_path, "--memory-limit", "16MB"))
    assert ran.code == 0, ran.err
    assert set(blocks_written(tmp_path)) == network.repositories


def test_pages_come_home_and_are_scraped(tmp_path: Path) -> None:
    with started("sim", "web", "--seed", 3, "--scale", 0.1, folder=tmp_path) as world:
        wait_until(lambda: world.out.endswith("\n"), "the ready line")
        seeds = json.loads(world.out)["seeds"]
        quick = ("--req-per-sec", 100, "--concurrency", 16, "--max-depth", 1)
        where = ("-w", tmp_path / "site", "--allow-private-hosts", *quick)
        ran = elsewhere("web", "crawl", *where, *seeds, "--json")
        assert ran.code in (0, 3), ran.err
        assert ran.rows[-1]["ending"] == "done"
    assert captures(tmp_path / "site")
