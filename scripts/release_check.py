"""Everything that a release needs short of uploading it, and what was not done of that.

    make release-check     # SKIP="image musl" leaves checks out, and says so

What needs root, or programs that are not here, is left out, and the last lines name it.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from release_contents import sdist_faults, wheel_faults
from steps import ROOT, cpu_of_children, ran, step
from trial import Trial

DIST, BUILD = ROOT / "dist", ROOT / "build"
TOOLS = Path(sys.executable).parent
NATIVE = ROOT / "tests" / "native"
SECONDS = 30.0  # From an empty environment to the end of a crawl, on a machine that is free.
EXPECTED = 4  # Wheels: two processors, two C libraries.


@dataclass(frozen=True, slots=True)
class Check:
    name: str
    what: str
    run: Callable[[], object]
    needs: tuple[str, ...] = ()  # Programs.
    as_root: bool = False


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=SECONDS, help="for each trial, at most")
    parser.add_argument("--skip", default="", help="checks to leave out, with spaces between them")
    parser.add_argument("--tested", default="", help="who says that the tests of this commit pass")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        checks = listed(Path(scratch), arguments.seconds)
        skipped = dict.fromkeys(arguments.skip.split(), "as asked for")
        if arguments.tested:
            skipped["tests"] = f"{arguments.tested} says that they pass"
        unknown = set(skipped) - {check.name for check in checks}
        names = [check.name for check in checks]
        if unknown:
            told = f"no check {', '.join(sorted(unknown))}; there are {', '.join(names)}"
            raise SystemExit(f"error: {told}")
        done, left_out, failed = run(checks, skipped)
    print("\n".join(summary(names, done, left_out, failed)))
    return 1 if failed else 0


def listed(scratch: Path, most: float) -> list[Check]:
    """In this order: what is quick first, and what is built before what is tried."""
    (scratch / "tried").mkdir()
    within = (f"--seconds={most:g}",)
    keep = partial(str.format, f"{BUILD}/{{}}")
    return [
        Check("tree", "git knows every file", clean),
        Check("changelog", "the changelog has a section", changelog),
        Check("docs", "the documentation builds without a warning", shown("make", "docs")),
        Check("builds", "two builds are the same", partial(built_twice, scratch)),
        Check("contents", "archives hold what belongs in them", contents),
        Check("audit", "wheels keep what their names promise", audited),
        Check(
            "trial", f"installed, crawled with: {most:g} s", partial(tried, scratch / "tried", most)
        ),
        Check(
            "root",
            "the same where nothing is but Python",
            shown(sys.executable, "scripts/root_check.py", *within),
            ("debootstrap", "unshare"),
            as_root=True,
        ),
        Check(
            "musl",
            "the wheel for musl",
            shown(str(NATIVE / "musl.sh"), "*musllinux*x86_64.whl", keep("musl")),
            ("uv", "gcc", "make", "musl-gcc", "curl"),
        ),
        Check(
            "aarch64",
            "the wheel for aarch64",
            shown(str(NATIVE / "aarch64.sh"), "*manylinux*aarch64.whl", keep("aarch64")),
            ("uv", "debootstrap", "qemu-aarch64-static"),
            as_root=True,
        ),
        Check(
            "image",
            "the image",
            shown("make", "image-check", f"KEEP={keep('image')}"),
            ("podman", "crun", "debootstrap"),
            as_root=True,
        ),
        Check("tests", "style, types and all tests", suite),
    ]


def run(
    checks: Sequence[Check], skipped: Mapping[str, str]
) -> tuple[list[str], dict[str, str], str | None]:
    """The names of those done, why others were left out, and which one failed."""
    done: list[str] = []
    left_out: dict[str, str] = {}
    for check in checks:
        found = {program for program in check.needs if shutil.which(program)}
        why = obstacle(check, skipped, found, os.geteuid() == 0)
        if why:
            print(f"! {check.what}: LEFT OUT, {why}", flush=True)
            left_out[check.name] = why
            continue
        try:
            step(check.what, check.run)
        except SystemExit as trouble:
            print(f"  FAILED: {trouble}", flush=True)
            return done, left_out, check.name
        done.append(check.name)
    return done, left_out, None


def obstacle(
    check: Check, skipped: Mapping[str, str], found: Collection[str], is_root: bool
) -> str | None:
    if check.name in skipped:
        return skipped[check.name]
    missing = [program for program in check.needs if program not in found]
    if missing:
        return f"no {', '.join(missing)}"
    return "not root" if check.as_root and not is_root else None


def summary(
    names: Sequence[str], done: Sequence[str], left_out: Mapping[str, str], failed: str | None
) -> list[str]:
    lines = ["", f"done: {', '.join(done) or 'nothing'}"]
    lines += [f"LEFT OUT: {name} ({why})" for name, why in left_out.items()]
    if failed:
        rest = [name for name in names if name not in {*done, *left_out, failed}]
        not_begun = f"; not begun: {', '.join(rest)}" if rest else ""
        return [*lines, f"FAILED: {failed}{not_begun}", "not ready to upload"]
    but = ", but for what was left out" if left_out else ""
    return [*lines, f"ready to upload{but}: dist/"]


def shown(program: str, *words: str) -> Callable[[], str]:
    """A command that tells its own story. A pattern stands for a wheel in dist/."""

    def run_it() -> str:
        given = [str(next(DIST.glob(one))) if one.endswith(".whl") else one for one in words]
        code = subprocess.run([program, *given], cwd=ROOT).returncode
        if code:
            raise SystemExit(f"error: {Path(program).name} {' '.join(words)} ended with {code}")
        return Path(program).name

    return run_it


def clean() -> str:
    """An untracked file would become part of the sdist."""
    told = ran(["git", "status", "--porcelain"])
    if told:
        raise SystemExit(f"error: not in a commit:\n{told}hint: commit, or remove")
    return ran(["git", "rev-parse", "--short", "HEAD"]).strip()


def changelog() -> str:
    text = (ROOT / "src" / "trawlnet" / "__init__.py").read_text()
    version = re.search(r'__version__ = "(.+)"', text)
    assert version is not None
    lines = section((ROOT / "CHANGELOG.md").read_text(), version[1])
    if not lines:
        raise SystemExit(f"error: CHANGELOG.md says nothing of {version[1]!r}; hint: write it")
    return f"{version[1]}, {len(lines)} lines"


def section(text: str, version: str) -> list[str]:
    """What a changelog says about a version, without headings and empty lines."""
    _, _, rest = f"\n{text}".partition(f"\n## {version}\n")
    lines = rest.partition("\n## ")[0].splitlines()
    return [line for line in lines if line.strip() and not line.startswith("#")]


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


def contents() -> str:
    tracked = ran(["git", "ls-files", "--cached", "--others", "--exclude-standard"]).splitlines()
    (sdist,) = DIST.glob("*.tar.gz")
    found = {wheel.name: wheel_faults(wheel, tracked) for wheel in DIST.glob("*.whl")}
    found[sdist.name] = sdist_faults(sdist, tracked)
    faults = [f"{name}: {fault}" for name, faults in found.items() for fault in faults]
    if faults:
        raise SystemExit("\n".join(["error: archives are not what git has", *faults]))
    return f"{len(found)} archives, {len(tracked)} files"


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
    """By this machine's Python, in an environment of its own."""
    (wheel,) = DIST.glob(f"*manylinux*_{os.uname().machine}.whl")
    begun, spent = time.monotonic(), cpu_of_children()
    venv.create(scratch / "empty", with_pip=False)
    tools = scratch / "empty" / "bin"
    # By a pip of today: what comes with Python 3.11 takes twice as long over the index's pages.
    pip = [sys.executable, "-m", "pip", "--python", str(tools / "python")]
    ran([*pip, "install", "-q", "--only-binary", ":all:", f"trawlnet[sim] @ {wheel.as_uri()}"])
    installed = time.monotonic() - begun
    trial = Trial(tools, scratch)
    trial.examined()
    home = trial.crawled()
    took = time.monotonic() - begun
    told = f"{took:.1f} s, of which installing {installed:.1f}"
    told += f" ({cpu_of_children() - spent:.1f} s of CPU)"
    if took > most:
        raise SystemExit(f"error: it took {told}; hint: on a busy machine, WITHIN=60")
    return f"{home}, {told}"


def suite() -> str:
    # With CI set a test does not skip where a server is missing.
    os.environ["CI"] = "true"
    shown("make", "lint", "types", "test")()
    return "all of them"


if __name__ == "__main__":
    sys.exit(main())
