"""Everything that a release needs short of uploading it.

    make release-check

Builds twice and compares, audits the wheels, and installs one where nothing can be compiled: there
`doctor` has to show native code, and a crawl of a simulated network has to come home in time.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import subprocess
import sys
import tarfile
import tempfile
import time
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).parents[1]
DIST = ROOT / "dist"
TOOLS = Path(sys.executable).parent
SECONDS = 30.0  # From an empty environment to the end of a crawl, on a machine that is free.
EXPECTED = 4  # Wheels: two processors, two C libraries.


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=SECONDS, help="for the trial, at most")
    parser.add_argument(
        "--trial", type=Path, help="only examine and crawl with what is installed in this folder"
    )
    arguments = parser.parse_args()
    most: float = arguments.seconds
    with tempfile.TemporaryDirectory() as name:
        scratch = Path(name)
        if arguments.trial:
            tools = arguments.trial.resolve() / "bin"
            step("examined, crawled with", lambda: f"{used(tools, scratch)} repositories")
            return 0
        step("the changelog has a section", changelog)
        step("two builds are the same", lambda: built_twice(scratch))
        step("the sdist has every file, so that its tests find theirs", whole_sdist)
        step("wheels keep what their names promise", audited)
        step(f"installed, examined, crawled with: {most:g} s", lambda: tried(scratch, most))
    print("ready to upload: dist/")
    return 0


def step(what: str, check: object) -> None:
    assert callable(check)
    print(f"… {what}", flush=True)
    print(f"  ok: {check()}", flush=True)


def changelog() -> str:
    text = (ROOT / "src" / "trawlnet" / "__init__.py").read_text()
    version = re.search(r'__version__ = "(.+)"', text)
    assert version is not None
    if f"\n## {version[1]}\n" not in (ROOT / "CHANGELOG.md").read_text():
        raise SystemExit(f"error: CHANGELOG.md has no section {version[1]!r}; hint: write one")
    return version[1]


def built_twice(scratch: Path) -> str:
    build = [sys.executable, str(ROOT / "scripts" / "wheels.py"), "--into"]
    ran([*build, str(DIST)])
    # With a cache of its own: what was compiled before is compiled again.
    ran([*build, str(scratch / "again")], ZIG_GLOBAL_CACHE_DIR=str(scratch / "zig"))
    first = {path.name: path.read_bytes() for path in DIST.iterdir()}
    again = {path.name: path.read_bytes() for path in (scratch / "again").iterdir()}
    differ = sorted(name for name in first.keys() | again if first.get(name) != again.get(name))
    if differ:
        raise SystemExit(f"error: two builds differ: {', '.join(differ)}")
    return f"{len(first)} files"


def whole_sdist() -> str:
    (sdist,) = DIST.glob("*.tar.gz")
    with tarfile.open(sdist) as tar:
        packed = {name.partition("/")[2] for name in tar.getnames()}
    listed = ran(["git", "-C", str(ROOT), "ls-files", "-z"])
    missing = set(filter(None, listed.split("\0"))) - packed
    if missing:
        raise SystemExit(
            f"error: not in {sdist.name}: {', '.join(sorted(missing)[:10])}; hint: MANIFEST.in"
        )
    return f"{len(packed)} names"


def audited() -> str:
    wheels = sorted(DIST.glob("*.whl"))
    if len(wheels) != EXPECTED:
        raise SystemExit(f"error: {len(wheels)} wheels, expected {EXPECTED}")
    for wheel in wheels:
        told = ran([str(TOOLS / "auditwheel"), "show", str(wheel)])
        tag = wheel.stem.rsplit("-", 1)[1]
        if f'"{tag}"' not in " ".join(told.split()):
            raise SystemExit(f"error: {wheel.name} does not fit its name:\n{told}")
    ran([str(TOOLS / "abi3audit"), "--strict", *map(str, wheels)])
    ran([str(TOOLS / "twine"), "check", "--strict", *map(str, DIST.glob("*.[wt]*"))])
    return f"{len(wheels)} wheels, by auditwheel, abi3audit and twine"


def tried(scratch: Path, most: float) -> str:
    (wheel,) = DIST.glob(f"*manylinux*_{os.uname().machine}.whl")
    begun, spent = time.monotonic(), cpu_of_children()
    venv.create(scratch / "empty", with_pip=False)
    tools = scratch / "empty" / "bin"
    # By a pip of today: what comes with Python 3.11 takes twice as long over the index's pages.
    pip = [sys.executable, "-m", "pip", "--python", str(tools / "python")]
    install = [*pip, "install", "-q", "--only-binary", ":all:"]
    ran([*install, f"trawlnet[sim] @ {wheel.as_uri()}"], **alone(tools))
    installed = time.monotonic() - begun
    repos = used(tools, scratch)
    took = time.monotonic() - begun
    told = f"{took:.1f} s, of which installing {installed:.1f}"
    told += f" ({cpu_of_children() - spent:.1f} s of CPU)"
    if took > most:
        raise SystemExit(f"error: it took {told}; hint: on a busy machine, --seconds")
    return f"{repos} repositories, {told}"


def used(tools: Path, scratch: Path) -> int:
    """How many repositories came home, after `doctor` has seen native code."""
    told = ran([str(tools / "trawlnet"), "doctor", "--json"], **alone(tools))
    marks = {row["what"]: row["mark"] for row in map(json.loads, told.splitlines())}
    for what in ("native core", "native zstd", "native pages"):
        if marks.get(what) != "ok":
            raise SystemExit(f"error: doctor says {marks.get(what)} of {what}")
    return crawled(tools / "trawlnet", scratch)


def alone(tools: Path) -> dict[str, str]:
    """Nothing beside the interpreter: no compiler, and no settings of whoever runs this."""
    return {"PATH": str(tools), "CC": "false", "TRAWLNET_NATIVE": ""}


def cpu_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def crawled(trawlnet: Path, scratch: Path) -> int:
    """How many repositories of a simulated network came home."""
    rates = ["--default-pds-rps", "50", "--small-pds-rps", "50", "--plc-rps", "100"]
    with simulated(trawlnet, scratch) as world:
        where = ["--relay", world["relay"], "--plc-url", world["plc"], "--allow-private-hosts"]
        ran([str(trawlnet), "repos", "crawl", "-w", str(scratch / "net"), *where, *rates])
    told = ran([str(trawlnet), "repos", "verify", "--json", str(scratch / "net" / "archive")])
    return int(json.loads(told.splitlines()[-1])["blocks"])


@contextmanager
def simulated(trawlnet: Path, scratch: Path) -> Iterator[dict[str, str]]:
    """A network on loopback, and where its servers are."""
    command = [str(trawlnet), "sim", "atproto", "--healthy", "--scale", "0.2"]
    world = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=scratch)
    try:
        assert world.stdout is not None
        yield json.loads(world.stdout.readline())
    finally:
        world.terminate()
        world.wait(10)


def ran(command: list[str], **environment: str) -> str:
    done = subprocess.run(
        command, env={**os.environ, **environment}, capture_output=True, text=True, cwd=ROOT
    )
    if done.returncode:
        raise SystemExit(f"error: {' '.join(command)}\n{done.stdout}{done.stderr}")
    return done.stdout + done.stderr


if __name__ == "__main__":
    sys.exit(main())
