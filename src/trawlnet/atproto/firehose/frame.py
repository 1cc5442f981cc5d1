"""One frame of `subscribeRepos`, in either framing: its kind, and what it says by itself."""

from __future__ import annotations

from dataclasses import dataclass

from trawlnet.atproto.cbor_items import BYTES, read_span, skip
from trawlnet.atproto.firehose.commit_fields_plain import check_seq, read_commit_fields
from trawlnet.atproto.firehose.items_plain import (
    NULL,
    read_bool,
    read_fields,
    read_integer,
    read_text,
)
from trawlnet.atproto.firehose.json_frame import read_json_frame
from trawlnet.atproto.firehose.limits import MAX_FRAME
from trawlnet.atproto.firehose.refusal import REFUSALS, FrameRefused, Refusal
from trawlnet.atproto.syntax import is_did
from trawlnet.malformed import Malformed
from trawlnet.native.loader import native

_MESSAGE, _ERROR = 1, -1  # Values of `op`.


@dataclass(frozen=True, slots=True)
class CommitFrame:
    seq: int
    did: str  # As the frame says; `check_commit` sees to the rest.
    time: str
    rev: str
    since: str | None
    payload: bytes


@dataclass(frozen=True, slots=True)
class SyncFrame:
    seq: int
    did: str
    time: str
    rev: str
    blocks: bytes


@dataclass(frozen=True, slots=True)
class IdentityFrame:
    seq: int
    did: str
    time: str
    handle: str | None


@dataclass(frozen=True, slots=True)
class AccountFrame:
    seq: int
    did: str
    time: str
    active: bool
    status: str | None  # An open set of words: what counts is `active`.


@dataclass(frozen=True, slots=True)
class InfoFrame:
    name: str
    message: str | None


@dataclass(frozen=True, slots=True)
class StreamError:
    """The server's last words on this connection."""

    error: str
    message: str | None


@dataclass(frozen=True, slots=True)
class UnknownFrame:
    """Of a later protocol than ours: passed over."""

    kind: str
    seq: int | None


Frame = (
    CommitFrame | SyncFrame | IdentityFrame | AccountFrame | InfoFrame | StreamError | UnknownFrame
)


def read_frame(message: bytes | str) -> Frame | Refusal:
    """A binary message of the WebSocket, or a text message."""
    try:
        if isinstance(message, str):
            return _read_text_frame(message)
        if native is None:
            return read_binary_frame(message)
        found = native.read_frame(message)
        if isinstance(found, int):
            return REFUSALS[found - 1]
        if len(found) == 6:
            return CommitFrame(*found)
        op, kind, start = found
        return _read_kind(op, kind, message[start:])
    except FrameRefused as refused:
        return refused.why


def read_binary_frame(message: bytes) -> Frame:
    """Two CBOR objects, a header and a payload. Raises FrameRefused."""
    if len(message) > MAX_FRAME:
        raise FrameRefused(Refusal.FRAME_TOO_LARGE)
    try:
        start = skip(message, 0)
        end = skip(message, start)
    except Malformed:
        raise FrameRefused(Refusal.NOT_CBOR) from None
    if end != len(message):
        raise FrameRefused(Refusal.TRAILING_BYTES)
    try:
        header = read_fields(message, 0, (b"op", b"t"))
        op = read_integer(message, header[b"op"])
        kind = read_text(message, header[b"t"]) if op == _MESSAGE else ""
    except (Malformed, KeyError):
        raise FrameRefused(Refusal.BAD_HEADER) from None
    return _read_kind(op, kind, message[start:])


def _read_text_frame(message: str) -> Frame:
    found = read_json_frame(message)
    op = _ERROR if found.kind == "error" else _MESSAGE if found.kind == "message" else 0
    return _read_kind(op, found.fragment if op else found.kind, found.payload)


def _read_kind(op: int, kind: str, payload: bytes) -> Frame:
    if op == _MESSAGE and kind == "#commit":
        fields = read_commit_fields(payload)
        return CommitFrame(fields.seq, fields.did, fields.time, fields.rev, fields.since, payload)
    try:
        values = _Values(payload)
        match (op, kind):
            case (1, "#sync"):
                seq, did, time = values.moment()
                return SyncFrame(seq, did, time, values.text(b"rev"), values.bytes(b"blocks"))
            case (1, "#identity"):
                return IdentityFrame(*values.moment(), values.optional(b"handle"))
            case (1, "#account"):
                active, status = values.flag(b"active"), values.optional(b"status")
                return AccountFrame(*values.moment(), active, status)
            case (1, "#info"):
                return InfoFrame(values.text(b"name"), values.optional(b"message"))
            case (-1, _):
                return StreamError(values.text(b"error"), values.optional(b"message"))
            case _:
                return UnknownFrame(kind, values.seq())
    except (Malformed, KeyError):
        if op not in (_MESSAGE, _ERROR) or kind not in _KINDS:
            return UnknownFrame(kind, None)
        raise FrameRefused(Refusal.BAD_FIELDS) from None


_KINDS = ("", "#sync", "#identity", "#account", "#info")
_KNOWN = frozenset(b"seq did time rev blocks handle active status name message error".split())


class _Values:
    def __init__(self, payload: bytes) -> None:
        self._payload = payload
        self._found = read_fields(payload, 0, _KNOWN)

    def moment(self) -> tuple[int, str, str]:
        """What every event of an account has."""
        seq = read_integer(self._payload, self._found[b"seq"])
        did, time = self.text(b"did"), self.text(b"time")
        check_seq(seq)
        if not is_did(did):
            raise FrameRefused(Refusal.BAD_DID)
        return seq, did, time

    def seq(self) -> int | None:
        if b"seq" not in self._found:
            return None
        seq = read_integer(self._payload, self._found[b"seq"])
        check_seq(seq)
        return seq

    def text(self, name: bytes) -> str:
        return read_text(self._payload, self._found[name])

    def optional(self, name: bytes) -> str | None:
        at = self._found.get(name)
        return None if at is None or self._payload[at] == NULL else read_text(self._payload, at)

    def flag(self, name: bytes) -> bool:
        return read_bool(self._payload, self._found[name])

    def bytes(self, name: bytes) -> bytes:
        return read_span(self._payload, self._found[name], BYTES)[0]
