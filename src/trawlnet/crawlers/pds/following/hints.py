"""What messages of a firehose say about wanted collections: which accounts to look at. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from trawlnet.atproto.firehose.checking import check_commit
from trawlnet.atproto.firehose.frame import CommitFrame, IdentityFrame, UnknownFrame
from trawlnet.atproto.firehose.refusal import Refusal
from trawlnet.crawlers.atproto.streams.messages import (
    StreamNotice,
    StreamPosition,
    position_after,
    read_messages,
)
from trawlnet.crawlers.atproto.streams.upstream import Upstream


@dataclass(frozen=True, slots=True)
class HintBatch:
    """The accounts that messages name, and why. None of it is believed: it says where to look."""

    upstream: Upstream
    position: StreamPosition
    notice: StreamNotice = field(default_factory=StreamNotice)
    changed: frozenset[str] = frozenset()  # Wanted records did.
    touched: frozenset[str] = frozenset()  # Something else did, or we cannot tell what.
    moved: frozenset[str] = frozenset()  # Their documents may have changed.
    commits: int = 0
    refused: Counter[str] = field(default_factory=Counter)

    @property
    def seq(self) -> int:
        return self.position.seq

    @property
    def time(self) -> str:
        return self.position.time


def hints_in(
    upstream: Upstream,
    messages: Sequence[bytes | str],
    now: float,
    is_wanted: Callable[[str], bool],
    seen: int,
) -> HintBatch:
    """For a thread. `seen` is the highest seq so far."""
    frames, notice = read_messages(messages)
    changed, touched, moved = set[str](), set[str](), set[str]()
    refused, commits = Counter[str](), 0
    for frame in frames:
        if isinstance(frame, Refusal):
            refused[str(frame)] += 1
        elif isinstance(frame, CommitFrame):
            commits += 1
            found = check_commit(frame, now)
            if isinstance(found, Refusal):
                # Its server may be an old one, and the account may have changed all the same.
                refused[str(found)] += 1
                touched.add(frame.did)
            elif any(is_wanted(op.collection) for op in found.ops):
                changed.add(frame.did)
        elif not isinstance(frame, UnknownFrame):
            touched.add(frame.did)
            if isinstance(frame, IdentityFrame):
                moved.add(frame.did)
    return HintBatch(
        upstream,
        position_after(frames, seen),
        notice,
        frozenset(changed),
        frozenset(touched),
        frozenset(moved),
        commits,
        refused,
    )
