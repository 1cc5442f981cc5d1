"""Archives that depend on what is in them and on nothing else: order, times, owners and modes."""

from __future__ import annotations

import gzip
import io
import tarfile
import time
import zipfile
from pathlib import Path

FILE, PROGRAM = 0o100644, 0o100755


def same_wheel(wheel: Path, folder: Path, epoch: int) -> Path:
    """A wheel in `folder` whose bytes follow from its files."""
    written = folder / wheel.name
    when = time.gmtime(epoch)[:6]
    with zipfile.ZipFile(wheel) as old, zipfile.ZipFile(written, "w") as new:
        for name in sorted(old.namelist(), key=_records_last):
            entry = zipfile.ZipInfo(name, when)
            entry.create_system = 3  # Unix, whatever this is.
            entry.external_attr = (PROGRAM if name.endswith(".so") else FILE) << 16
            new.writestr(entry, old.read(name), zipfile.ZIP_DEFLATED, 9)
    return written


def _records_last(name: str) -> tuple[bool, str]:
    """The metadata at the end, so that installers find them without reading the rest."""
    return ".dist-info/" in name, name


def same_sdist(sdist: Path, folder: Path, epoch: int) -> Path:
    written = folder / sdist.name
    plain = io.BytesIO()
    with tarfile.open(sdist) as old, tarfile.open(fileobj=plain, mode="w") as new:
        for member in sorted(old.getmembers(), key=lambda one: one.name):
            member.mtime, member.uid, member.gid = epoch, 0, 0
            member.uname = member.gname = ""
            member.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
            member.pax_headers = {}
            new.addfile(member, old.extractfile(member) if member.isfile() else None)
    with written.open("wb") as file, gzip.GzipFile("", "wb", 9, file, mtime=epoch) as packed:
        packed.write(plain.getvalue())
    return written
