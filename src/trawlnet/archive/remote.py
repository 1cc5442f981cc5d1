"""Segments in an object store, read by ranges as if they were files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from trawlnet.storage.s3 import SCHEME, S3Objects

_FIRST: Final = 64 << 10  # A single look costs little;
_MOST: Final = 8 << 20  # whoever reads on gets more with every request.


@dataclass(frozen=True, slots=True)
class Remote:
    """A place in an object store: a folder of segments, or one of them."""

    objects: S3Objects
    within: str = ""

    def __truediv__(self, name: str) -> Remote:
        return Remote(self.objects, f"{self.within}/{name}".lstrip("/"))

    def __str__(self) -> str:
        return f"{self.objects.url}/{self.within}".rstrip("/")

    def __hash__(self) -> int:
        return hash(str(self))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Remote) and str(self) == str(other)

    @property
    def name(self) -> str:
        return self.within.rpartition("/")[2]

    def sizes(self, folder: str = "") -> Mapping[str, int]:
        return self.objects.sizes("/".join(part for part in (self.within, folder) if part))

    def open(self) -> RangeFile:
        return _file(self.objects, self.within)


def remote(url: str, options: Mapping[str, str]) -> Remote:
    """What an s3:// URL names. One that ends like a file is a file, any other a folder."""
    assert url.startswith(SCHEME)
    folder, _, last = url.rstrip("/").rpartition("/")
    if last.endswith(".rca"):
        return Remote(S3Objects(folder, options), last)
    return Remote(S3Objects(url, options))


@lru_cache(maxsize=64)
def _file(objects: S3Objects, name: str) -> RangeFile:
    """Objects of an archive are never replaced: what was read ahead of one stays good."""
    return RangeFile(objects, name)


class RangeFile:
    """One object; keeps what it read ahead, so that walking along it takes few requests."""

    def __init__(self, objects: S3Objects, name: str) -> None:
        self._objects = objects
        self._name = name
        self.size, self.version = objects.stat(name)
        self._window = (0, b"")  # Swapped as one: several threads may read.
        self._step = _FIRST
        self._read_to = 0

    @property
    def held(self) -> int:
        """Bytes that were read ahead and are kept."""
        return len(self._window[1])

    def rest(self) -> None:
        """Give back most of what was read ahead: of an archive many are known, and few read."""
        start, ahead = self._window
        if len(ahead) > _FIRST:
            at = max(self._read_to, start)
            self._window = at, ahead[at - start : at - start + _FIRST]

    def pread(self, size: int, offset: int) -> bytes:
        """Like os.pread: less than asked for only at the end."""
        size = min(size, self.size - offset)
        if size <= 0:
            return b""
        start, ahead = self._window
        if offset < start or offset + size > start + len(ahead):
            start, ahead = self._window = offset, self._fetched(size, offset)
        self._read_to = offset + size
        return ahead[offset - start : offset - start + size]

    def _fetched(self, size: int, offset: int) -> bytes:
        start, ahead = self._window
        onward = start <= offset <= start + len(ahead) + self._step
        self._step = min(2 * self._step, _MOST) if onward else _FIRST
        want = min(max(size, self._step), self.size - offset)
        return self._objects.read(self._name, want, offset)
