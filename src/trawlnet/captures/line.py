"""One line of the capture log: all that is known about a capture, and where its bytes are."""

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
    """Where a capture's own record lies in the WARC files."""

    file: str
    offset: int
    length: int
    digest: str  # Of the payload; empty if it is not known.
    revisit: bool
    end: int  # Of all records of this capture: its redirects come before, its request after.


class CaptureLine(msgspec.Struct, frozen=True, gc=False):
    """Resolved: a 304 names the content that it stands for."""

    batch: int  # Captures of one batch became durable together.
    run: str
    visit: str  # Equal for two captures of one visit that a crash made us do twice.
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
    links: Sequence[CapturedLink] = []  # Before they have been through the log, plain edges.


class Content(msgspec.Struct, frozen=True, gc=False):
    """What a capture's content is, whether it came now or is known from before."""

    sha256: str = ""
    size: int = 0  # 0 for a 304: nothing came.
    stored_path: str = ""


def visit_of(producer: str, task: Task, status: int, sha256: str) -> str:
    """A task that is done again because its receipt was lost has the same key and due time."""
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
    """JSON, ending in a newline. What may be left out is, when it says nothing."""
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
    """Of a link, where it leads."""

    to: str


class Glance(msgspec.Struct, gc=False):
    """Of a line, what a report counts: the words around its links are not made into objects."""

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
        # A lone surrogate, which is no JSON to this decoder; or no line at all.
        return unpack(raw, place)
