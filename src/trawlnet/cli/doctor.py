"""`trawlnet doctor`: what is installed, compiled and possible on this machine."""

from __future__ import annotations

import fcntl
import importlib
import importlib.metadata
import importlib.util
import os
import platform
import resource
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from trawlnet import __version__
from trawlnet.archive.reader import check_versions
from trawlnet.cli.accelerators import DoctorFinding, DoctorMark, accelerator_findings
from trawlnet.cli.common.errors import Exit
from trawlnet.cli.common.flags import Folder, Json
from trawlnet.cli.common.output import emit, size
from trawlnet.cli.common.verb import Verb
from trawlnet.hinted import UnknownFormat
from trawlnet.loading import EXTRAS
from trawlnet.storage.workspace_format import check_formats

_LIBRARIES = (
    "httptools",
    "lmdb",
    "libipld",
    "orjson",
    "pydantic",
    "ada_url",
    "selectolax",
    "starlette",
)
_SERVERS = (("redis-server", "a store for several machines"), ("rabbitmq-server", "a queue"))
_LOW_DISK = 5 << 30
_LOW_FILES = 1024  # Fifty workers and a store fit well below; sockets to many hosts may not.


def examine(*, workspace: Folder, json: Json = False) -> int:
    """Check what this machine has, and say what to type for the rest."""
    findings = list(_findings(workspace))
    for finding in findings:
        if json:
            emit(asdict(finding))
        else:
            print(f"{finding.mark:<8} {finding.what:<16} {finding.detail}")
            if finding.hint:
                print(f"{'':<8} {'':<16} hint: {finding.hint}")
    return Exit.ERROR if any(one.mark is DoctorMark.BAD for one in findings) else Exit.DONE


def _findings(workspace: Path) -> Iterator[DoctorFinding]:
    yield DoctorFinding("trawlnet", DoctorMark.OK, __version__)
    yield _python()
    yield from accelerator_findings()
    yield from (_library(name) for name in _LIBRARIES)
    yield from (_extra(brought[0], extra) for extra, brought in EXTRAS.items())
    yield from (_server(program, use) for program, use in _SERVERS)
    folder = _nearest(workspace)
    yield _file_system(folder)
    yield _disk(folder)
    yield _open_files()
    yield from _formats(workspace)


def _python() -> DoctorFinding:
    where = f"{platform.system()} {platform.machine()}"
    return DoctorFinding("python", DoctorMark.OK, f"{platform.python_version()} on {where}")


def _library(name: str) -> DoctorFinding:
    try:
        importlib.import_module(name)
    except ImportError as error:
        return DoctorFinding(name, DoctorMark.BAD, f"does not load: {error}", f"pip install {name}")
    return DoctorFinding(name, DoctorMark.OK, _version(name))


def _extra(module: str, extra: str) -> DoctorFinding:
    try:
        found = importlib.util.find_spec(module)
    except ModuleNotFoundError:  # Not even the package around it.
        found = None
    if found is None:
        hint = f"pip install 'trawlnet[{extra}]'"
        return DoctorFinding(
            f"extra {extra}", DoctorMark.MISSING, f"{module} is not installed", hint
        )
    return DoctorFinding(f"extra {extra}", DoctorMark.OK, f"{module} {_version(module)}")


def _version(module: str) -> str:
    try:
        return importlib.metadata.version(module.replace("_", "-").replace(".", "-"))
    except importlib.metadata.PackageNotFoundError:
        return "unknown version"


def _server(program: str, use: str) -> DoctorFinding:
    # Debian keeps servers where a user's PATH does not look.
    places = os.pathsep.join([os.environ.get("PATH", os.defpath), "/usr/sbin"])
    if found := shutil.which(program, path=places):
        return DoctorFinding(program, DoctorMark.OK, found)
    return DoctorFinding(
        program, DoctorMark.MISSING, f"not found; only for {use}", f"apt install {program}"
    )


def _nearest(path: Path) -> Path:
    """The workspace, or the folder that it would be created in."""
    path = path.absolute()
    while not path.is_dir():
        path = path.parent
    return path


def _file_system(folder: Path) -> DoctorFinding:
    """Durability and exclusion are promises of the file system: try both."""
    try:
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".doctor-") as file:
            file.write(b"x")
            file.flush()
            os.fsync(file.fileno())
            fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        hint = "choose a directory on a local disk that you may write to: -w DIR"
        return DoctorFinding(
            "file system", DoctorMark.BAD, f"{folder}: {os.strerror(error.errno or 0)}", hint
        )
    return DoctorFinding("file system", DoctorMark.OK, f"{folder}: writable, syncs, locks")


def _disk(folder: Path) -> DoctorFinding:
    free = shutil.disk_usage(folder).free
    if free < _LOW_DISK:
        hint = "free some space, or choose another disk with -w DIR"
        return DoctorFinding(
            "free disk", DoctorMark.MISSING, f"{size(free)} is little for a crawl", hint
        )
    return DoctorFinding("free disk", DoctorMark.OK, size(free))


def _open_files() -> DoctorFinding:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < _LOW_FILES:
        hint = f"ulimit -n {hard if hard > 0 else 65536}"
        return DoctorFinding("open files", DoctorMark.MISSING, f"only {soft} at once", hint)
    return DoctorFinding("open files", DoctorMark.OK, f"{soft} at once")


def _formats(workspace: Path) -> Iterator[DoctorFinding]:
    """Of a workspace that is there: whether this version understands what is in it."""
    if not workspace.is_dir():
        return
    try:
        check_formats(workspace)
        check_versions(workspace / "archive")
    except UnknownFormat as unknown:
        yield DoctorFinding("formats", DoctorMark.BAD, unknown.message, unknown.hint)
    else:
        yield DoctorFinding("formats", DoctorMark.OK, "this version reads what is there")


DOCTOR = Verb(examine, "doctor")
