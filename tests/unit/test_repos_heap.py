"""The heap gives large pieces back, also those that came and went before."""

from __future__ import annotations

import subprocess
import sys

import pytest

from trawlnet.crawlers.repos.visiting.heap import steady_heap

# In a process of its own: the setting lasts. Pieces of growing size, each let go before the next,
# teach an unset heap to keep them; small ones in between, which stay, pin it down.
KEPT = """
import sys
from pathlib import Path
from resource import getpagesize
from trawlnet.crawlers.repos.visiting.heap import steady_heap

def in_use():
    return int(Path("/proc/self/statm").read_text().split()[1]) * getpagesize()

if sys.argv[1] == "steady":
    assert steady_heap()
for megabytes in range(2, 16):
    bytearray(megabytes << 20)
before = in_use()
bodies, small = [], []
for _ in range(40):
    body = bytearray(4 << 20)
    bodies.append(body)
    small.append(bytes(100_000))
del body
bodies.clear()
print(in_use() - before)
"""


def kept_after(how: str) -> int:
    command = [sys.executable, "-c", KEPT, how]
    return int(subprocess.run(command, capture_output=True, check=True, text=True).stdout)


def test_memory_of_large_bodies_goes_back_to_the_system() -> None:
    if not steady_heap():
        pytest.skip("this C library decides for itself")
    assert kept_after("steady") < 24 << 20
    # Without the setting, or the test would show nothing:
    assert kept_after("unset") > 100 << 20
