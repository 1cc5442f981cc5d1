"""Messages of a firehose as frames, and what they say about the connection. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from trawlnet.atproto.firehose.frame import (
    AccountFrame,
    CommitFrame,
    Frame,
    IdentityFrame,
    InfoFrame,
    StreamError,
    SyncFrame,
    UnknownFrame,
    read_frame,
)
from trawlnet.atproto.firehose.refusal import Refusal

OUTDATED = "OutdatedCursor"

AnyFrame = CommitFrame | SyncFrame | IdentityFrame | AccountFrame


class StreamNotice(NamedTuple):
    """What a batch says about the connection."""

    error: StreamError | None = None
    refusal: Refusal | None = None  # From here on nothing can be trusted to be a frame.
    is_gap: bool = False  # Messages after the cursor are gone.
    trouble: str = ""  # How the connection broke.
    infos: int = 0  # Messages of this kind.
    is_garbled: bool = False  # It broke because of what came.

    @property
    def ends(self) -> bool:
        return self.error is not None or self.refusal is not None

    @property
    def is_unreadable(self) -> bool:
        return self.refusal is not None or self.is_garbled


class StreamPosition(NamedTuple):
    seq: int  # The highest one so far,
    time: str  # and the time of its message.
    is_out_of_order: bool


def read_messages(
    messages: Sequence[bytes | str],
) -> tuple[list[AnyFrame | UnknownFrame | Refusal], StreamNotice]:
    """Up to the first message after which nothing can be trusted to be a frame."""
    frames: list[AnyFrame | UnknownFrame | Refusal] = []
    is_gap, infos = False, 0
    for message in messages:
        frame: Frame | Refusal = read_frame(message)
        if isinstance(frame, InfoFrame):
            is_gap, infos = is_gap or frame.name == OUTDATED, infos + 1
        elif isinstance(frame, StreamError):
            return frames, StreamNotice(error=frame, is_gap=is_gap, infos=infos)
        else:
            frames.append(frame)
            if isinstance(frame, Refusal) and frame.ends_connection:
                return frames, StreamNotice(refusal=frame, is_gap=is_gap, infos=infos)
    return frames, StreamNotice(is_gap=is_gap, infos=infos)


def position_after(
    frames: Sequence[AnyFrame | UnknownFrame | Refusal], seen: int
) -> StreamPosition:
    """`seen` is the highest seq before these frames."""
    seq, time, is_out_of_order = seen, "", False
    for one in frames:
        if isinstance(one, Refusal) or one.seq is None:
            continue
        if one.seq > seq:
            seq, time = one.seq, "" if isinstance(one, UnknownFrame) else one.time
        elif one.seq < seq:  # Some tell the one at the cursor again.
            is_out_of_order = True
    return StreamPosition(seq, time, is_out_of_order)
