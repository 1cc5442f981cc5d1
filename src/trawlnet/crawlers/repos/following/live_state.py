"""What is known of an account that is followed, and what one more commit means for it. Pure."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from enum import IntEnum, StrEnum
from hashlib import sha256

import msgspec

from trawlnet.atproto.firehose.checked import CheckedCommit, CheckedSync

INSTANT = 1e-6  # Seconds: due times are stored in these.
_LONGEST_PAUSE = 6 * 3600.0  # Seconds between two visits that the stream asks for.
_MOST_DOUBLINGS = 16
_MOST_LOOKUPS = 8  # Of an account that nobody knows: with doubling pauses the last is hours later.
_FORGIVEN = 4  # Times the last pause, without a further one: then the count begins anew.


_MOST_HEARD = 100_000  # Accounts: far more than are visited at a time.
_MOST_UNSHOWN = 100  # Of one account: people have none, and a state stays small.
_PATH_DIGEST = 8  # Bytes: whoever makes two alike harms nobody but himself.


class Standing(IntEnum):
    """Stored as numbers: never change one."""

    SYNCHRONIZED = 0  # What was published is what the account's server had at `rev`.
    DESYNCHRONIZED = 1  # Something was missed: a visit brings the whole repository.
    INACTIVE = 2  # Its server says so; what was published is withdrawn.


class ResyncCause(StrEnum):
    """Why an account became desynchronized."""

    NEW_ACCOUNT = "new_account"  # The stream named it for the first time.
    BROKEN_CHAIN = "broken_chain"  # A commit does not fit on the last one.
    OTHER_TREE = "other_tree"  # `#sync` names another tree.
    ACCOUNT = "account"  # Its server says that it went, or came back.
    GAP = "gap"  # After a gap its server lists something else.
    ARCHIVED = "archived"  # What the archive has of it is no ground for a chain.


class ResyncEnd(StrEnum):
    """How an account stopped being desynchronized."""

    FETCHED = "fetched"  # A visit brought something newer.
    UNCHANGED = "unchanged"  # Its server has what was published.
    INACTIVE = "inactive"
    FORGOTTEN = "forgotten"  # Again and again nobody knew where it lives.


class LiveState(msgspec.Struct, frozen=True, array_like=True):
    """Of one account. Fields are stored in this order: new ones go to the end."""

    rev: str = ""  # Of the last commit that was published; empty: nothing is.
    data: bytes = b""  # Root of the tree at `rev`; empty: not known.
    key: str = ""  # did:key that signs for it; empty: not known.
    pds: str = ""  # URL of its server; empty: not known.
    standing: Standing = Standing.SYNCHRONIZED
    archived: str = ""  # Rev of the newest block in the archive: older where nothing of it is kept.
    asked_at: float = 0.0  # The time that a visit was last asked for: one is due then.
    asks: int = 0  # How often in a row.
    # When something was last heard of it that is not published: only a visit that began later is
    # sure to have brought it. 0: nothing.
    missed_at: float = 0.0
    withdrawn_us: int = 0  # When what had been published was last withdrawn; 0: never.
    has_slot: bool = False  # The visit at `asked_at` counts among those of its server's hour.
    was_hurried: bool = False  # For a first commit that `key` signs, while a visit was far off.
    told_by: str = ""  # URL of the server that named it last, while nothing else is known of it,
    lookups: int = 0  # and how many in a row have found nothing.
    # Paths, as digests, of wanted records that have no JSON form: they were never published. None:
    # there are too many to tell.
    unshown: tuple[bytes, ...] | None = ()

    def moved(self, pds: str, key: str) -> LiveState:
        """As a directory says; what it leaves open stays."""
        key = key or self.key
        was_hurried = self.was_hurried and key == self.key
        return msgspec.structs.replace(self, pds=pds or self.pds, key=key, was_hurried=was_hurried)

    @property
    def is_synchronized(self) -> bool:
        return self.standing is Standing.SYNCHRONIZED

    @property
    def is_hearsay(self) -> bool:
        """Somebody named the account: there may be no such."""
        is_known = self.rev or self.pds or self.withdrawn_us
        return self.standing is Standing.DESYNCHRONIZED and not is_known

    @property
    def needs_visit(self) -> bool:
        return self.standing is Standing.DESYNCHRONIZED or self.missed_at > 0.0


def ended_by(before: LiveState, after: LiveState) -> ResyncEnd:
    """Of an account that was desynchronized before, and is not any more."""
    if after.standing is Standing.INACTIVE:
        return ResyncEnd.INACTIVE
    return ResyncEnd.UNCHANGED if before.rev == after.rev else ResyncEnd.FETCHED


def path_digest(path: bytes) -> bytes:
    return sha256(path).digest()[:_PATH_DIGEST]


def unshown_of(digests: Iterable[bytes]) -> tuple[bytes, ...] | None:
    """As a state has them."""
    found = tuple(sorted(set(digests)))
    return found if len(found) <= _MOST_UNSHOWN else None


class LastHeard:
    """When something was learned about each account, of the latest ones: a visit that began before
    may bring what is no longer so."""

    def __init__(self) -> None:
        self._times: OrderedDict[str, float] = OrderedDict()

    def note(self, did: str, at: float) -> None:
        self._times[did] = max(at, self._times.pop(did, 0.0))
        if len(self._times) > _MOST_HEARD:
            self._times.popitem(last=False)

    def is_after(self, did: str, at: float) -> bool:
        return self._times.get(did, 0.0) > at


class Link(IntEnum):
    """How a commit goes on from a state."""

    NEXT = 0
    REPEATED = 1  # It is part of the state already.
    BROKEN = 2  # Something between the two was missed.


def link(state: LiveState, commit: CheckedCommit) -> Link:
    """The tree without the commit's ops must be the one we hold. That tree is computed from what
    is signed, while `since` and `prevData` are the sender's words. A server that leaves out what
    taking ops back needs has a broken chain, and is read by visits."""
    if commit.rev <= state.rev:
        return Link.REPEATED
    if commit.inverts_to is not None and commit.inverts_to == state.data:
        return Link.NEXT
    return Link.BROKEN


def sync_link(state: LiveState, sync: CheckedSync) -> Link:
    if sync.rev <= state.rev:
        return Link.REPEATED
    return Link.NEXT if sync.data == state.data else Link.BROKEN


def pause_after(asks: int, first_pause: float) -> float:
    """Seconds between two visits to one account: who breaks the chain again and again does not
    have the repository fetched as often."""
    if not asks:
        return 0.0
    return min(_LONGEST_PAUSE, first_pause * 2.0 ** min(asks - 1, _MOST_DOUBLINGS))


def next_visit(
    state: LiveState, now: float, first_pause: float, delay: float = 0.0
) -> tuple[LiveState, float]:
    """The state with one more visit asked for, and when that may be."""
    pause = pause_after(state.asks, first_pause)
    is_forgiven = now - state.asked_at >= _FORGIVEN * pause
    due = max(now + delay, state.asked_at + (0.0 if is_forgiven else pause))
    asks = 1 if is_forgiven else state.asks + 1
    again = msgspec.structs.replace(state, asked_at=due, asks=asks, has_slot=False)
    return again, due


def located(state: LiveState, pds: str, key: str, now: float) -> LiveState:
    """It was hearsay, and is found: now it takes its turn at the server that it lives on."""
    moved = state.moved(pds, key)
    return msgspec.structs.replace(moved, told_by="", lookups=0, asked_at=now, asks=1)


def not_located(state: LiveState) -> LiveState | None:
    """None: nothing is to be remembered of it any more."""
    if state.lookups + 1 >= _MOST_LOOKUPS:
        return None
    return msgspec.structs.replace(state, lookups=state.lookups + 1)
