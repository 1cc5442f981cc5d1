"""A Debian of its own under chroot, with nothing in it but what is named."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from steps import ROOT, ran

USER = 1000  # Of enter_root.sh.
HOME = "/home/you"
PATH = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
# Where this machine's pip looks, and whom it trusts.
PIP_FILES = ("/etc/pip.conf", "/etc/ssl/certs")
NAMES = ("/etc/resolv.conf", "/etc/hosts")


def packed(tar: Path, suite: str, packages: tuple[str, ...]) -> str:
    """Debian's smallest set of packages and those named, by debootstrap, as a tarball."""
    with tempfile.TemporaryDirectory(prefix="debian-") as name:
        folder = Path(name) / "root"
        words = ["debootstrap", "--variant=minbase", f"--include={','.join(packages)}"]
        ran([*words, suite, str(folder)])
        like_an_image_of_python(folder)
        half = tar.with_suffix(".part")
        ran(["tar", "-C", str(folder), "-cf", str(half), "."])
        half.rename(tar)
    return f"{tar.stat().st_size >> 20} MB"


def like_an_image_of_python(folder: Path) -> None:
    """`python` by that name, free to install beside Debian's own packages, and no cache."""
    (folder / "usr/local/bin/python").symlink_to("/usr/bin/python3")
    for marker in folder.glob("usr/lib/python3*/EXTERNALLY-MANAGED"):
        marker.unlink()
    for package in (folder / "var/cache/apt/archives").glob("*.deb"):
        package.unlink()


def pip_places() -> list[str]:
    """Files and folders that a pip elsewhere needs to find what this machine's pip finds."""
    words = " ".join(_pip_settings().values()).split()
    local = {str(Path(one.removeprefix("file://")).parent) for one in words if "file:///" in one}
    return [one for one in (*PIP_FILES, *sorted(local)) if Path(one).exists()]


def _pip_settings() -> dict[str, str]:
    """This machine's; none where the environment has no pip, as those made by uv."""
    command = [sys.executable, "-m", "pip", "config", "list"]
    return settings_in(subprocess.run(command, capture_output=True, text=True).stdout)


def settings_in(listed: str) -> dict[str, str]:
    """As variables of the environment, whichever file they stand in; the last one counts."""
    told = (line.partition("=") for line in listed.splitlines())
    pairs = ((key.rpartition(".")[2], value.strip("'\"")) for key, _, value in told)
    return {f"PIP_{key.upper().replace('-', '_')}": value for key, value in pairs}


@dataclass(frozen=True, slots=True)
class Root:
    folder: Path
    carried: tuple[tuple[Path, str], ...]  # What is seen inside, and where.
    settings: dict[str, str]

    def run(self, *words: str) -> str:
        """What it prints when an ordinary user runs it inside."""
        mounts = [str(one) for pair in self.carried for one in pair]
        named = [f"{key}={value}" for key, value in self.settings.items()]
        enter = str(ROOT / "scripts" / "enter_root.sh")
        return ran([enter, str(self.folder), *mounts, "--", *named, *words])


@contextmanager
def unpacked(tar: Path, carried: dict[Path, str]) -> Iterator[Root]:
    """With this machine's pip configuration, certificates and names for as long as a command."""
    folder = Path(tempfile.mkdtemp(prefix="root-"))
    try:
        ran(["tar", "-C", str(folder), "-xpf", str(tar)])
        home = folder / HOME.lstrip("/")
        home.mkdir(parents=True)
        os.chown(home, USER, USER)
        own = [(Path(one), one) for one in (*pip_places(), *NAMES)]
        settings = {"HOME": HOME, "PATH": PATH, "LANG": "C.UTF-8", **_pip_settings()}
        yield Root(folder, (*own, *carried.items()), settings)
    finally:
        shutil.rmtree(folder)
