"""The archive as events: every record of every repository, as if it had just been created."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from trawlnet.archive.changes.walking import walk_repos
from trawlnet.atproto.cid import Cid
from trawlnet.crawlers.repos.events.event import RecordEvent, StampedEvent
from trawlnet.crawlers.repos.serving.filters import EventFilter
from trawlnet.crawlers.repos.serving.replay_cursor import ReplayCursor, encode_cursor, place_of
from trawlnet.crawlers.repos.serving.wire import WireMessage, wire_message

_MESSAGES = 500  # In one piece,
_BYTES = 256 << 10  # or about so many bytes.


def past_messages(
    archive: Path, begin: ReplayCursor, wanted: Callable[[], EventFilter]
) -> Iterator[WireMessage]:
    """Blocking. From the place of `begin`; what is wanted may change meanwhile."""

    def wants(did: str) -> bool:
        return place_of(did) >= begin.place and wanted().wants_did(did)

    for repo in walk_repos(archive, wants, lambda name: wanted().wants_collection(name)):
        time_us = encode_cursor(begin.begun_us, repo.did)
        for one in repo.records:
            cid = None if one.cid is None else str(Cid(one.cid))
            event = RecordEvent(
                repo.did, repo.rev, "create", one.collection, one.rkey, cid, one.json
            )
            yield wire_message(StampedEvent(time_us, event))


def next_piece(messages: Iterator[WireMessage]) -> list[WireMessage]:
    """Blocking; empty at the end."""
    piece: list[WireMessage] = []
    size = 0
    for message in messages:
        piece.append(message)
        size += message.size
        if size >= _BYTES or len(piece) >= _MESSAGES:
            break
    return piece
