"""One line of the capture log: the data of a capture, and the places of its bytes."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, cast

import msgspec

from trawlnet.captures.capture import Capture, CapturedLink
from trawlnet.engine.task import Task
from trawlnet.queues.queue import decode, encode
from trawlnet.storage.errors import SinkError


class InWarc(msgspec.Struct, frozen=True, gc=False):
    """The place of a capture's response record in the WARC files."""

    file: str
    offset: int
    length: int
    digest: str  # Of the payload; empty if it is unknown.
    revisit: bool
    end: int  # Of all records of this capture: redirects come before it, the request after.


class CaptureLine(msgspec.Struct, frozen=True, gc=False):
    """Resolved: a 304 names the content that it confirms."""

    batch: int  # Captures of one batch became durable together.
    run: str
    visit: str  # Equal for two captures of one visit that a crash made us repeat.
    timestamp: float
    url: str
    http_status: int
    final_url: str = ""
    hops: Sequence[str] = []
    page_type: str = ""
    depth: int = 0
    referrer: str | None = None
    content_type: str = ""
    encoding: str = ""
    content_sha256: str = ""
    content_bytes: int = 0
    stored_path: str = ""
    etag: str = ""
    last_modified: str = ""
    fetch_latency_ms: float = 0.0
    retries: int = 0
    proxy_id: str = ""
    metadata: Mapping[str, Any] = {}
    simhash: int | None = None
    revisit_in: float | None = None
    warc: InWarc | None = None
    links: Sequence[CapturedLink] = []  # Plain edges before the line was written.


class Content(msgspec.Struct, frozen=True, gc=False):
    """The content of a capture, received now or known from before."""

    sha256: str = ""
    size: int = 0  # 0 for a 304, which has no body.
    stored_path: str = ""


def visit_of(producer: str, task: Task, status: int, sha256: str) -> str:
    """The name of a visit: a task repeated after a lost receipt has the same key and due time."""
    identity = f"{producer}\0{task.key}\0{task.due!r}\0{status}\0{sha256}"
    return hashlib.blake2b(identity.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def line_of(
    capture: Capture, content: Content, batch: int, run: str, visit: str, warc: InWarc | None
) -> CaptureLine:
    return CaptureLine(
        batch=batch,
        run=run,
        visit=visit,
        timestamp=capture.timestamp,
        url=capture.url,
        http_status=capture.http_status,
        final_url=capture.final_url,
        hops=[hop.url for hop in capture.hops],
        page_type=capture.page_type,
        depth=capture.depth,
        referrer=capture.referrer,
        content_type=capture.content_type,
        encoding=capture.encoding,
        content_sha256=content.sha256,
        content_bytes=content.size,
        stored_path=content.stored_path,
        etag=capture.etag,
        last_modified=capture.last_modified,
        fetch_latency_ms=capture.fetch_latency_ms,
        retries=capture.retries,
        proxy_id=capture.proxy_id,
        metadata=capture.metadata,
        simhash=capture.simhash,
        revisit_in=capture.revisit_in,
        warc=warc,
        links=cast("Sequence[CapturedLink]", capture.links or []),
    )


def pack(line: CaptureLine) -> bytes:
    """JSON, ending in a newline. Empty optional fields are left out."""
    value = msgspec.structs.asdict(line)
    for name, default in _DEFAULTS:
        if value[name] == default:
            del value[name]
    if line.warc:
        value["warc"] = msgspec.structs.asdict(line.warc)
    return encode(value) + b"\n"


_EMPTY = CaptureLine(batch=0, run="", visit="", timestamp=0.0, url="", http_status=0)
_OPTIONAL = CaptureLine.__struct_fields__[-len(CaptureLine.__struct_defaults__) :]
_DEFAULTS = tuple((name, getattr(_EMPTY, name)) for name in _OPTIONAL)


def unpack(raw: bytes, place: str) -> CaptureLine:
    try:
        value = decode(raw)
        value["links"] = [CapturedLink(*link) for link in value.get("links", ())]
        value["warc"] = InWarc(**value["warc"]) if "warc" in value else None
        return CaptureLine(**value)
    except (ValueError, TypeError):
        raise SinkError(
            f"{place}: not a line of a capture log", "restore the file or remove the line"
        ) from None


class Target(msgspec.Struct, array_like=True, gc=False):
    """The target of a link."""

    to: str


class Glance(msgspec.Struct, gc=False):
    """The fields of a line that a report counts; skips the words around links."""

    timestamp: float
    url: str
    http_status: int
    page_type: str = ""
    depth: int = 0
    content_type: str = ""
    content_sha256: str = ""
    content_bytes: int = 0
    stored_path: str = ""
    fetch_latency_ms: float = 0.0
    links: list[Target] = msgspec.field(default_factory=list)


_glance = msgspec.json.Decoder(Glance).decode


def glance(raw: bytes, place: str) -> Glance | CaptureLine:
    try:
        return _glance(raw)
    except ValueError:
        # A lone surrogate, which this decoder refuses; or no line at all.
        return unpack(raw, place)
