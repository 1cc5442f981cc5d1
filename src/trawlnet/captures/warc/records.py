"""Packs the records of captures one by one, and computes their places in the file."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from uuid import NAMESPACE_URL, UUID, uuid5

from trawlnet.captures.capture import Capture
from trawlnet.captures.line import InWarc
from trawlnet.captures.warc import format
from trawlnet.captures.warc.format import Original
from trawlnet.native.zstd import FrameWriter

_NOTHING = "sha1:3I42H3S6NNFQ2MSVX7XZKYAYSCX5QBYJ"  # The digest of an empty payload.


@dataclass(frozen=True, slots=True)
class Packing:
    """The compression of records, and the file extension."""

    pack: Callable[[bytes], bytes]
    suffix: str


def packing_of(zstd_level: int | None) -> Packing:
    if zstd_level is None:
        return Packing(format.gzip_member, ".warc.gz")
    return Packing(FrameWriter(zstd_level, True).frame, ".warc.zst")


def is_recorded(capture: Capture) -> bool:
    """Whether the capture has a record."""
    return capture.body is not None or 300 <= capture.http_status < 400


class WarcRecords:
    """One growing file. `take` returns the added bytes, in order."""

    def __init__(self, name: str, packing: Packing) -> None:
        self.name = name
        self.size = 0  # Of all records so far.
        self._pack = packing.pack
        self._records: list[bytes] = []

    def describe(self, timestamp: float, run: str, about: Mapping[str, str]) -> None:
        """Add the first record of a file."""
        fields = [("format", "WARC File Format 1.1"), *about.items()]
        fields += [("isPartOf", run), ("filename", self.name)]
        self._add(format.info(self._next_id(), timestamp, fields))

    def add(self, capture: Capture, original: Original | None) -> Recorded:
        """`original` is an earlier record of the same payload, if any."""
        for hop in capture.hops:
            head = format.response_head(hop.status, "", hop.headers, 0)
            identity = self._next_id(), capture.timestamp, hop.url
            self._add(format.response(*identity, head, b"", _NOTHING))
        offset, answer = self.size, self._next_id()
        record, digest, revisit = _answer(answer, capture, original)
        length = self._add(record)
        if capture.request_headers:
            self._add(_request(self._next_id(), capture, answer))
        where = InWarc(self.name, offset, length, digest, revisit, self.size)
        payload = Original(capture.final_url or capture.url, capture.timestamp, digest)
        return Recorded(where, payload if capture.body and not revisit else None)

    def take(self) -> bytes:
        records, self._records = self._records, []
        return b"".join(records)

    def _next_id(self) -> UUID:
        """A UUID that is unique if file names are."""
        return uuid5(NAMESPACE_URL, f"{self.name}#{self.size}")

    def _add(self, record: bytes) -> int:
        """Returns its packed length."""
        packed = self._pack(record)
        self._records.append(packed)
        self.size += len(packed)
        return len(packed)


@dataclass(frozen=True, slots=True)
class Recorded:
    where: InWarc
    payload: Original | None  # The record for later revisits of the same payload to refer to.


def _answer(
    record_id: UUID, capture: Capture, original: Original | None
) -> tuple[bytes, str, bool]:
    """The record of a capture's answer, its payload's digest, and whether it is a revisit."""
    url, at = capture.final_url or capture.url, capture.timestamp
    if capture.http_status == 304:
        head = _head(capture, None)
        record = format.revisit(record_id, at, url, head, format.NOT_MODIFIED, original)
        return record, original.digest if original else "", True
    body = capture.body or b""
    head = _head(capture, len(body))
    if original and body:
        record = format.revisit(record_id, at, url, head, format.SAME_PAYLOAD, original)
        return record, original.digest, True
    digest = format.payload_digest(body)
    return format.response(record_id, at, url, head, body, digest), digest, False


def _head(capture: Capture, size: int | None) -> bytes:
    headers = capture.response_headers
    return format.response_head(capture.http_status, capture.reason_phrase, headers, size)


def _request(record_id: UUID, capture: Capture, answer: UUID) -> bytes:
    url = capture.final_url or capture.url
    # Parsed by hand: the standard library refuses some URLs that browsers accept.
    beyond_host = _AFTER_HOST.match(url)
    target = beyond_host[1] if beyond_host else url
    head = format.request_head(target or "/", capture.request_headers)
    return format.request(record_id, capture.timestamp, url, head, answer)


_AFTER_HOST = re.compile(r"[a-z]+://[^/?#]*([^#]*)")
