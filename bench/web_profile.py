"""Where the time of a crawl goes: samples of py-spy, each given to its innermost room."""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

_RATE_HZ = 200
_MOST = 25  # Lines of a table.
# The first that matches a frame, from the innermost outwards, owns the sample.
_ROOMS = (
    ("store", r"trawlnet/stores/|lmdb"),
    ("sink", r"trawlnet/(captures|queues|storage)/"),
    ("html", r"trawlnet/webpage/html"),
    ("simhash", r"trawlnet/webpage/simhash"),
    ("keys", r"trawlnet/webpage/url|crawlers/web/visiting/recent_links"),
    ("robots", r"trawlnet/webpage/robots|crawlers/web/admission/robots"),
    ("policy", r"crawlers/web/(policy|caps|linking|budget)"),
    ("gate", r"engine/(gate|window)"),
    ("http", r"trawlnet/net/|aiohttp/|crawlers/metered"),
    ("observe", r"trawlnet/observe/"),
    ("engine", r"trawlnet/engine/"),
    ("crawlers", r"trawlnet/crawlers/"),
    ("start", r"importlib|trawlnet/cli/|typer|pydantic"),
)


def shares(command: Sequence[str], raw: Path, core: int, environment: Mapping[str, str]) -> str:
    """Runs the command under py-spy, and says which room its samples are in."""
    spy = str(Path(sys.executable).parent / "py-spy")
    recorded = [spy, "record", "-f", "raw", "-F", "-r", str(_RATE_HZ), "-o", str(raw), "--"]
    pinned = ["taskset", "-c", str(core), *recorded, *command]
    done = subprocess.run(pinned, capture_output=True, check=False, env=dict(environment))
    if done.returncode or not raw.exists():
        return f"no profile: {done.stderr.decode()[-300:]}"
    rooms, leaves = Counter[str](), Counter[str]()
    for line in raw.read_text().splitlines():
        stack, _, count = line.rpartition(" ")
        frames = stack.split(";")
        if frames[-1].startswith("_worker (concurrent"):  # A thread that waits for work.
            continue
        room = _room(frames)
        rooms[room] += int(count)
        leaves[f"{room:9} {frames[-1]}"] += int(count)
    return "\n".join(["by room:", *_lines(rooms), "", "by function:", *_lines(leaves)])


def _room(frames: Sequence[str]) -> str:
    for frame in reversed(frames):
        for room, pattern in _ROOMS:
            if re.search(pattern, frame):
                return room
    return "loop"


def _lines(counted: Counter[str]) -> list[str]:
    total = counted.total() or 1
    return [f"  {100 * count / total:5.1f} %  {name}" for name, count in counted.most_common(_MOST)]
