"""One line of the capture log: all that is known about a capture, and where its bytes are."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from operator import attrgetter
from typing import Any

import msgspec

from trawlnet.engine.task import Task
from trawlnet.sink.capture import Capture, Link
from trawlnet.sink.errors import SinkError
from trawlnet.sink.queue import decode, encode


@dataclass(frozen=True, slots=True)
class InWarc:
    """Where a capture's own record lies in the WARC files."""

    file: str
    offset: int
    length: int
    digest: str  # Of the payload; empty if it is not known.
    revisit: bool
    end: int  # Of all records of this capture: its redirects come before, its request after.


@dataclass(frozen=True, slots=True)
class CaptureLine:
    """Resolved: a 304 names the content that it stands for."""

    batch: int  # Captures of one batch became durable together.
    run: str
    visit: str  # Equal for two captures of one visit that a crash made us do twice.
    timestamp: float
    url: str
    http_status: int
    final_url: str = ""
    hops: Sequence[str] = ()
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
    metadata: Mapping[str, Any] = field(default_factory=dict)
    simhash: int | None = None
    revisit_in: float | None = None
    warc: InWarc | None = None
    links: Sequence[Link] = ()  # Before they have been through the log, plain edges.


@dataclass(frozen=True, slots=True)
class Content:
    """What a capture's content is, whether it came now or is known from before."""

    sha256: str = ""
    size: int = 0  # 0 for a 304: nothing came.
    stored_path: str = ""


_FIELDS = tuple(each.name for each in fields(CaptureLine))
# What the log takes over from a capture as it is.
_TAKEN = tuple(n for n in _FIELDS if n in Capture.__dataclass_fields__ and n != "hops")
_take = attrgetter(*_TAKEN)


def visit_of(producer: str, task: Task, status: int, sha256: str) -> str:
    """A task that is done again because its receipt was lost has the same key and due time."""
    identity = f"{producer}\0{task.key}\0{task.due!r}\0{status}\0{sha256}"
    return hashlib.blake2b(identity.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def line_of(
    capture: Capture, content: Content, batch: int, run: str, visit: str, warc: InWarc | None
) -> CaptureLine:
    return CaptureLine(
        **dict(zip(_TAKEN, _take(capture), strict=True)),
        batch=batch,
        run=run,
        visit=visit,
        hops=[hop.url for hop in capture.hops],
        content_sha256=content.sha256,
        content_bytes=content.size,
        stored_path=content.stored_path,
        warc=warc,
    )


def pack(line: CaptureLine) -> bytes:
    """JSON, ending in a newline. What may be left out is, when it says nothing."""
    value: dict[str, Any] = dict(zip(_REQUIRED, _required(line), strict=True))
    for (name, default), found in zip(_DEFAULTS.items(), _optional(line), strict=True):
        if found != default:
            value[name] = found
    if line.hops:
        value["hops"] = line.hops
    if line.links:
        value["links"] = list(map(tuple, line.links))
    if line.warc:
        value["warc"] = {name: getattr(line.warc, name) for name in InWarc.__slots__}
    return encode(value) + b"\n"


_REQUIRED = ("batch", "run", "visit", "timestamp", "url", "http_status")
_EMPTY = CaptureLine(0, "", "", 0.0, "", 0)
_DEFAULTS = {
    name: getattr(_EMPTY, name)
    for name in _FIELDS
    if name not in (*_REQUIRED, "hops", "links", "warc")
}


_required, _optional = attrgetter(*_REQUIRED), attrgetter(*_DEFAULTS)


def unpack(raw: bytes, place: str) -> CaptureLine:
    try:
        value = decode(raw)
        value["links"] = [Link(*link) for link in value.get("links", ())]
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
