"""Draw random worlds until the time is up, and tell which of them a crawl got wrong.

Areas (tests/random_worlds/test_AREA.py) take turns, the one that had the least time first. Each
round has a fresh seed; a finding is printed with what brings it back, and the others go on.
Ctrl-C ends the rounds under way and prints the summary.

    make worlds SECONDS=7200 ONLY=web,ids
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import asdict, dataclass, field
from pathlib import Path

ROOT = Path(__file__).parent.parent
WORLDS = Path("tests") / "random_worlds"
ROUND_SECONDS = 120.0  # A round draws about as many worlds as fit.
LARGEST_FACTOR = 200
LONGEST_TEST = 3600  # Seconds; a crawl that hangs is a finding.
FINDINGS_OF_ONE_AREA = 5  # After so many it has had its say, and leaves its time to the others.
PASSING = re.compile(rb"(\d+) passing\D+(\d+) failing")


@dataclass(slots=True)
class Area:
    """What became of one area's rounds so far."""

    name: str
    worlds: int = 0
    seconds: float = 0.0
    seeds: list[int] = field(default_factory=list)
    findings: list[str] = field(default_factory=list)
    factor: int = 1  # Of its next round, as a multiple of what `make test` draws.


@dataclass(frozen=True, slots=True)
class Round:
    area: str
    seed: int
    factor: int

    def command(self) -> list[str]:
        # Statistics say how many worlds there were: Hypothesis may draw fewer than it is allowed.
        file = str(WORLDS / f"test_{self.area}.py")
        command = [sys.executable, "-m", "pytest", file, "--hypothesis-show-statistics"]
        return [*command, f"--timeout={LONGEST_TEST}", f"--hypothesis-seed={self.seed}"]

    def again(self) -> str:
        """The line to type that brings the round back."""
        return (
            f"TRAWLNET_WORLDS={self.factor} .venv/bin/python -m pytest "
            f"{WORLDS}/test_{self.area}.py --timeout={LONGEST_TEST} --hypothesis-seed={self.seed}"
        )


class Drawing:
    """Rounds in several threads, each with one process of pytest at a time."""

    def __init__(self, areas: Sequence[str], deadline: float) -> None:
        self.areas = {name: Area(name) for name in areas}
        self._deadline = deadline
        self._lock = threading.Lock()
        self._under_way: dict[Round, subprocess.Popen[bytes]] = {}
        self._stopped = False

    def work(self) -> None:
        while (process := self._begun()) is not None:
            chosen, running, started = process
            output, _ = running.communicate()
            self._ended(chosen, running.returncode, output, time.monotonic() - started)

    def stop(self) -> None:
        with self._lock:
            self._stopped = True
            for process in self._under_way.values():
                process.send_signal(signal.SIGINT)  # Pytest then stops the servers it started.

    def _begun(self) -> tuple[Round, subprocess.Popen[bytes], float] | None:
        with self._lock:
            busy = [chosen.area for chosen in self._under_way]
            area = next_area(self.areas, busy)
            started = time.monotonic()
            if self._stopped or area is None or started >= self._deadline:
                return None
            chosen = Round(area.name, random.SystemRandom().getrandbits(32), area.factor)
            process = subprocess.Popen(
                chosen.command(),
                cwd=ROOT,
                env=os.environ | {"TRAWLNET_WORLDS": str(chosen.factor)},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # A Ctrl-C of the terminal reaches it through us, once.
            )
            self._under_way[chosen] = process
            return chosen, process, started

    def _ended(self, chosen: Round, code: int, output: bytes, seconds: float) -> None:
        with self._lock:
            del self._under_way[chosen]
            if self._stopped:
                return  # Cut short by us: it proves nothing.
            area = self.areas[chosen.area]
            drawn = worlds_of(output)
            area.worlds += drawn
            area.seconds += seconds
            area.seeds.append(chosen.seed)
            area.factor = next_factor(chosen.factor, seconds)
            if code:
                area.findings.append(chosen.again())
                print(output.decode(errors="replace"))
            verdict = f"FINDING (pytest exit {code}): {chosen.again()}" if code else "no finding"
            counted = f"{drawn} worlds in {seconds:.0f} s"
            print(f"worlds: {chosen.area} seed {chosen.seed}: {counted}, {verdict}", flush=True)


def next_area(areas: Mapping[str, Area], busy: Sequence[str]) -> Area | None:
    """The one that had the least time; what is under way counts as a round."""

    def spent(area: Area) -> float:
        return area.seconds + ROUND_SECONDS * busy.count(area.name)

    able = [area for area in areas.values() if len(area.findings) < FINDINGS_OF_ONE_AREA]
    return min(able, key=spent, default=None)


def next_factor(factor: int, seconds: float) -> int:
    """So many worlds that the next round takes its time; no leap after one that was quick."""
    fitting = factor * ROUND_SECONDS / max(seconds, 1.0)
    return max(1, min(round(fitting), 4 * factor, LARGEST_FACTOR))


def worlds_of(output: bytes) -> int:
    return sum(int(passed) + int(failed) for passed, failed in PASSING.findall(output))


def summary(areas: Sequence[Area]) -> Iterator[str]:
    yield f"{'area':8} {'rounds':>6} {'worlds':>8} {'seconds':>8} {'findings':>8}"
    for area in areas:
        rounds, found = len(area.seeds), len(area.findings)
        yield f"{area.name:8} {rounds:6} {area.worlds:8} {area.seconds:8.0f} {found:8}"
    for area in areas:
        yield from (f"finding: {again}" for again in area.findings)


def main() -> int:
    wanted = _arguments()
    known = sorted(path.stem[len("test_") :] for path in (ROOT / WORLDS).glob("test_*.py"))
    chosen = [name for name in wanted.only.split(",") if name] or known
    if unknown := sorted(set(chosen) - set(known)):
        print(f"error: no area {', '.join(unknown)}; hint: {', '.join(known)}", file=sys.stderr)
        return 2
    drawing = Drawing(chosen, time.monotonic() + wanted.seconds)
    _run(drawing, wanted.workers)
    areas = list(drawing.areas.values())
    print("\n".join(summary(areas)), flush=True)
    if wanted.json:
        wanted.json.write_text(json.dumps([asdict(area) for area in areas], indent=1) + "\n")
    return 1 if any(area.findings for area in areas) else 0


def _run(drawing: Drawing, workers: int) -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)  # A shell's `&` may have muted it.
    with ThreadPoolExecutor(max(1, workers)) as pool:
        working = [pool.submit(drawing.work) for _ in range(max(1, workers))]
        try:
            # A signal may come to another thread, and then it does not end a wait of this one.
            while wait(working, timeout=0.2).not_done:
                pass
        except KeyboardInterrupt:
            print("worlds: interrupted; ending the rounds under way", file=sys.stderr)
            drawing.stop()
    for worker in working:
        worker.result()


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=3600, help="begin no round after this")
    parser.add_argument("--workers", type=int, default=2, help="rounds at a time")
    parser.add_argument("--only", default="", help="areas, with commas between them")
    parser.add_argument("--json", type=Path, help="write the summary, with all seeds, to this file")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
