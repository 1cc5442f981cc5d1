"""Build deploy/Dockerfile and try the image, where no registry of images can be reached.

    make services wheels image-check     # as root; apt-get install podman crun debootstrap

The base image is put together from Debian's packages under the name that the file asks for; every
step after that is the file's own, done by podman in storage of its own, which is gone at the end
unless it is kept for the next time.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from debian_root import packed, pip_places
from steps import ROOT, step

BASE = "docker.io/library/python:3.11-slim-bookworm"
IMAGE = "localhost/trawlnet:latest"
PATIENCE = 120.0  # Seconds.
# Neither limits nor cgroups are what is tried here, and not every machine lets them be changed.
PLAIN = ("--cgroups=disabled", "--ulimit=nofile=4096:4096", "--ulimit=nproc=4096:4096")
SLOWLY = ("--default-pds-rps=2", "--small-pds-rps=2", "--plc-rps=100")
FAST = ("--default-pds-rps=50", "--small-pds-rps=50", "--plc-rps=100")


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--keep", type=Path, help="a folder for the base and the storage, kept")
    arguments = parser.parse_args()
    for program in ("podman", "crun", "debootstrap", "unshare"):
        if shutil.which(program) is None:
            raise SystemExit(f"error: no {program}; hint: apt-get install podman crun debootstrap")
    if not list((ROOT / "dist").glob("*.whl")):
        raise SystemExit("error: no wheels in dist/; hint: make wheels")
    in_own_mounts()
    with tempfile.TemporaryDirectory(prefix="image-") as name:
        folder = arguments.keep or Path(name)
        folder.mkdir(parents=True, exist_ok=True)
        podman = Podman(folder.resolve())
        try:
            Check(podman, Path(name)).whole(folder / "base.tar")
        finally:
            podman("rm", "--all", "--force", "--volumes", check=False)
            podman("volume", "rm", "--all", "--force", check=False)
            if not arguments.keep:
                podman("rmi", "--all", "--force", check=False)
    print("the image is well")
    return 0


def in_own_mounts() -> None:
    """crun wants no mixture of old and new cgroups: in mounts of our own there are only new."""
    if Path("/sys/fs/cgroup/cgroup.controllers").exists():
        return
    if os.environ.get("IMAGE_CHECK_MOUNTS"):
        raise SystemExit("error: cannot mount cgroups; hint: run it as root")
    os.environ["IMAGE_CHECK_MOUNTS"] = "own"
    mount = 'mount -t cgroup2 none /sys/fs/cgroup && exec "$@"'
    again = ["unshare", "--mount", "sh", "-c", mount, "sh", sys.executable, *sys.argv]
    os.execvp("unshare", again)  # noqa: S606,S607 - the one on the path.


class Podman:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        own = [f"--root={folder / 'storage'}", f"--runroot={folder / 'run'}"]
        self._command = ["podman", *own, "--storage-driver=overlay", "--events-backend=none"]

    def __call__(self, *words: str, check: bool = True, **more: Any) -> Any:
        command = [*self._command, *words]
        ran = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, **more)
        if check and ran.returncode:
            raise SystemExit(
                f"error: {' '.join(words)}: {ran.returncode}\n{ran.stdout}{ran.stderr}"
            )
        return ran

    def run(self, *words: str, options: tuple[str, ...] = (), **more: Any) -> Any:
        return self("run", "--rm", "--network=host", *PLAIN, *options, IMAGE, *words, **more)


class Check:
    def __init__(self, podman: Podman, scratch: Path) -> None:
        self.podman = podman
        self.scratch = scratch

    def whole(self, base: Path) -> None:
        step("the base", lambda: self.base(base))
        step("the Dockerfile's steps", self.built)
        step("nothing in it that does not belong there", self.clean)
        step("native code", self.native)
        step("input is handed on", self.talks)
        step("a command that reports nothing is well while it runs", self.quiet)
        step("a crawl: healthy, stopped, saved, continued", self.crawled)
        # In a network of its own, which is a process of its own.
        trial = [sys.executable, str(ROOT / "scripts" / "compose_check.py"), "--storage"]
        if subprocess.run([*trial, str(self.podman.folder)]).returncode:
            raise SystemExit("error: not every service of compose.yaml works")

    def base(self, tar: Path) -> str:
        if not tar.exists():
            packed(tar, "bookworm", ("python3", "python3-pip"))
        if self.podman("image", "exists", BASE, check=False).returncode:
            self.podman("import", str(tar), BASE)
        return f"{tar.stat().st_size >> 20} MB"

    def built(self) -> str:
        mounts = [f"--volume={one}:{one}:ro" for one in pip_places()]
        settings = [f"--env={name}" for name in os.environ if name.startswith("PIP_")]
        how = [
            "--format=docker",
            "--isolation=chroot",
            "--network=host",
            "--pull-never",
            "--layers",
        ]
        self.podman("build", *how, *mounts, *settings, "-f=deploy/Dockerfile", f"-t={IMAGE}", ".")
        (found,) = json.loads(self.podman("image", "inspect", IMAGE).stdout)
        config = found["Config"]
        assert config["User"] == "1000:1000" and config["Entrypoint"] == ["entrypoint"], config
        assert config["StopSignal"] == "SIGTERM" and "/data" in config["Volumes"], config
        assert found["Healthcheck"]["Test"] == ["CMD", "healthy"], found["Healthcheck"]
        return f"{found['Size'] >> 20} MB"

    def clean(self) -> str:
        self.inside("! command -v gcc && ! command -v cc && test ! -e /root/.cache/pip")
        self.inside("test ! -e /mnt/dist/* && test ! -e /mnt/requirements.lock")
        told = self.inside("id -u; stat -c %u:%g /data; touch /data/x; ! touch /usr/x 2>/dev/null")
        assert told.split() == ["1000", "1000:1000"], told
        return "no compiler, no cache, no wheels; user 1000 writes to /data and nowhere else"

    def inside(self, script: str) -> str:
        options = ("--entrypoint=sh",)
        return str(self.podman.run("-ec", script, options=options).stdout)

    def native(self) -> str:
        version = self.podman.run("--version").stdout.strip()
        rows = map(json.loads, self.podman.run("doctor", "--json").stdout.splitlines())
        marks = {row["what"]: row["mark"] for row in rows}
        wanted = ["native core", "native zstd", "native pages", "file system"]
        wanted += [f"extra {one}" for one in EXTRAS]
        assert all(marks[what] == "ok" for what in wanted), marks
        return f"trawlnet {version}; extras {', '.join(EXTRAS)}"

    def talks(self) -> str:
        asked = self.podman.run(
            "web", "canonical", options=("--interactive",), input="HTTP://Example.org:80/a\n"
        )
        assert "http://example.org/a" in asked.stdout, asked
        return asked.stdout.strip()

    def quiet(self) -> str:
        with self.running("dashboard", "--port=0", options=()) as name:
            wait_until(lambda: self.podman("exec", name, "healthy", check=False).returncode == 0)
            begun = time.monotonic()
            self.podman("stop", "--time=60", name)
            return f"dashboard, stopped in {time.monotonic() - begun:.1f} s"

    def crawled(self) -> str:
        self.podman("volume", "create", "data")
        volume = ("--volume=data:/data",)
        with simulated(self.scratch) as world:
            where = [f"--relay={world['relay']}", f"--plc-url={world['plc']}"]
            crawl = ["repos", "crawl", *where, "--allow-private-hosts", "--contact=a@example.org"]
            before = self.podman.run("health", options=volume, check=False)
            assert before.returncode == 1, before
            with self.running(*crawl, *SLOWLY, options=volume) as name:
                self.podman("exec", name, "sh", "-c", WAIT_FOR_A_REPORT, timeout=PATIENCE)
                self.podman("healthcheck", "run", name)
                self.podman("stop", "--time=120", name)
                told = self.podman("inspect", name, "--format={{.State.ExitCode}}").stdout.strip()
                said = self.podman("logs", name).stderr
                assert told == "130" and "saved" in said, (told, said)
            after = self.podman.run("health", options=volume, check=False)
            assert after.returncode == 1 and "nothing runs" in after.stderr, after
            finished = ("--env=FINISHED_IS_SUCCESS=yes", *volume)
            self.podman.run(*crawl, *FAST, options=finished, timeout=PATIENCE)
        told = self.podman.run("repos", "verify", "--json", "/data/archive", options=volume).stdout
        return f"{json.loads(told.splitlines()[-1])['blocks']} repositories, verified"

    @contextmanager
    def running(self, *words: str, options: tuple[str, ...]) -> Iterator[str]:
        name = f"trial-{os.getpid()}"
        start = ["run", "--detach", "--name", name, "--network=host", *PLAIN, *options]
        self.podman(*start, IMAGE, *words)
        try:
            yield name
        finally:
            self.podman("rm", "--force", name, check=False)


EXTRAS = ("clickhouse", "redis", "postgres", "rabbitmq", "s3", "fleet")
WAIT_FOR_A_REPORT = "while ! test -s /data/state/repos/status.json; do sleep 0.2; done"


@contextmanager
def simulated(scratch: Path) -> Iterator[dict[str, str]]:
    """A network on loopback, served by this machine and not by the image."""
    command = [str(ROOT / ".venv/bin/trawlnet"), "sim", "atproto", "--healthy", "--scale", "0.2"]
    world = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=scratch)
    try:
        assert world.stdout is not None
        yield json.loads(world.stdout.readline())
    finally:
        world.terminate()
        world.wait(10)


def wait_until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not true():
        if time.monotonic() > deadline:
            raise SystemExit("error: waited in vain")
        time.sleep(0.2)


if __name__ == "__main__":
    sys.exit(main())
