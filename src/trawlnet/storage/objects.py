"""Objects that many machines write: in S3, or in a folder of a file system that they share."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final, Protocol

from trawlnet.engine.durable import fsync_path, make_directory
from trawlnet.storage.files import disk_errors, write_all
from trawlnet.storage.s3 import SCHEME, ObjectsError, S3Objects


class Objects(Protocol):
    """Blocking; names may have folders. Never overwritten: every name is used once."""

    url: str

    def put(self, name: str, data: bytes | Iterable[bytes]) -> None:
        """Durable when this returns; readers never see a part of it."""

    def get(self, name: str) -> bytes: ...

    def read(self, name: str, size: int, offset: int) -> bytes:
        """`size` bytes from `offset` on; the object must be long enough."""

    def sizes(self, folder: str) -> dict[str, int]:
        """The objects directly in a folder, by name; an empty name is the top folder."""

    def delete(self, names: Iterable[str]) -> None:
        """Delete these objects; missing ones are ignored."""


def open_objects(where: str, s3: Mapping[str, str]) -> Objects:
    """`s3://BUCKET/PREFIX` or a folder; `s3` has the options of the former."""
    return S3Objects(where, s3) if where.startswith(SCHEME) else FolderObjects(Path(where))


def check_archive(where: str, s3: Mapping[str, str]) -> None:
    """Write, read and delete a probe, as a fleet will. Raises the error: later, a fleet waits for a
    store that does not answer, and could not tell it from a missing or closed bucket."""
    objects = S3Objects(where, s3, _PROBE_SECONDS) if where.startswith(SCHEME) else None
    tried = objects or FolderObjects(Path(where))
    name = f"{_PROBE}{uuid.uuid4().hex}"
    tried.put(name, _PROBE_TEXT)
    if tried.get(name) != _PROBE_TEXT:
        raise ObjectsError(
            f"{tried.url}: reading back gave other bytes than were written",
            "name an archive of your own",
        )
    tried.sizes("")
    if isinstance(tried, FolderObjects):
        tried.delete_abandoned(name)
    tried.delete([name])


_PROBE: Final = "trawlnet-probe-"  # Readers of archives ignore objects of this name.
_PROBE_TEXT: Final = b"written to see whether this archive can be written; may be deleted\n"
_PROBE_SECONDS: Final = 10.0  # Time limit, so that a dead address is reported soon.
_ABANDONED: Final = 86_400.0  # Seconds without a write: whoever was at it is not any more.


class FolderObjects:
    def __init__(self, folder: Path) -> None:
        self.url = str(folder)
        self._folder = folder
        with disk_errors(f"opening {folder}"):
            make_directory(folder)

    def put(self, name: str, data: bytes | Iterable[bytes]) -> None:
        path = self._folder / name
        # Several processes may write the same name; each uses a temporary file of its own.
        temp = path.with_name(f".{path.name}.{os.getpid()}.tmp")
        with disk_errors(f"writing {path}"):
            make_directory(path.parent)
            fd = os.open(temp, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
            try:
                for piece in (data,) if isinstance(data, bytes) else data:
                    write_all(fd, piece)
                os.fsync(fd)
            finally:
                os.close(fd)
            temp.replace(path)
            fsync_path(path.parent)

    def delete_abandoned(self, probe: str) -> None:
        """What killed writers had half written, up to a whole segment each. `probe` was written
        just now: it tells the time by the clock of the file system, which others share."""
        with disk_errors(f"tidying {self._folder}"):
            now = (self._folder / probe).stat().st_mtime
            for temp in self._folder.rglob(".*.tmp"):
                with suppress(FileNotFoundError):  # Another command tidies, too.
                    if now - temp.stat().st_mtime > _ABANDONED:
                        temp.unlink()

    def get(self, name: str) -> bytes:
        return (self._folder / name).read_bytes()

    def read(self, name: str, size: int, offset: int) -> bytes:
        with (self._folder / name).open("rb") as file:
            file.seek(offset)
            return file.read(size)

    def sizes(self, folder: str) -> dict[str, int]:
        place = self._folder / folder
        if not place.is_dir():
            return {}
        files = [path for path in place.iterdir() if path.is_file() and path.name[0] != "."]
        return {path.name: path.stat().st_size for path in files}

    def delete(self, names: Iterable[str]) -> None:
        with disk_errors(f"deleting from {self._folder}"):
            for name in names:
                (self._folder / name).unlink(missing_ok=True)
