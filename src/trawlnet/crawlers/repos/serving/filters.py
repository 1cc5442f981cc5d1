"""What a client wants to be sent: from the query of its URL, and from its messages later."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from trawlnet.atproto.syntax import is_did, is_nsid
from trawlnet.crawlers.repos.serving.wire import WireMessage
from trawlnet.malformed import Malformed

MOST_COLLECTIONS = 100
MOST_DIDS = 10_000
_SHOWN = 80  # Characters of what a client sent that go back to it.
_PREFIX = ".*"
_UPDATE = "options_update"


@dataclass(frozen=True, slots=True)
class EventFilter:
    """Events of accounts are sent whatever the collections: without them a client that keeps one
    collection would never hear that an account is gone."""

    dids: frozenset[str] = frozenset()  # Empty: all.
    collections: frozenset[str] = frozenset()
    prefixes: tuple[str, ...] = ()  # Each ends in a dot. Both empty: all.
    largest: int = 0  # Bytes of a message; 0: any.

    def take(self, message: WireMessage) -> bool:
        return (
            self.wants_did(message.did)
            and (not message.collection or self.wants_collection(message.collection))
            and (not self.largest or message.size <= self.largest)
        )

    def wants_did(self, did: str) -> bool:
        return not self.dids or did in self.dids

    def wants_collection(self, name: str) -> bool:
        if not self.collections and not self.prefixes:
            return True
        return name in self.collections or name.startswith(self.prefixes)


@dataclass(frozen=True, slots=True)
class SubscribeRequest:
    wanted: EventFilter
    cursor: int | None  # Microseconds; None: live.
    waits_for_hello: bool
    compressed: bool


def parse_query(query: Iterable[tuple[str, str]], headers: Mapping[str, str]) -> SubscribeRequest:
    """Raises Malformed."""
    words: dict[str, list[str]] = {}
    for name, value in query:
        words.setdefault(name, []).append(value)

    def last(name: str) -> str:
        return words.get(name, [""])[-1]

    packs = last("compress") == "true" or "zstd" in headers.get("socket-encoding", "")
    return SubscribeRequest(
        _filter(
            words.get("wantedCollections", ()),
            words.get("wantedDids", ()),
            _size(last("maxMessageSizeBytes")),
        ),
        _cursor(last("cursor")),
        last("requireHello") == "true",
        packs,
    )


def parse_update(text: str | bytes) -> EventFilter | None:
    """None for a message of another type, which is to be ignored. Raises Malformed."""
    try:
        message = _MESSAGES.decode(text)
        if message.type != _UPDATE:
            return None
        wanted = _UPDATES.decode(message.payload)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise Malformed(f"not a message with type and payload: {error}") from error
    return _filter(
        wanted.wanted_collections or (),
        wanted.wanted_dids or (),
        max(0, wanted.max_message_size_bytes or 0),
    )


class _Message(msgspec.Struct):
    type: str
    payload: msgspec.Raw = msgspec.Raw(b"{}")


class _Update(msgspec.Struct, rename="camel"):
    wanted_collections: list[str] | None = None
    wanted_dids: list[str] | None = None
    max_message_size_bytes: int | None = None


_MESSAGES = msgspec.json.Decoder(_Message)
_UPDATES = msgspec.json.Decoder(_Update)


def _filter(collections: Sequence[str], dids: Sequence[str], largest: int) -> EventFilter:
    names = {one for one in collections if not one.endswith(_PREFIX)}
    prefixes = {one[:-1] for one in collections if one.endswith(_PREFIX)}
    if len(names) + len(prefixes) > MOST_COLLECTIONS:
        raise Malformed(f"more than {MOST_COLLECTIONS} wantedCollections")
    for name in names:
        if not is_nsid(name):
            raise Malformed(f"wantedCollections: {name[:_SHOWN]!r} is neither an NSID nor prefix.*")
    wanted = frozenset(dids)
    if len(wanted) > MOST_DIDS:
        raise Malformed(f"more than {MOST_DIDS} wantedDids")
    for did in wanted:
        if not is_did(did):
            raise Malformed(f"wantedDids: {did[:_SHOWN]!r} is not a DID")
    return EventFilter(wanted, frozenset(names), tuple(sorted(prefixes)), largest)


def _cursor(text: str) -> int | None:
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= 19):
        raise Malformed(f"cursor: {text[:_SHOWN]!r} is no number of microseconds")
    return int(text)


def _size(text: str) -> int:
    """What is no number means none, as Jetstream has it."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 10 else 0
