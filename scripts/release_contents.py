"""What is in the archives of a release, held against the files that git knows."""

from __future__ import annotations

import tarfile
import zipfile
from collections.abc import Iterable
from pathlib import Path

PACKAGE = "src/trawlnet/"
COMPILED = {"trawlnet/native/_page.abi3.so", "trawlnet/native/_repo.abi3.so"}
SOURCES = (".c", ".h")
LICENSE = "licenses/LICENSE"
# What setuptools adds to the tree.
ADDED = ("PKG-INFO", "setup.cfg", "src/trawlnet.egg-info/")


def wheel_faults(wheel: Path, tracked: Iterable[str]) -> list[str]:
    """It has the package without C, what C was compiled to, and the licence."""
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    about = {name for name in names if ".dist-info/" in name}
    package = {
        name.removeprefix("src/")
        for name in tracked
        if name.startswith(PACKAGE) and not name.endswith(SOURCES)
    }
    faults = _differences(names - about, package | COMPILED)
    if not any(name.endswith(LICENSE) for name in about):
        faults.append("no licence")
    return faults


def sdist_faults(sdist: Path, tracked: Iterable[str]) -> list[str]:
    """It has all that git has: the C, the tests, the licence."""
    with tarfile.open(sdist) as archive:
        names = {one.name.partition("/")[2] for one in archive if one.isfile()}
    return _differences({name for name in names if not name.startswith(ADDED)}, set(tracked))


def _differences(there: set[str], wanted: set[str]) -> list[str]:
    missing = [f"{name} is missing" for name in sorted(wanted - there)]
    return missing + [f"{name} does not belong there" for name in sorted(there - wanted)]
