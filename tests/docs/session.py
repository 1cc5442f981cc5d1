"""A page whose commands are run from top to bottom, in a folder of their own."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.program import PATIENCE, environment, wait_until

# These run until they are stopped.
SERVERS = ("trawlnet pds serve", "trawlnet ids store -w ./net", "trawlnet dashboard")
INTERRUPTED = "Interrupted: "


@dataclass
class Session:
    folder: Path
    stands_for: dict[str, str] = field(default_factory=dict)  # What a page says, and what is here.
    seldom: tuple[str, ...] = ()  # Beginnings of lines that only a longer run prints.
    ends: tuple[int, ...] = (0,)  # Exit codes.
    _serving: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def __post_init__(self) -> None:
        program = self.folder / "bin" / "trawlnet"
        program.parent.mkdir()
        program.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m trawlnet "$@"\n')
        program.chmod(0o755)

    def run(self, line: str, shown: tuple[str, ...] = ()) -> None:
        shown = tuple(one for one in shown if not one.startswith(self.seldom or ("\0",)))
        serves = line.startswith(SERVERS) and "--drain" not in line
        printed = self._served(line, shown) if serves else self._ended(line)
        for one in shown:
            assert self._is_in(one, printed), f"{line}\n{one}\nis not in\n{printed}"

    def close(self) -> None:
        for process in self._serving:
            process.terminate()
            process.wait(PATIENCE)

    def _ended(self, line: str) -> str:
        how = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        ran = subprocess.run(self._command(line), timeout=PATIENCE, **self._place(), **how)
        assert ran.returncode in self.ends, f"{line}\n{ran.stdout}"
        return str(ran.stdout)

    def _served(self, line: str, shown: tuple[str, ...]) -> str:
        """What it has printed once it serves; if the page shows Ctrl-C, to its end."""
        output = self.folder / f"output-{len(self._serving)}"
        with output.open("wb") as file:
            process = subprocess.Popen(
                self._command(f"exec {line}"), stdout=file, stderr=file, **self._place()
            )
        self._serving.append(process)
        wait_until(lambda: self._is_in(shown[0], output.read_text()), shown[0])
        if any(one.startswith(INTERRUPTED) for one in shown):
            process.send_signal(signal.SIGINT)
            process.wait(PATIENCE)
        return output.read_text()

    def _command(self, line: str) -> list[str]:
        return ["bash", "-c", self._here(line)]

    def _place(self) -> dict[str, Any]:
        path = (f"{self.folder}/bin", str(Path(sys.executable).parent), os.environ["PATH"])
        return {"cwd": self.folder, "env": environment(PATH=os.pathsep.join(path))}

    def _here(self, text: str) -> str:
        for said, here in self.stands_for.items():
            text = text.replace(said, here)
        return text

    def _is_in(self, shown: str, printed: str) -> bool:
        return any(agrees(self._here(shown), self._here(line)) for line in printed.splitlines())


def agrees(shown: str, printed: str) -> bool:
    """Numbers, times, names of runs and counts by reason may differ, as they do from one machine
    to the next, and `…` stands for anything. JSON has at least the keys that are shown."""
    pattern = ".*".join(map(re.escape, rough(shown).split("…")))
    if re.fullmatch(pattern, rough(printed)):
        return True
    try:
        return _has(json.loads(printed), json.loads(re.sub(r", …|…, ", "", shown)))
    except json.JSONDecodeError:
        return False


def _has(there: Any, wanted: Any) -> bool:
    if not isinstance(wanted, dict):
        return isinstance(there, float if isinstance(wanted, float) else type(wanted))
    # What a crawl has met none of has no keys.
    return isinstance(there, dict) and (
        not there or all(key in there and _has(there[key], wanted[key]) for key in wanted)
    )


def rough(line: str) -> str:
    line = re.sub(r"\d{8}T\d{6}Z", "RUN", line)
    line = re.sub(r"\d+([,.]\d+)*", "#", line)
    line = re.sub(r"(ok #)(, \w+ #)+", r"\1", line)
    line = re.sub(r" (errors|hosts): [^;]*;", "", line)  # Busy machines have both.
    return re.sub(r" +", " ", re.sub(r"# (B|KB|MB|s|m)\b", "# ", line))
