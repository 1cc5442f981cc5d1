"""Frames of accounts that are being fetched again, or looked up: they wait, so much of them and no
more. The live store has a copy of each: after a kill they would not come again."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import NamedTuple

import msgspec

from trawlnet.atproto.firehose.frame import CommitFrame, SyncFrame
from trawlnet.crawlers.atproto.streams.upstream import Upstream

MOST_OF_ONE = 4 << 20  # Bytes of one account,
MOST_FRAMES = 1000  # and frames.
_EACH = 1000  # Bytes of memory that a frame takes beside its own.


class HeldFrame(NamedTuple):
    upstream: Upstream
    frame: CommitFrame | SyncFrame

    def pack(self) -> bytes:
        upstream, frame = self.upstream, self.frame
        is_commit = isinstance(frame, CommitFrame)
        return msgspec.msgpack.encode(
            (upstream.url, upstream.is_pds, is_commit, [getattr(frame, x) for x in frame.__slots__])
        )

    @staticmethod
    def unpack(packed: bytes) -> HeldFrame:
        url, is_pds, is_commit, fields = msgspec.msgpack.decode(packed)
        kind = CommitFrame if is_commit else SyncFrame
        return HeldFrame(Upstream(url, is_pds), kind(*fields))


class HeldFrames:
    """A frame for which there is no room is refused: it counts as missed."""

    def __init__(self, most_bytes: int) -> None:
        self._most = most_bytes
        self._bytes = 0
        self._held: dict[str, list[HeldFrame]] = {}
        self._sizes: dict[str, int] = {}

    def __len__(self) -> int:
        return sum(map(len, self._held.values()))

    @property
    def bytes(self) -> int:
        return self._bytes

    @property
    def dids(self) -> Collection[str]:
        return list(self._held)

    def add(self, one: HeldFrame) -> bool:
        """Whether there was room for it."""
        did, size = one.frame.did, _size(one.frame)
        mine, count = self._sizes.get(did, 0) + size, len(self._held.get(did, ()))
        if mine > MOST_OF_ONE or count >= MOST_FRAMES or self._bytes + size > self._most:
            return False
        self._held.setdefault(did, []).append(one)
        self._sizes[did] = mine
        self._bytes += size
        return True

    def take(self, did: str) -> Sequence[HeldFrame]:
        """In the order in which they came; they wait no longer."""
        self._bytes -= self._sizes.pop(did, 0)
        return self._held.pop(did, [])


def _size(frame: CommitFrame | SyncFrame) -> int:
    own = frame.payload if isinstance(frame, CommitFrame) else frame.blocks
    return _EACH + len(own)
