"""A workspace: one directory with the config, the state and the output of its crawlers."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from shlex import quote
from types import MappingProxyType
from typing import Any

from trawlnet.cli.common.errors import InUse, NoWorkspace
from trawlnet.engine.durable import make_directory
from trawlnet.net.redact import redact
from trawlnet.storage.workspace_format import check_format, stamp_format

_NO_FLAGS: Mapping[str, Any] = MappingProxyType({})
_PROBES = 5  # Tries: `status` holds the lock for an instant to see whether it is free.
_PROBE_PAUSE = 0.1


ROLES = {"web": ("crawl", "scrape")}  # Two processes that may run at the same time.
_LOCKS = {"scrape": "scrape.lock"}  # All other roles use the crawler's own lock.


@dataclass(frozen=True, slots=True)
class Workspace:
    path: Path
    crawler: str
    also: tuple[str, ...] = ()  # Further names that control files may use for this crawl.
    role: str = ""  # The role of this process, for a crawler with roles; empty for all of them.
    given: str = ""  # The flags besides -w that say where its state is, as `located` writes them.

    @property
    def place(self) -> str:
        """The flags that name it, for a hint: what is typed from that works on the same state."""
        return f"-w {quote(shown(self.path))}{self.given}"

    @property
    def config_file(self) -> Path:
        return self.path / "trawlnet.yaml"

    @property
    def state(self) -> Path:
        return self.path / "state" / self.crawler

    @property
    def logs(self) -> Path:
        return self.path / "logs"

    @property
    def by_role(self) -> tuple[Workspace, ...]:
        """This workspace, once for each role that a process may have."""
        roles = () if self.role else ROLES.get(self.crawler, ())
        return tuple(replace(self, role=one) for one in roles) or (self,)

    @property
    def lock_files(self) -> tuple[Path, ...]:
        roles = (self.role,) if self.role else ROLES.get(self.crawler, ("",))
        return tuple(self.state / _LOCKS.get(role, "lock") for role in roles)

    @property
    def figures(self) -> Path:
        """The folder of the figures that a running process writes."""
        return self.state / self.role if self.role in _LOCKS else self.state

    @property
    def snapshot_file(self) -> Path:
        return self.figures / "status.json"

    @property
    def fleet_pulse(self) -> Path:
        """Touched by the command of a fleet for as long as it watches."""
        return self.state / "fleet.alive"

    @property
    def store_figures(self) -> Path:
        """Written every few seconds by `ids store`."""
        return self.state / "store.json"

    def flag(self, word: str) -> Path | None:
        """The control file that exists now: `pause.repos`, or `pause` for every crawler."""
        names = (f"{word}.{name}" for name in (self.crawler, *self.also))
        for name in (*names, word):
            if (self.path / name).exists():
                return self.path / name
        return None


_PLACES = {"registry": "--registry", "redis_address": "--store", "store": "--store"}


def located(flags: Mapping[str, Any]) -> str:
    """Flags that say where state is, besides -w, as they are typed; empty without any."""
    given = {name: flags[key] for key, name in _PLACES.items() if flags.get(key)}
    return "".join(f" {name} {quote(redact(str(value)))}" for name, value in given.items())


def find(path: Path, crawler: str, flags: Mapping[str, Any] = _NO_FLAGS) -> Workspace:
    """A workspace that must exist."""
    workspace = Workspace(path, crawler, given=located(flags))
    if not path.exists():
        raise NoWorkspace(
            f"there is no workspace {shown(path)}",
            f"start one with: trawlnet {crawler} crawl {workspace.place}",
        )
    if not path.is_dir():
        raise NoWorkspace(f"{shown(path)} is not a directory", "name a directory with -w")
    check_format(workspace.state)
    return workspace


def create(path: Path, crawler: str, flags: Mapping[str, Any] = _NO_FLAGS) -> Workspace:
    """The workspace for a verb that starts work."""
    if path.exists() and not path.is_dir():
        raise NoWorkspace(f"{shown(path)} is not a directory", "name a directory with -w")
    workspace = Workspace(path, crawler, given=located(flags))
    check_format(workspace.state)
    make_directory(workspace.state)
    make_directory(workspace.logs)
    stamp_format(workspace.state)
    return workspace


def shown(path: Path) -> str:
    """A path as a user types it: `./net`, not `net`."""
    if path.is_absolute() or path.parts[:1] in ((), ("..",)):
        return str(path)
    return f"./{path}"


@contextmanager
def locked(workspace: Workspace) -> Iterator[None]:
    """Be the only process that changes this crawler's state, or the only one in its role. The
    kernel releases the lock when the process dies."""
    make_directory(workspace.state)
    with ExitStack() as stack:
        for path in workspace.lock_files:
            stack.enter_context(_locked(path, workspace))
        yield


@contextmanager
def _locked(path: Path, workspace: Workspace) -> Iterator[None]:
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        if not _take(fd, fcntl.LOCK_EX, _PROBES):
            doing = "is being scraped" if path.name in _LOCKS.values() else "is in use"
            raise InUse(
                f"workspace {shown(workspace.path)} {doing} by pid {_pid_in(fd) or 'unknown'}",
                "wait, or stop that process",
            )
        os.ftruncate(fd, 0)
        os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
        yield
        os.ftruncate(fd, 0)
    finally:
        os.close(fd)


def holder(workspace: Workspace) -> int | None:
    """The pid of the process that holds the lock now; of this role, if the workspace has one."""
    return next((pid for path in workspace.lock_files if (pid := _holder(path))), None)


def _holder(path: Path) -> int | None:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        return None if _take(fd, fcntl.LOCK_SH, 1) else _pid_in(fd)
    finally:
        os.close(fd)


def _take(fd: int, kind: int, tries: int) -> bool:
    for left in reversed(range(tries)):
        try:
            fcntl.flock(fd, kind | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
                raise
            if left:
                time.sleep(_PROBE_PAUSE)
        else:
            return True
    return False


def _pid_in(fd: int) -> int | None:
    text = os.pread(fd, 20, 0).strip()
    return int(text) if text.isdigit() else None


def write_snapshot(workspace: Workspace, snapshot: dict[str, Any]) -> None:
    """Save the figures for other processes; without fsync, because old figures have no value."""
    make_directory(workspace.figures)
    fresh = workspace.snapshot_file.with_suffix(".tmp")
    fresh.write_text(json.dumps(snapshot), "utf-8")
    fresh.replace(workspace.snapshot_file)


def read_snapshot(workspace: Workspace) -> dict[str, Any] | None:
    try:
        snapshot = json.loads(workspace.snapshot_file.read_bytes())
    except (FileNotFoundError, ValueError):
        return None
    return snapshot if isinstance(snapshot, dict) else None


def size_of(path: Path) -> int:
    """Bytes on disk under a path; the holes of sparse files do not count."""
    if not path.is_dir() or path.is_symlink():
        return _blocks(path)
    return sum(_blocks(Path(folder, name)) for folder, _, names in os.walk(path) for name in names)


def _blocks(path: Path) -> int:
    try:
        return path.lstat().st_blocks * 512  # POSIX counts blocks of this size everywhere.
    except FileNotFoundError:
        return 0
