"""Install the wheel where nothing is but Python and an index, look at it, and crawl with it.

    make wheels root-check     # as root; apt-get install debootstrap

The root is Debian's smallest, with python3, pip, venv and certificates and without a compiler. From
the empty environment to the end of a crawl that was killed and continued it has to take less than
half a minute. SUITE names another Debian, and so another Python.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import time
from pathlib import Path

from debian_root import HOME, Root, packed, unpacked
from steps import ROOT, cpu_of_children, step

DIST = ROOT / "dist"
PACKAGES = ("python3", "python3-pip", "python3-venv", "ca-certificates")
SECONDS = 30.0  # From an empty environment to the end of a crawl.
PROJECT = "/mnt/trawlnet"
FOR_TESTS = (
    "redis",
    "hiredis",
    "pytest",
    "pytest-timeout",
    "pytest-xdist",
    "hypothesis",
    "zstandard",
)
ENVIRONMENT = f"{HOME}/env"


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=SECONDS, help="at most (default 30)")
    parser.add_argument("--suite", default="bookworm", help="of Debian (default bookworm)")
    parser.add_argument("--tests", action="store_true", help="of the native code, afterwards")
    parser.add_argument(
        "--keep", type=Path, default=ROOT / "build" / "roots", help="where roots are kept, packed"
    )
    arguments = parser.parse_args()
    check_machine()
    arguments.keep.mkdir(parents=True, exist_ok=True)
    tar = arguments.keep.resolve() / f"{arguments.suite}.tar"
    if not tar.exists():
        step("a root by debootstrap, once", lambda: packed(tar, arguments.suite, PACKAGES))
    with unpacked(tar, {ROOT: PROJECT}) as root:
        print(f"… {bare(root)}")
        begun, spent = time.monotonic(), cpu_of_children()
        step("an environment", lambda: made(root))
        step("pip installs the wheel", lambda: installed(root))
        # It tells its steps itself.
        print(root.run("python3", f"{PROJECT}/scripts/trial.py", ENVIRONMENT), end="", flush=True)
        took, spent = time.monotonic() - begun, cpu_of_children() - spent
        if arguments.tests:
            step("tests of the native code", lambda: tested(root))
    told = f"{took:.1f} s altogether, {spent:.1f} of CPU, load {os.getloadavg()[0]:.1f}"
    if took > arguments.seconds:
        hint = "hint: on a busy machine, WITHIN=60"
        raise SystemExit(f"error: {told}; {arguments.seconds:g} s are allowed; {hint}")
    print(f"the wheel is well: {told}")
    return 0


def check_machine() -> None:
    for program in ("debootstrap", "unshare", "chroot"):
        if shutil.which(program) is None:
            raise SystemExit(f"error: no {program}; hint: apt-get install debootstrap")
    if os.geteuid():
        raise SystemExit("error: only root may mount and chroot; hint: run it as root")
    if not list(DIST.glob("*.whl")):
        raise SystemExit("error: no wheels in dist/; hint: make wheels")


def bare(root: Root) -> str:
    """What is there to begin with."""
    compilers = root.run("sh", "-c", "command -v cc gcc clang tcc || true")
    if compilers:
        raise SystemExit(f"error: there is a compiler in the root: {compilers}")
    told = root.run("sh", "-c", "python3 --version; pip --version | cut -d' ' -f1,2; nproc")
    python, pip, cores = told.splitlines()
    return f"in the root: {python}, {pip}, {cores} cores, no compiler"


def made(root: Root) -> str:
    root.run("python3", "-m", "venv", ENVIRONMENT)
    return "by venv, with a pip of its own"


def installed(root: Root) -> str:
    (wheel,) = DIST.glob(f"*manylinux*_{os.uname().machine}.whl")
    install = (f"{ENVIRONMENT}/bin/pip", "install", "-q", "--only-binary", ":all:")
    root.run(*install, f"trawlnet[sim] @ file://{PROJECT}/dist/{wheel.name}")
    return wheel.name


def tested(root: Root) -> str:
    root.run(f"{ENVIRONMENT}/bin/pip", "install", "-q", "--only-binary", ":all:", *FOR_TESTS)
    files = (ROOT / "tests" / "native" / "of_a_wheel.txt").read_text().split()
    script = f'cd {PROJECT} && exec {ENVIRONMENT}/bin/python -m pytest -o pythonpath=. "$@"'
    strict = ("TRAWLNET_NATIVE=require", "TRAWLNET_TWIN_ROUNDS=1000", "PYTHONDONTWRITEBYTECODE=1")
    told = root.run("env", *strict, "sh", "-c", script, "sh", *files)
    return next((line for line in told.splitlines() if " passed" in line), "all passed")


if __name__ == "__main__":
    sys.exit(main())
