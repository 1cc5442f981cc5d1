"""An event as Jetstream's clients expect it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import msgspec

from trawlnet.crawlers.repos.events.event import (
    AccountEvent,
    IdentityEvent,
    RecordEvent,
    StampedEvent,
)
from trawlnet.net.server.packing import packed

_ENCODER = msgspec.json.Encoder()


@dataclass(slots=True)
class WireMessage:
    """Made once, and sent to whoever wants it."""

    did: str
    collection: str  # Empty for what is about the whole account.
    text: str
    size: int  # Bytes of the text.
    _frame: bytes = field(default=b"", repr=False)

    @property
    def frame(self) -> bytes:
        if not self._frame:
            self._frame = packed(self.text.encode())
        return self._frame


def wire_message(stamped: StampedEvent) -> WireMessage:
    event = stamped.event
    head: dict[str, Any] = {"did": event.did, "time_us": stamped.time_us}
    match event:
        case RecordEvent():
            return _message(event.did, event.collection, head, "commit", _commit(event))
        case IdentityEvent():
            return _message(event.did, "", head, "identity", _identity(event))
        case AccountEvent():
            return _message(event.did, "", head, "account", _account(event))


def _message(
    did: str, collection: str, head: dict[str, Any], kind: str, body: dict[str, Any]
) -> WireMessage:
    data = _ENCODER.encode({**head, "kind": kind, kind: body})
    return WireMessage(did, collection, data.decode(), len(data))


def _commit(event: RecordEvent) -> dict[str, Any]:
    body: dict[str, Any] = {
        "rev": event.rev,
        "operation": event.operation,
        "collection": event.collection,
        "rkey": event.rkey,
    }
    if event.record is not None:
        body["record"] = msgspec.Raw(event.record)
    if event.cid is not None:
        body["cid"] = event.cid
    return body


def _identity(event: IdentityEvent) -> dict[str, Any]:
    known = {} if event.handle is None else {"handle": event.handle}
    return {"did": event.did, **known, "seq": event.seq, "time": event.time}


def _account(event: AccountEvent) -> dict[str, Any]:
    known = {} if event.status is None else {"status": event.status}
    return {"active": event.active, "did": event.did, **known, "seq": event.seq, "time": event.time}
