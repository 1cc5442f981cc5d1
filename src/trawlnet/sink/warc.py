"""WARC files, rotated by size; a file is called `.open` until it is complete."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from uuid import NAMESPACE_URL, UUID, uuid5

import zstandard

from trawlnet.formats import warc
from trawlnet.formats.warc import Original
from trawlnet.sink.capture import Capture
from trawlnet.sink.capture_line import InWarc
from trawlnet.sink.files import fsync_path, make_directory, write_all

_OPEN = ".open"
_NOTHING = "sha1:3I42H3S6NNFQ2MSVX7XZKYAYSCX5QBYJ"  # The digest of no bytes at all.


class WarcFiles:
    """Records are collected by `add`, written by `flush`, and count from `commit` on: what a
    crash leaves beyond the last commit is cut, because nothing else knows of it."""

    def __init__(
        self,
        folder: Path,
        run: str,
        about: Mapping[str, str],
        most_bytes: int,
        zstd_level: int | None = None,
    ) -> None:
        make_directory(folder)
        self._pack: Callable[[bytes], bytes] = warc.gzip_member
        self._suffix = ".warc.gz"
        if zstd_level is not None:
            frames = zstandard.ZstdCompressor(level=zstd_level, write_checksum=True)
            self._pack, self._suffix = frames.compress, ".warc.zst"
        self._folder = folder
        self._run = run
        self._about = about
        self._most_bytes = most_bytes
        self._number = 0
        self._file: _OpenWarc | None = None
        self._new: dict[str, Original] = {}  # By sha256: payloads that are not committed yet.

    def add(self, capture: Capture, sha256: str, original: Original | None) -> InWarc | None:
        """`sha256` is the content's, `original` the record that holds it already, if any.
        Returns where its record will be; None if there is nothing to record."""
        if capture.body is None and not 300 <= capture.http_status < 400:
            return None
        file = self._current(capture.timestamp)
        for hop in capture.hops:
            head = warc.response_head(hop.status, "", hop.headers, 0)
            identity = file.next_id(), capture.timestamp, hop.url
            file.add(warc.response(*identity, head, b"", _NOTHING))
        offset, answer = file.size, file.next_id()
        record, digest, revisit = self._answer(
            answer, capture, sha256, original or self._new.get(sha256)
        )
        length = file.add(record)
        if capture.request_headers:
            file.add(_request(file.next_id(), capture, answer))
        return InWarc(file.name, offset, length, digest, revisit, file.size)

    def flush(self) -> None:
        """Durable on return."""
        if self._file:
            self._file.flush()

    def commit(self) -> None:
        """What was flushed is known to the capture log."""
        self._new.clear()
        if self._file:
            self._file.committed = self._file.size
            if self._file.size >= self._most_bytes:
                self.close()

    def close(self) -> None:
        file, self._file = self._file, None
        if file:
            file.finish()

    def _answer(
        self, record_id: UUID, capture: Capture, sha256: str, original: Original | None
    ) -> tuple[bytes, str, bool]:
        """The record of a capture's answer, its payload's digest, and whether it is a revisit."""
        url, at = capture.final_url or capture.url, capture.timestamp
        if capture.http_status == 304:
            head = _head(capture, None)
            record = warc.revisit(record_id, at, url, head, warc.NOT_MODIFIED, original)
            return record, original.digest if original else "", True
        body = capture.body or b""
        head = _head(capture, len(body))
        if original and body:
            record = warc.revisit(record_id, at, url, head, warc.SAME_PAYLOAD, original)
            return record, original.digest, True
        digest = warc.payload_digest(body)
        if sha256 and body:
            self._new[sha256] = Original(url, at, digest)
        return warc.response(record_id, at, url, head, body, digest), digest, False

    def _current(self, timestamp: float) -> _OpenWarc:
        if self._file is None:
            self._number += 1
            while (path := self._path()).exists():  # Of an earlier process of this run.
                self._number += 1
            self._file = _OpenWarc(path, self._pack)
            about = [("format", "WARC File Format 1.1"), *self._about.items()]
            about += [("isPartOf", self._run), ("filename", path.name)]
            self._file.add(warc.info(self._file.next_id(), timestamp, about))
        return self._file

    def _path(self) -> Path:
        return self._folder / f"trawlnet-{self._run}-{self._number:05d}{self._suffix}"


class _OpenWarc:
    def __init__(self, path: Path, pack: Callable[[bytes], bytes]) -> None:
        self._pack = pack
        self.name = path.name
        self.size = 0
        self.committed = 0
        self._path = path
        self._unfinished = path.with_name(path.name + _OPEN)
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
        self._fd = os.open(self._unfinished, flags, 0o644)
        fsync_path(path.parent)
        self._records: list[bytes] = []

    def next_id(self) -> UUID:
        """Unique as long as file names are."""
        return uuid5(NAMESPACE_URL, f"{self.name}#{self.size}")

    def add(self, record: bytes) -> int:
        """Returns its length as packed."""
        packed = self._pack(record)
        self._records.append(packed)
        self.size += len(packed)
        return len(packed)

    def flush(self) -> None:
        if self._records:
            write_all(self._fd, b"".join(self._records))
            self._records.clear()
            os.fsync(self._fd)

    def finish(self) -> None:
        os.close(self._fd)
        _finish(self._unfinished, self._path, self.committed)


def recover(folder: Path, last: tuple[str, int] | None) -> None:
    """Complete the file that a killed process left open: up to the last record that the capture
    log knows of, which is told as the file's name and the record's end."""
    for unfinished in folder.glob(f"*{_OPEN}") if folder.is_dir() else ():
        path = unfinished.with_name(unfinished.name.removesuffix(_OPEN))
        _finish(unfinished, path, last[1] if last and last[0] == path.name else 0)


def _finish(unfinished: Path, path: Path, size: int) -> None:
    if size == 0:
        unfinished.unlink()
    else:
        os.truncate(unfinished, size)
        fsync_path(unfinished)
        unfinished.replace(path)
    fsync_path(path.parent)


def _head(capture: Capture, size: int | None) -> bytes:
    headers = capture.response_headers
    return warc.response_head(capture.http_status, capture.reason_phrase, headers, size)


def _request(record_id: UUID, capture: Capture, answer: UUID) -> bytes:
    url = capture.final_url or capture.url
    # By hand: some URLs that browsers accept are refused by the standard library.
    beyond_host = _AFTER_HOST.match(url)
    target = beyond_host[1] if beyond_host else url
    head = warc.request_head(target or "/", capture.request_headers)
    return warc.request(record_id, capture.timestamp, url, head, answer)


_AFTER_HOST = re.compile(r"[a-z]+://[^/?#]*([^#]*)")
