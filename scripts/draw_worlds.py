"""Draw random worlds until the time is up, and stop at the first one that a crawl gets wrong.

Each round runs tests/random_worlds with a fresh seed; `make worlds SECONDS=7200 ONLY=web`.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parent.parent
NOTHING_COLLECTED = 5  # pytest's exit code when no test matches.


def main() -> int:
    wanted = _arguments()
    started = time.monotonic()
    rounds = 0
    while (elapsed := time.monotonic() - started) < wanted.seconds:
        seed = random.SystemRandom().getrandbits(32)
        rounds += 1
        left = wanted.seconds - elapsed
        print(f"worlds: round {rounds}, seed {seed}, {left:.0f} s left", flush=True)
        code = _round(seed, wanted)
        if code == NOTHING_COLLECTED:
            print(f"error: no test in tests/random_worlds matches {wanted.only!r}", file=sys.stderr)
            return 2
        if code:
            print(
                f"worlds: a finding in round {rounds}; it comes back with\n"
                f"  TRAWLNET_WORLDS={wanted.factor} .venv/bin/python -m pytest "
                f"tests/random_worlds --hypothesis-seed={seed}",
                file=sys.stderr,
            )
            return 1
    print(f"worlds: {rounds} rounds in {time.monotonic() - started:.0f} s, no finding")
    return 0


def _round(seed: int, wanted: argparse.Namespace) -> int:
    command = [sys.executable, "-m", "pytest", "tests/random_worlds", "-n", str(wanted.workers)]
    # A round of many worlds may take longer than a test of the suite ever should.
    command += ["--dist", "worksteal", "--timeout", "7200", f"--hypothesis-seed={seed}"]
    if wanted.only:
        command += ["-k", wanted.only]
    env = os.environ | {"TRAWLNET_WORLDS": str(wanted.factor)}
    return subprocess.run(command, cwd=ROOT, env=env, check=False).returncode


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=3600, help="begin no round after this")
    parser.add_argument("--factor", type=int, default=10, help="worlds, as a multiple of make test")
    parser.add_argument("--workers", type=int, default=2, help="processes")
    parser.add_argument("--only", default="", help="a pytest -k expression")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
