"""What telling a viewer takes inside a busy crawl, by the CPU clocks of its own threads.

    .venv/bin/python bench/dashboard_inside.py [--hosts 3000] [--seconds 60]

The same crawl as in `dashboard.py`, in a process that adds up what it does only for a viewer: its
figures and its table of hosts made and written. Nothing else on the machine is in that figure, so
it holds where the difference of two windows of a busy crawl is lost in what else goes on. What
the event loop and the hand-over to a thread take is not in it: well below a millisecond a second.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dashboard import CRAWL, let_many_connect, serve
from trawlnet.observe import live
from trawlnet.observe.lane_table import read_table

_BEGINS = 30.0  # Seconds until every host has been asked something.
_TELL_EVERY = 1.0


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--hosts", type=int, default=3000)
    parser.add_argument("--seconds", type=int, default=60)
    given = parser.parse_args()
    let_many_connect()
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        ours, theirs = multiprocessing.Pipe()
        arguments = (given.hosts, folder, theirs)
        world = multiprocessing.Process(target=serve, args=arguments, daemon=True)
        world.start()
        port, hosts = ours.recv()
        workspace = folder / "net"
        workspace.mkdir()
        seeds = "".join(f"http://{host}:{port}/\n" for host in hosts)
        (workspace / "seeds.txt").write_text(seeds)
        command = [sys.executable, __file__, _COUNTED, str(folder / "spent.json")]
        command += ["web", "crawl", "-w", str(workspace), *CRAWL]
        crawl = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        time.sleep(_BEGINS)
        before = json.loads((folder / "spent.json").read_bytes())
        for _ in range(given.seconds):
            (workspace / "state" / "web" / live.WATCHED).touch()
            time.sleep(1.0)
        after = json.loads((folder / "spent.json").read_bytes())
        lanes = len(read_table((workspace / "state" / "web" / live.LANES).read_bytes()).rows)
        crawl.kill()
        crawl.wait()
        world.kill()
        report({name: after[name] - before[name] for name in after}, lanes)


def report(spent: dict[str, float], lanes: int) -> None:
    seconds = spent.pop("wall")
    print(f"of one core, over {seconds:.0f} s with a viewer and {lanes} lanes:")
    print(f"  the crawl in all: {spent.pop('all') / seconds:.2%}")
    print(f"    for the viewer: {sum(spent.values()) / seconds:.3%}")
    for name, one in spent.items():
        print(f"  {name:>16}: {one / seconds:.3%}", flush=True)


def counted(file: Path, arguments: list[str]) -> None:
    """The program itself, with a clock around what it does for a viewer."""
    spent = dict.fromkeys(("figures", "lanes", "written"), 0.0)

    def clocked(name: str, work: Callable[..., Any]) -> Callable[..., Any]:
        def run(*given: Any) -> Any:
            begun = time.thread_time()
            made = work(*given)
            spent[name] += time.thread_time() - begun
            return made

        return run

    def tell() -> None:
        while True:
            row = spent | {"all": time.process_time(), "wall": time.monotonic()}
            fresh = file.with_suffix(".tmp")
            fresh.write_text(json.dumps(row))
            fresh.replace(file)
            time.sleep(_TELL_EVERY)

    live.Live._row = clocked("figures", live.Live._row)  # type: ignore[method-assign]
    live.Live._table = clocked("lanes", live.Live._table)  # type: ignore[method-assign]
    live._put = clocked("written", live._put)
    threading.Thread(target=tell, daemon=True).start()
    sys.argv = ["trawlnet", *arguments]
    from trawlnet.cli.main import main as program

    program()


_COUNTED = "--counted"

if __name__ == "__main__":
    if sys.argv[1:2] == [_COUNTED]:
        counted(Path(sys.argv[2]), sys.argv[3:])
    else:
        main()
