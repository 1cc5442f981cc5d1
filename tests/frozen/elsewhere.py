"""The program in a process of its own, for which the frozen servers are where a test has them. What
needs embedded tables cannot run in the tests' process, which may have others.

Run as `python -m tests.frozen.elsewhere PORTS WORD…`.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping

from tests.frozen.ports import move_ports
from tests.support import child
from tests.support.program import PATIENCE, Ran


def run_elsewhere(ports: Mapping[int, int], *words: object) -> Ran:
    command = child.module("frozen.elsewhere", json.dumps(dict(ports)), *words)
    done = subprocess.run(
        command, capture_output=True, text=True, env=child.environment(), timeout=PATIENCE
    )
    return Ran(done.returncode, done.stdout, done.stderr)


if __name__ == "__main__":
    from trawlnet.cli.main import run

    taken = {int(frozen): port for frozen, port in json.loads(sys.argv[1]).items()}
    move_ports(taken, setattr)
    sys.exit(run(sys.argv[2:]))
