"""A content-addressed store of bodies: each is stored once, under its sha256, and never in part."""

from __future__ import annotations

import asyncio
import fcntl
import hashlib
import os
import re
import shutil
import tempfile
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import msgspec

from trawlnet.engine.durable import fsync_path, make_directory
from trawlnet.native.zstd import FrameWriter, ZstdError, read_frame
from trawlnet.storage.errors import SinkError
from trawlnet.storage.files import disk_errors, sync_filesystem, write_new

_TEMPORARY = ".tmp"
_SHARD_CHARS = len("aa/bb")
_SYNC_THREADS = 8
# From this many new bodies on, the whole file system is synced instead of each file and directory:
# measured on ext4, a third less CPU time in batches of four, and less with each further one.
_MANY = 4
_SHA256 = re.compile(r"[0-9a-f]{64}")
_BODY_BYTES = 1024 * 1024 * 1024  # Larger bodies are not read into memory.


class Blob(msgspec.Struct, frozen=True, gc=False):
    sha256: str  # Of the body, not of its compressed file.
    size: int
    file: str  # A plain string, because there are thousands and few are opened.

    @property
    def path(self) -> Path:
        return Path(self.file)


@dataclass(frozen=True, slots=True)
class BlobDamage:
    path: Path
    what: str


class BlobStore:
    """Bodies at `root/aa/bb/<sha256><suffix>`, with `.zst` added when they are compressed.

    Several threads and processes may put into one root: the same content gets the same name.
    """

    def __init__(
        self,
        root: Path,
        suffix: str = "",
        zstd_level: int | None = None,
        permissions: int = 0o644,
    ) -> None:
        self._root = root
        self._folder = str(root)
        self._permissions = permissions
        self._suffix = suffix if zstd_level is None else f"{suffix}.zst"
        self._codec = None if zstd_level is None else _ZstdCodec(zstd_level)
        self._shards: set[str] = set()  # Existing directories, at most 65536.
        self._durable: set[Path] = set()  # Directories whose own names are known to be durable.
        self._lock = threading.Lock()  # One batch at a time: compressor and set are shared.
        self._syncing = ThreadPoolExecutor(_SYNC_THREADS, thread_name_prefix="blob-fsync")
        self._serial = 0
        with disk_errors(f"opening blob store {root}"):
            make_directory(root / _TEMPORARY)
            self._scratch = _Scratch(root / _TEMPORARY)

    def path(self, sha256: str) -> Path:
        """Where a body of this hash is, or would be."""
        if not _SHA256.fullmatch(sha256):
            raise ValueError(f"not a sha256 in lower-case hex: {sha256[:80]!r}")
        return Path(self._file(sha256))

    async def put(self, body: bytes) -> Blob:
        """Store one body, durably; a body that is there already is not written again."""
        return (await self.put_many([body]))[0]

    async def put_many(self, bodies: Sequence[bytes]) -> list[Blob]:
        """All durable on return; the disk works off the event loop."""
        return await asyncio.to_thread(self.put_many_blocking, bodies)

    def put_many_blocking(self, bodies: Sequence[bytes]) -> list[Blob]:
        """The same for a program without an event loop."""
        blobs = [self._blob(body) for body in bodies]
        missing = {b.file: body for b, body in zip(blobs, bodies, strict=True)}
        with self._lock, disk_errors(f"writing blobs to {self._root}"):
            held = [path for path, body in missing.items() if self._holds(path, body)]
            for path in held:
                del missing[path]
            many = len(missing) >= _MANY
            self._write(missing, many)
            # Another writer may have renamed the file a moment ago, so it may not be durable yet.
            self._make_names_durable([*held, *missing], many)
        return blobs

    async def get(self, sha256: str) -> bytes:
        """The body, checked against its name."""
        return await asyncio.to_thread(self._get, sha256)

    def verify(self) -> Iterator[BlobDamage]:
        """Read every file; blocking, one file in memory at a time."""
        for path in sorted(self._root.glob("[0-9a-f][0-9a-f]/[0-9a-f][0-9a-f]/*")):
            what = self._damage(path)
            if what:
                yield BlobDamage(path, what)

    def close(self) -> None:
        """What was stored stays; nothing more can be."""
        with self._lock:
            self._syncing.shutdown()
            self._scratch.close()

    def _file(self, sha256: str) -> str:
        return f"{self._folder}/{sha256[:2]}/{sha256[2:4]}/{sha256}{self._suffix}"

    def _blob(self, body: bytes) -> Blob:
        sha256 = hashlib.sha256(body).hexdigest()
        return Blob(sha256, len(body), self._file(sha256))

    def _holds(self, path: str, body: bytes) -> bool:
        """Whether the file has this body. A damaged file is written again: the same content comes
        seldom, so comparing it costs little."""
        if self._makes_shard(path):
            return False
        try:
            size = os.stat(path).st_size  # noqa: PTH116 - a Path would cost more than the call.
            if self._codec is None:
                return size == len(body) and Path(path).read_bytes() == body
            return self._codec.inflate(Path(path).read_bytes()) == body
        except (FileNotFoundError, ValueError):
            return False

    def _makes_shard(self, path: str) -> bool:
        """Create the directory of a file; returns whether it is new, and so without the file."""
        folder = path.rpartition("/")[0]
        shard = folder[-_SHARD_CHARS:]
        if shard in self._shards:
            return False
        self._shards.add(shard)
        return _make_shard(folder)

    def _write(self, bodies: Mapping[str, bytes], many: bool) -> None:
        temporary: dict[str, str] = {}
        scratch = str(self._scratch.path)
        try:
            for path, body in bodies.items():
                self._serial += 1
                temporary[path] = f"{scratch}/{self._serial}"
                stored = self._codec.deflate(body) if self._codec else body
                write_new(temporary[path], stored, self._permissions)
            self._fsync(temporary.values(), many)
            for path, temp in temporary.items():
                _move(temp, path)
        except OSError:
            for temp in temporary.values():
                Path(temp).unlink(missing_ok=True)
            raise

    def _make_names_durable(self, paths: Sequence[str], many: bool) -> None:
        """Sync each changed directory, and the ones above it once in the life of the process."""
        if not paths or (many and sync_filesystem(self._root)):
            return
        shards = {Path(path).parent for path in paths}
        self._fsync(map(str, shards))
        above = {d for shard in shards for d in (shard, shard.parent)} - self._durable
        self._fsync({str(directory.parent) for directory in above})
        self._durable |= above

    def _fsync(self, paths: Iterable[str], many: bool = False) -> None:
        if many and sync_filesystem(self._root):
            return
        # All at once, because a journaling file system commits them together: measured on ext4,
        # a hundred new files take a tenth of the time they take one by one.
        for _ in self._syncing.map(fsync_path, list(paths)):
            pass

    def _get(self, sha256: str) -> bytes:
        path = self.path(sha256)
        try:
            raw = path.read_bytes()
            body = self._codec.inflate(raw) if self._codec else raw
        except FileNotFoundError:
            raise KeyError(sha256) from None
        except ValueError as error:
            raise SinkError(f"{path}: {error}", "fetch the page again to heal it") from None
        if hashlib.sha256(body).hexdigest() != sha256:
            raise SinkError(f"{path}: content does not match its name", "fetch the page again")
        return body

    def _damage(self, path: Path) -> str:
        """What is wrong with a file; empty when nothing is."""
        sha256 = path.name.split(".", 1)[0]
        if not _SHA256.fullmatch(sha256) or path != self.path(sha256):
            return "not a blob of this store"
        try:
            raw = path.read_bytes()
            body = self._codec.inflate(raw) if self._codec else raw
        except (OSError, ValueError) as error:
            return str(error)
        if hashlib.sha256(body).hexdigest() != sha256:
            return f"content does not match its name ({len(body)} bytes)"
        return ""


def read_blob(path: Path) -> bytes:
    """The body in a file of any blob store, compressed or not, checked against its name.

    Raises ValueError for a damaged file, FileNotFoundError for a missing one.
    """
    raw = path.read_bytes()
    body = _inflate(raw) if path.suffix == ".zst" else raw
    if hashlib.sha256(body).hexdigest() != path.name.split(".", 1)[0]:
        raise ValueError(f"content does not match its name ({len(body)} bytes)")
    return body


def _move(temp: str, path: str) -> None:
    """Move a file into its directory, which is created again if it was deleted."""
    try:
        os.rename(temp, path)  # noqa: PTH104 - a Path each would cost more than the call.
    except FileNotFoundError:
        _make_shard(path.rpartition("/")[0])
        os.rename(temp, path)  # noqa: PTH104 - as above.


def _make_shard(folder: str) -> bool:
    """Whether the directory is new. Until all 65536 exist, most new bodies need one."""
    try:
        os.mkdir(folder)  # noqa: PTH102 - a Path would cost more than the call.
    except FileNotFoundError:
        Path(folder).mkdir(parents=True, exist_ok=True)
        return False
    except FileExistsError:
        return False
    return True


class _ZstdCodec:
    """A reused context: creating one costs more than compressing a small page."""

    def __init__(self, level: int) -> None:
        self._compressor = FrameWriter(level, False)

    def deflate(self, body: bytes) -> bytes:
        return self._compressor.frame(body)

    def inflate(self, raw: bytes) -> bytes:
        return _inflate(raw)


def _inflate(raw: bytes) -> bytes:
    """Raises ValueError for anything but one whole frame."""
    try:
        return read_frame(raw, _BODY_BYTES)
    except ZstdError as error:
        raise ValueError(f"not a whole zstd frame: {error}") from None


class _Scratch:
    """The directory of this process for temporary files, locked while it runs; those of dead
    processes are removed."""

    def __init__(self, parent: Path) -> None:
        for leftover in parent.iterdir():
            fd = _lock_directory(leftover)
            if fd is not None:
                shutil.rmtree(leftover, ignore_errors=True)
                os.close(fd)
        self.path, self._fd = _make_locked_directory(parent)

    def close(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._fd)


def _make_locked_directory(parent: Path) -> tuple[Path, int]:
    while True:
        path = Path(tempfile.mkdtemp(dir=parent))
        fd = _lock_directory(path)
        # Another process may have removed it as abandoned before it was locked.
        if fd is not None and path.exists():
            return path, fd
        if fd is not None:
            os.close(fd)


def _lock_directory(path: Path) -> int | None:
    """An open, locked descriptor; None if another process holds it or it is gone."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        return None
    return fd
