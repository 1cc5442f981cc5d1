"""What happened to a repository or an account, and its line of JSON."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from typing import Literal

import msgspec

from trawlnet.crawlers.atproto.streams.host_cursor import seconds_of
from trawlnet.malformed import Malformed

Operation = Literal["create", "update", "delete"]

_ID_DIGITS = 32  # 128 bits: no two events of one network share them.


@dataclass(frozen=True, slots=True)
class RecordEvent:
    """A record came, changed or went."""

    did: str
    rev: str
    operation: Operation
    collection: str
    rkey: str
    cid: str | None  # None for a delete, as is the record.
    record: bytes | None  # JSON text.
    # Of a record that is published again, after its account was away: no other event's.
    occasion: str = ""


@dataclass(frozen=True, slots=True)
class IdentityEvent:
    """The account's DID document or its handle may have changed."""

    did: str
    handle: str | None
    seq: int
    time: str


@dataclass(frozen=True, slots=True)
class AccountEvent:
    """The account is or is not served by its host."""

    did: str
    active: bool
    status: str | None
    seq: int
    time: str


RepoEvent = RecordEvent | IdentityEvent | AccountEvent


@dataclass(frozen=True, slots=True)
class StampedEvent:
    """An event as the log has it: `time_us` grows from each event to the next."""

    time_us: int
    event: RepoEvent


def event_id(event: RepoEvent) -> str:
    """The same for the same event, however often it is delivered."""
    match event:
        case RecordEvent(did, rev, operation, collection, rkey, cid, occasion=occasion):
            again = (occasion,) if occasion else ()
            return _digest("commit", did, rev, operation, collection, rkey, cid, *again)
        case IdentityEvent(did, time=time) if seconds_of(time) is not None:
            # Each relay has numbers of its own, and some leave the handle out.
            return _digest("identity", did, time)
        case IdentityEvent(did, handle, seq, time):
            return _digest("identity", did, handle, seq, time)
        case AccountEvent(did, active, status, seq, time):
            return _digest("account", did, active, status, seq, time)


def encode_event(time_us: int, event: RepoEvent) -> bytes:
    """One line, without its newline."""
    return _ENCODER.encode(_line(time_us, event))


def decode_event(line: bytes) -> StampedEvent:
    """Raises Malformed."""
    try:
        return _stamped(_LINES.decode(line))
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise Malformed(f"not an event: {error}") from error


def time_of(line: bytes) -> int:
    """The `time_us` of a line, without reading the rest of it. Raises Malformed."""
    try:
        return _TIMES.decode(line).time_us
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise Malformed(f"not an event: {error}") from error


def _digest(*parts: object) -> str:
    # As JSON, so that no two lists of parts are written alike.
    return sha256(_ENCODER.encode(parts)).hexdigest()[:_ID_DIGITS]


class _CommitLine(msgspec.Struct, tag="commit", tag_field="kind"):
    id: str
    did: str
    rev: str
    time_us: int
    operation: Operation
    collection: str
    rkey: str
    cid: str | None = None
    record: msgspec.Raw = msgspec.Raw(b"null")


class _IdentityLine(msgspec.Struct, tag="identity", tag_field="kind"):
    id: str
    did: str
    time_us: int
    handle: str | None
    seq: int
    time: str


class _AccountLine(msgspec.Struct, tag="account", tag_field="kind"):
    id: str
    did: str
    time_us: int
    active: bool
    status: str | None
    seq: int
    time: str


class _TimeLine(msgspec.Struct):
    time_us: int


_ENCODER = msgspec.json.Encoder()
_LINES = msgspec.json.Decoder(_CommitLine | _IdentityLine | _AccountLine)
_TIMES = msgspec.json.Decoder(_TimeLine)


def _line(time_us: int, event: RepoEvent) -> _CommitLine | _IdentityLine | _AccountLine:
    name = event_id(event)
    match event:
        case RecordEvent(did, rev, operation, collection, rkey, cid, record):
            text = _one_line(record) if record is not None else b"null"
            place = (operation, collection, rkey)
            return _CommitLine(name, did, rev, time_us, *place, cid, msgspec.Raw(text))
        case IdentityEvent(did, handle, seq, time):
            return _IdentityLine(name, did, time_us, handle, seq, time)
        case AccountEvent(did, active, status, seq, time):
            return _AccountLine(name, did, time_us, active, status, seq, time)


def _one_line(record: bytes) -> bytes:
    """Inside of JSON a bare newline is a space between two tokens, and no more."""
    return record.replace(b"\n", b" ") if b"\n" in record else record


def _stamped(line: _CommitLine | _IdentityLine | _AccountLine) -> StampedEvent:
    match line:
        case _CommitLine():
            record = bytes(line.record)
            place = (line.operation, line.collection, line.rkey)
            text = None if record == b"null" else record
            return StampedEvent(
                line.time_us, RecordEvent(line.did, line.rev, *place, line.cid, text)
            )
        case _IdentityLine():
            identity = IdentityEvent(line.did, line.handle, line.seq, line.time)
            return StampedEvent(line.time_us, identity)
        case _AccountLine():
            account = AccountEvent(line.did, line.active, line.status, line.seq, line.time)
            return StampedEvent(line.time_us, account)
