"""Captures in an archive that many machines write: WARC files, and logs of settled captures.

A part is a WARC file and a log of its captures, each line after the key of its task. Logs are
composed of the lines whose keys were settled; the WARC files stay as they are.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass

from trawlnet.captures.capture import Capture
from trawlnet.captures.line import Content, line_of, pack, visit_of
from trawlnet.captures.warc.records import Packing, WarcRecords, is_recorded, packing_of
from trawlnet.engine.task import Task
from trawlnet.native.zstd import FrameWriter, ZstdError, read_pieces
from trawlnet.storage.errors import SinkError
from trawlnet.storage.objects import Objects
from trawlnet.storage.part_sink import PartForm

PARTS = "parts"
WARC = "warc"
PART_SUFFIX = ".jsonl.zst"
_PRODUCER = "fleet"
_PER_CAPTURE = 1_000  # Bytes of a capture in memory, an estimate.
_PER_LINK = 300  # Bytes of a link with its words.
_LEVEL = 3  # Of zstd.


@dataclass(frozen=True, slots=True)
class Writing:
    """The settings that all parts of a run share."""

    run: str
    about: Mapping[str, str]  # For the WARC's own description.
    zstd_level: int | None = None  # Of WARC records; None: gzip.

    @property
    def packing(self) -> Packing:
        return packing_of(self.zstd_level)


@dataclass(frozen=True, slots=True)
class _Piece:
    task: Task
    capture: Capture
    sha256: str  # Of the stored body; empty if none is stored.


def part_path(part: str) -> str:
    return f"{PARTS}/{part}{PART_SUFFIX}"


def capture_form(writing: Writing) -> PartForm:
    """Parts of captures, for a PartSink."""

    def objects(name: str, pieces: Sequence[_Piece], at_us: int) -> list[tuple[str, bytes]]:
        packing = writing.packing
        records = WarcRecords(f"{name}{packing.suffix}", packing)
        records.describe(at_us / 1e6, writing.run, writing.about)
        log = b"".join(_line(piece, records, writing.run) for piece in pieces)
        warc = f"{WARC}/{records.name}", records.take()
        # The log comes last, so that its WARC file exists.
        return [warc, (part_path(name), FrameWriter(_LEVEL, False).frame(log))]

    return PartForm(_piece, _size, objects)


def _piece(task: Task, capture: Capture) -> _Piece:
    body = capture.body if capture.stored else None
    return _Piece(task, capture, "" if body is None else hashlib.sha256(body).hexdigest())


def _size(piece: _Piece) -> int:
    capture = piece.capture
    return len(capture.body or b"") + _PER_CAPTURE + _PER_LINK * len(capture.links)


def _line(piece: _Piece, records: WarcRecords, run: str) -> bytes:
    capture, task = piece.capture, piece.task
    # Every body is recorded whole: the part with an earlier copy may never be published.
    where = records.add(capture, None).where if is_recorded(capture) else None
    content = Content()
    if piece.sha256:
        content = Content(piece.sha256, len(capture.body or b""), f"{WARC}/{records.name}")
    visit = visit_of(_PRODUCER, task, capture.http_status, piece.sha256)
    return task.key.encode() + b"\t" + pack(line_of(capture, content, 0, run, visit, where))


class ComposedLog:
    """A log of the settled captures of some parts; read all `pieces` before the figures."""

    def __init__(self, objects: Objects, settled: Mapping[str, Set[bytes]]) -> None:
        """`settled` are the keys that count, by part."""
        self._objects = objects
        self._settled = settled
        self.captures = 0

    def pieces(self) -> Iterator[bytes]:
        """Raises SinkError for a part that lacks a settled capture."""
        packer = FrameWriter(_LEVEL, False)
        for part, keys in self._settled.items():
            lines = list(_counting(self._lines(part), keys))
            if len(lines) < len(keys):
                raise _spoilt(self._objects, part, f"{len(keys) - len(lines)} captures are missing")
            self.captures += len(lines)
            yield packer.add(b"".join(lines))
        yield packer.end()

    def _lines(self, part: str) -> Iterator[bytes]:
        try:
            packed = self._objects.get(part_path(part))
            yield from zstd_lines(packed)
        except (ZstdError, FileNotFoundError) as error:
            raise _spoilt(self._objects, part, str(error)) from error


def _counting(lines: Iterator[bytes], keys: Set[bytes]) -> Iterator[bytes]:
    """The lines of settled keys; of a key that occurs twice, after a lost lease, the first."""
    left = set(keys)
    for line in lines:
        key, _, rest = line.partition(b"\t")
        if key in left:
            left.discard(key)
            yield rest


def zstd_lines(packed: bytes) -> Iterator[bytes]:
    """Raises ZstdError."""
    rest = b""
    for piece in read_pieces(packed):
        *lines, rest = (rest + piece).split(b"\n")
        yield from (line + b"\n" for line in lines)
    if rest:
        yield rest


def _spoilt(objects: Objects, part: str, what: str) -> SinkError:
    return SinkError(
        f"{objects.url}/{part_path(part)}: {what}",
        "keep it, and restore the part as it was written: its pages count as captured",
    )
