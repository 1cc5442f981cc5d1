"""Steps of a check, told one by one with what each took, and the commands that they start."""

from __future__ import annotations

import os
import resource
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).parents[1]


def step(what: str, check: Callable[[], object]) -> float:
    """The seconds that it took; a check that fails ends the program."""
    print(f"… {what}", flush=True)
    begun = time.monotonic()
    told = check()
    took = time.monotonic() - begun
    print(f"  ok: {told} ({took:.1f} s)", flush=True)
    return took


def cpu_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def ran(command: list[str], cwd: Path = ROOT, **environment: str) -> str:
    """What it printed."""
    done = subprocess.run(
        command, env={**os.environ, **environment}, capture_output=True, text=True, cwd=cwd
    )
    if done.returncode:
        raise SystemExit(f"error: {' '.join(command)}\n{done.stdout[-2000:]}{done.stderr}")
    return done.stdout + done.stderr
