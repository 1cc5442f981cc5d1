"""Reads the captures of a fleet: the logs that the manifest lists, and bodies in WARC files."""

from __future__ import annotations

import gzip
import hashlib
import json
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from trawlnet.captures.line import CaptureLine, unpack
from trawlnet.captures.parts import WARC, zstd_lines
from trawlnet.native.zstd import ZstdError, read_frame
from trawlnet.storage.errors import SinkError
from trawlnet.storage.objects import Objects

MANIFEST = "manifest"
LOGS = "captures"
_BODY_BYTES = 1 << 30  # Larger bodies are not read into memory.
_END = b"\r\n\r\n"  # Of a head, and of a record.


@dataclass(frozen=True, slots=True)
class ManifestLine:
    """One line of the manifest."""

    log: str  # Its name.
    captures: int
    parts: Sequence[str]

    def as_json(self) -> dict[str, Any]:
        return {"log": self.log, "captures": self.captures, "parts": list(self.parts)}

    @property
    def path(self) -> str:
        return f"{MANIFEST}/{self.log.removesuffix(_SUFFIX)}.json"


_SUFFIX = ".jsonl.zst"


def log_name(number: int) -> str:
    return f"captures_{number:04d}{_SUFFIX}"


def listed_of(line: dict[str, Any]) -> ManifestLine:
    return ManifestLine(line["log"], line["captures"], line["parts"])


def manifest_of(objects: Objects) -> list[ManifestLine]:
    names = sorted(objects.sizes(MANIFEST))
    return [listed_of(json.loads(objects.get(f"{MANIFEST}/{name}"))) for name in names]


def archived_lines(objects: Objects, listed: ManifestLine) -> Iterator[CaptureLine]:
    """Raises SinkError for a log that was changed."""
    path, found = f"{LOGS}/{listed.log}", 0
    try:
        for found, line in enumerate(zstd_lines(objects.get(path)), 1):
            yield unpack(line, f"{objects.url}/{path}, line {found}")
    except (ZstdError, FileNotFoundError) as error:
        raise _damaged(objects, path, str(error)) from error
    if found != listed.captures:
        raise _damaged(objects, path, f"{found} captures, where {listed.captures} are listed")


Read = Callable[[str, int, int], bytes]  # Name, size and offset of a part of an object.


def body_damage(read: Read, line: CaptureLine) -> str:
    """The defect of a capture's stored body; empty if it is sound, or none is stored."""
    if not line.content_sha256 or line.warc is None:
        return ""
    path = f"{WARC}/{line.warc.file}"
    try:
        body = _body(path, read(path, line.warc.length, line.warc.offset))
    except FileNotFoundError:
        return "is not there"
    except (ValueError, EOFError, OSError, zlib.error, ZstdError) as error:
        return str(error) or type(error).__name__
    if hashlib.sha256(body).hexdigest() != line.content_sha256:
        return "is not what was captured"
    return ""


def _body(path: str, packed: bytes) -> bytes:
    """The payload of a response record. Raises ValueError for anything else."""
    is_zstd = path.endswith(".zst")
    record = read_frame(packed, _BODY_BYTES) if is_zstd else gzip.decompress(packed)
    if b"\r\nWARC-Type: response\r\n" not in record.partition(_END)[0]:
        raise ValueError("no response is recorded there")
    _, _, block = record.removesuffix(_END).partition(_END)
    return block.partition(_END)[2]


def _damaged(objects: Objects, path: str, what: str) -> SinkError:
    return SinkError(f"{objects.url}/{path}: {what}", "restore it as it was written")
