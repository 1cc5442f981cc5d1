"""A batch of messages, checked: everything about them that needs no more than the key of their
accounts. For a thread: it takes long, and the native part lets others run meanwhile."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple

from trawlnet.atproto.firehose.checked import CheckedCommit, CheckedSync
from trawlnet.atproto.firehose.checking import check_commit, check_signature, check_sync
from trawlnet.atproto.firehose.frame import (
    AccountFrame,
    CommitFrame,
    IdentityFrame,
    SyncFrame,
    UnknownFrame,
)
from trawlnet.atproto.firehose.refusal import Refusal
from trawlnet.atproto.identity.keys import PublicKey, parse_did_key
from trawlnet.crawlers.atproto.streams.messages import (
    AnyFrame,
    StreamNotice,
    position_after,
    read_messages,
)
from trawlnet.crawlers.atproto.streams.upstream import Upstream
from trawlnet.crawlers.repos.following.live_state import LiveState
from trawlnet.malformed import Malformed

_KEYS = 65_536  # Parsed ones at hand.

StatesOf = Callable[[Collection[str]], Mapping[str, LiveState]]


class CheckedFrame(NamedTuple):
    """One frame about an account, as far as it could be checked."""

    frame: AnyFrame
    found: CheckedCommit | CheckedSync | Refusal | None = None  # None: nothing to check, or old.
    key: str = ""  # That its signature fits; empty: none did, or none was known.


class FrameKind(StrEnum):
    """Of a message, for counting: a closed list, whatever a server sends."""

    COMMIT = "commit"
    SYNC = "sync"
    IDENTITY = "identity"
    ACCOUNT = "account"
    INFO = "info"
    ERROR = "error"
    UNKNOWN = "unknown"  # Of a later protocol than ours.
    INVALID = "invalid"  # It is no frame.


_NOTHING_SAID = StreamNotice()


@dataclass(frozen=True, slots=True)
class CheckedBatch:
    upstream: Upstream
    frames: Sequence[CheckedFrame]  # In the order in which they came.
    refused: Sequence[Refusal] = ()  # Of what is no frame about an account.
    seq: int = 0  # The highest one so far,
    time: str = ""  # and the time of its message.
    is_out_of_order: bool = False
    notice: StreamNotice = _NOTHING_SAID
    kinds: Counter[FrameKind] = field(default_factory=Counter)  # Of all its messages.


def check_messages(
    upstream: Upstream,
    messages: Sequence[bytes | str],
    now: float,
    states_of: StatesOf,
    wanted: Collection[str] | None,
    seen: int,
) -> CheckedBatch:
    """`wanted` are the accounts that are followed, None for all; `seen` is the highest seq so
    far."""
    frames, notice = read_messages(messages)
    named = [one for one in frames if not isinstance(one, Refusal)]
    chosen = [
        one
        for one in named
        if not isinstance(one, UnknownFrame) and (wanted is None or one.did in wanted)
    ]
    states = states_of({one.did for one in chosen})
    return CheckedBatch(
        upstream,
        check_frames(chosen, now, states),
        [one for one in frames if isinstance(one, Refusal)],
        *position_after(frames, seen),
        notice,
        _kinds(frames, notice),
    )


def check_frames(
    frames: Sequence[AnyFrame], now: float, states: Mapping[str, LiveState]
) -> list[CheckedFrame]:
    return [_check(one, now, states.get(one.did)) for one in frames]


def _kinds(
    frames: Iterable[AnyFrame | UnknownFrame | Refusal], notice: StreamNotice
) -> Counter[FrameKind]:
    kinds = Counter(_KINDS[type(one)] for one in frames)
    kinds[FrameKind.INFO] += notice.infos
    kinds[FrameKind.ERROR] += notice.error is not None
    return kinds


_KINDS: Mapping[type, FrameKind] = {
    CommitFrame: FrameKind.COMMIT,
    SyncFrame: FrameKind.SYNC,
    IdentityFrame: FrameKind.IDENTITY,
    AccountFrame: FrameKind.ACCOUNT,
    UnknownFrame: FrameKind.UNKNOWN,
    Refusal: FrameKind.INVALID,
}


def _check(frame: AnyFrame, now: float, state: LiveState | None) -> CheckedFrame:
    if not isinstance(frame, CommitFrame | SyncFrame):
        return CheckedFrame(frame)
    if state is not None and frame.rev <= state.rev:
        # Whatever it says, it is older than what we hold.
        return CheckedFrame(frame)
    found = check_commit(frame, now) if isinstance(frame, CommitFrame) else check_sync(frame, now)
    if isinstance(found, Refusal) or state is None:
        return CheckedFrame(frame, found)
    return CheckedFrame(frame, found, state.key if is_signed_by(found, state.key) else "")


def is_signed_by(found: CheckedCommit | CheckedSync, key: str) -> bool:
    public = _parsed(key) if key else None
    return public is not None and check_signature(found, public) is None


@lru_cache(maxsize=_KEYS)
def _parsed(key: str) -> PublicKey | None:
    try:
        return parse_did_key(key)
    except Malformed:
        return None
