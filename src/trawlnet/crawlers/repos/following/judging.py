"""What frames mean, one after the other: what is published, what has to be fetched again, what
waits. Pure: time and states are arguments, nothing is written."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from msgspec.structs import replace

from trawlnet.archive.format.record_text import record_text
from trawlnet.atproto.cid import Cid
from trawlnet.atproto.firehose.checked import CheckedCommit, CheckedOp, CheckedSync, OpAction
from trawlnet.atproto.firehose.frame import AccountFrame, CommitFrame, IdentityFrame
from trawlnet.atproto.firehose.refusal import Refusal
from trawlnet.crawlers.atproto.streams.upstream import Upstream
from trawlnet.crawlers.repos.events.event import IdentityEvent, Operation, RecordEvent, RepoEvent
from trawlnet.crawlers.repos.events.identity_times import Times, times_with
from trawlnet.crawlers.repos.following.deltas import RepoDelta
from trawlnet.crawlers.repos.following.frames import CheckedFrame, is_signed_by
from trawlnet.crawlers.repos.following.held_frames import HeldFrame
from trawlnet.crawlers.repos.following.live_state import (
    INSTANT,
    Link,
    LiveState,
    ResyncCause,
    Standing,
    link,
    next_visit,
    path_digest,
    sync_link,
    unshown_of,
)
from trawlnet.crawlers.repos.following.live_store import DueVisit, LiveChange, is_storable
from trawlnet.crawlers.repos.following.signed_commit import full_commit


class Rejection(StrEnum):
    """Why a frame that hangs together is not believed either; beside the words of Refusal."""

    WRONG_HOST = "wrong_host"  # It came from a server that the account does not live on.
    INACTIVE = "inactive"  # Its server says that the account is.
    LONG_DID = "long_did"


class IdentityDoubt(NamedTuple):
    """The identity of an account is to be looked up."""

    did: str
    # URL of the PDS that asks for it: the one that is followed, or that a relay speaks for.
    source: str


@dataclass(frozen=True, slots=True)
class JudgeRules:
    """What does not change from batch to batch."""

    is_wanted: Callable[[str], bool]  # Whether a collection is.
    keeps_all: bool  # No collection is left out: commits that change nothing count, too.
    hold: Callable[[HeldFrame], bool]  # Whether there was room for one more.
    resync_pause: float  # Seconds.


@dataclass(slots=True)
class Judge:
    """Frames go through `apply`; what came of them is in the other fields."""

    rules: JudgeRules
    now: float
    states: dict[str, LiveState]  # As they are after the frames so far.
    # Identities were looked up just now: what does not fit them now never will.
    is_final: bool = False
    bases: Mapping[str, LiveState] = field(default_factory=dict)  # States that are not stored yet.
    # Of accounts in this batch, when their identities changed.
    identities: dict[str, Times] = field(default_factory=dict)
    unknown_identities: dict[str, Times] = field(default_factory=dict)  # Of these, the new ones.
    confirmed: set[str] = field(default_factory=set)  # Accounts of which nothing new was said.
    change: LiveChange = field(default_factory=LiveChange)
    deltas: dict[str, RepoDelta] = field(default_factory=dict)
    events: list[RepoEvent] = field(default_factory=list)
    doubts: set[IdentityDoubt] = field(default_factory=set)

    def apply(self, upstream: Upstream, one: CheckedFrame) -> None:
        frame = one.frame
        if isinstance(frame, IdentityFrame):
            self._on_identity(upstream, frame)
        elif isinstance(frame, AccountFrame):
            self._on_account(upstream, frame)
        elif one.found is not None:
            self._on_change(HeldFrame(upstream, frame), one.found, one.key)

    def resync(self, did: str, state: LiveState, cause: ResyncCause) -> LiveState:
        """The account is out of step: a visit is asked for, and its frames wait for that."""
        self.change.causes.setdefault(did, cause)
        state = replace(state, standing=Standing.DESYNCHRONIZED)
        return self._ask(did, state, 0.0)

    def put(self, did: str, state: LiveState) -> None:
        self.states[did] = self.change.states[did] = state

    def check_later(self, did: str, state: LiveState) -> None:
        """The account's server is asked whether it has something newer; its frames do not wait."""
        self._ask(did, state, self.rules.resync_pause)

    def _on_change(
        self, one: HeldFrame, found: CheckedCommit | CheckedSync | Refusal, key: str
    ) -> None:
        did = one.frame.did
        state = self.states.get(did)
        self.change.commits += isinstance(one.frame, CommitFrame)
        if isinstance(found, Refusal):
            self._reject(did, state, found)
        elif not is_storable(did):
            self._reject(did, None, Rejection.LONG_DID)
        elif state is None:
            # With which key it must be signed is found out by the visit.
            nobody = LiveState(told_by=one.upstream.url)
            self._desynchronize(one, nobody, ResyncCause.NEW_ACCOUNT)
        elif found.rev > state.rev:
            self._on_newer(one, state, found, key)

    def _on_newer(
        self, one: HeldFrame, state: LiveState, found: CheckedCommit | CheckedSync, key: str
    ) -> None:
        did = one.frame.did
        is_signed = bool(key and key == state.key) or is_signed_by(found, state.key)
        is_waiting = state.standing is Standing.DESYNCHRONIZED
        if one.upstream.is_pds and state.pds and not one.upstream.is_home_of(state.pds):
            # Its document may name this server by now.
            self._doubt(one, state, Rejection.WRONG_HOST)
        elif not is_signed and not (is_waiting and not state.key):
            self._doubt(one, state, Refusal.BAD_SIGNATURE)
        elif is_waiting:
            # One that was archived before it was followed may have no visit ahead.
            if not state.asks:
                state = self.resync(did, state, ResyncCause.ARCHIVED)
            elif is_signed and not state.was_hurried and self._is_put_off(state):
                state = self._hurry(did, state)
            self._hold(one, state)
        elif state.standing is Standing.INACTIVE:
            self._reject(did, state, Rejection.INACTIVE)
        else:
            self._believe(one, state, found)

    def _believe(
        self, one: HeldFrame, state: LiveState, found: CheckedCommit | CheckedSync
    ) -> None:
        self.change.verified += isinstance(found, CheckedCommit)
        ops = found.ops if isinstance(found, CheckedCommit) else ()
        how = link(state, found) if isinstance(found, CheckedCommit) else sync_link(state, found)
        commit = full_commit(found) if how is Link.NEXT else None
        if commit is None:
            is_sync = isinstance(found, CheckedSync)
            cause = ResyncCause.OTHER_TREE if is_sync else ResyncCause.BROKEN_CHAIN
            self._desynchronize(one, state, cause)
        elif state.unshown is None and any(map(self._changes_something, ops)):
            # Whether consumers have what these ops change is for a visit to tell.
            self._desynchronize(one, state, ResyncCause.ARCHIVED)
        else:
            self._publish(state, found, ops, commit)

    def _changes_something(self, op: CheckedOp) -> bool:
        """That was there before, in a collection that is wanted."""
        return op.action is not OpAction.CREATE and self.rules.is_wanted(op.collection)

    def _publish(
        self,
        state: LiveState,
        found: CheckedCommit | CheckedSync,
        ops: tuple[CheckedOp, ...],
        commit: bytes,
    ) -> None:
        did, rev = found.did, found.rev
        wanted = [op for op in ops if self.rules.is_wanted(op.collection)]
        archived = state.archived
        if wanted or self.rules.keeps_all:
            delta = self.deltas.get(did)
            if delta is None:
                delta = self.deltas[did] = RepoDelta(archived, state.pds, state.key)
            delta.rev, delta.key, delta.pds = rev, state.key, state.pds
            delta.signature, delta.commit = found.signature, commit
            archived = rev
            unshown = set(state.unshown or ())
            for op in wanted:
                self._publish_op(did, rev, op, delta, unshown)
            if state.unshown is not None:
                state = replace(state, unshown=unshown_of(unshown))
        self.put(did, replace(state, rev=rev, data=found.data, archived=archived))

    def _publish_op(
        self, did: str, rev: str, op: CheckedOp, delta: RepoDelta, unshown: set[bytes]
    ) -> None:
        """What has no JSON form is left out by the archive as well, so that a visit does not find
        it: consumers are told of a place as if there were nothing."""
        path = f"{op.collection}/{op.rkey}"
        place = op.collection, op.rkey
        was_there = op.action is not OpAction.CREATE and not _took(unshown, path)
        if op.action is OpAction.DELETE or op.record is None or op.cid is None:
            delta.delete(path)
            text = None
        else:
            delta.put(path, op.record)
            text = record_text(op.record)
        if isinstance(text, bytes) and op.cid is not None:
            word: Operation = "update" if was_there else "create"
            self.events.append(RecordEvent(did, rev, word, *place, str(Cid(op.cid)), text))
            return
        if was_there:
            self.events.append(RecordEvent(did, rev, "delete", *place, None, None))
        if text is not None:
            unshown.add(path_digest(path.encode()))

    def _on_identity(self, upstream: Upstream, frame: IdentityFrame) -> None:
        if self._is_heard_from(upstream, frame.did) and self._is_news(frame):
            self.events.append(IdentityEvent(frame.did, frame.handle, frame.seq, frame.time))
        if (state := self.states.get(frame.did)) is not None:
            self._look_up(upstream, frame.did, state)

    def _is_news(self, frame: IdentityFrame) -> bool:
        """Or another upstream, or this one, has told it before."""
        did = frame.did
        times = times_with(self.identities.get(did, ()), frame.time, self.now)
        if times is not None and is_storable(did):
            state = self.states.get(did)
            is_known = state is not None and not state.is_hearsay
            self.identities[did] = times
            (self.change.identities if is_known else self.unknown_identities)[did] = times
        return times is not None

    def _on_account(self, upstream: Upstream, frame: AccountFrame) -> None:
        """The word of a server, and not signed: a visit finds out, and then it is published."""
        state = self.states.get(frame.did)
        if state is None:
            # A visit may have read it before it left, and not be stored yet; or have found it
            # inactive, and nothing be remembered of it.
            if is_storable(frame.did):
                nobody = LiveState(told_by=upstream.url)
                self.resync(frame.did, nobody, ResyncCause.ACCOUNT)
            return
        if not self._is_heard_from(upstream, frame.did):
            # A server that the account has left, or is coming to.
            self._look_up(upstream, frame.did, state)
        elif state.standing is not (Standing.SYNCHRONIZED if frame.active else Standing.INACTIVE):
            self.resync(frame.did, state, ResyncCause.ACCOUNT)
        else:
            # A visit that is under way may have seen the account as it was before.
            self.confirmed.add(frame.did)
            if state.needs_visit:
                self._ask(frame.did, state, 0.0)

    def _is_heard_from(self, upstream: Upstream, did: str) -> bool:
        """Whether the server may speak for the account. A relay was chosen by the user."""
        state = self.states.get(did)
        return not upstream.is_pds or (state is not None and upstream.is_home_of(state.pds))

    def _desynchronize(self, one: HeldFrame, state: LiveState, cause: ResyncCause) -> None:
        self._hold(one, self.resync(one.frame.did, state, cause))

    def _hurry(self, did: str, state: LiveState) -> LiveState:
        """An account that has moved is served with a commit of its old key until it writes
        something, and visits fail meanwhile. Once for each key, the next is due at once."""
        state = replace(state, asked_at=self.now, has_slot=False, was_hurried=True)
        self.change.due.append(DueVisit(did, self.now))
        self.put(did, state)
        return state

    def _is_put_off(self, state: LiveState) -> bool:
        """By its own pause; nothing makes its turn at its server come sooner."""
        return state.asked_at > self.now and not state.has_slot

    def _hold(self, one: HeldFrame, state: LiveState) -> None:
        """Until the visit has been, which was asked for when the account became desynchronized."""
        if state.is_hearsay:
            self._miss(one, state)
        elif self.rules.hold(one):
            self.change.held.append(one)
        else:
            self.put(one.frame.did, replace(state, missed_at=self.now))

    def _miss(self, one: HeldFrame, state: LiveState) -> None:
        """The visit begins after this, and brings it: who invents accounts fills no memory. The
        account takes its turn among those of whoever named it last: who names others' first does
        not keep them waiting."""
        did, url = one.frame.did, one.upstream.url
        if state.told_by != url:
            state = replace(state, told_by=url, asked_at=self.now)
            self.change.due.append(DueVisit(did, self.now))
        self.put(did, replace(state, missed_at=self.now))

    def _doubt(self, one: HeldFrame, state: LiveState, why: Refusal | Rejection) -> None:
        """It is not believed now; if a lookup names another key or server, it is judged again.
        Others of the account are believed meanwhile: anybody can send a bad signature."""
        if self.is_final or not self.rules.hold(one):
            self._reject(one.frame.did, state, why)
            return
        self.change.held.append(one)
        self._look_up(one.upstream, one.frame.did, state)
        # In case that the directory does not answer.
        self.check_later(one.frame.did, state)

    def _look_up(self, upstream: Upstream, did: str, state: LiveState) -> None:
        if state.is_hearsay:
            return  # This is being done, among others of its kind.
        is_own = upstream.is_pds or not state.pds
        self.doubts.add(IdentityDoubt(did, upstream.url if is_own else state.pds))

    def _reject(self, did: str, state: LiveState | None, why: Refusal | Rejection) -> None:
        """A frame that is not believed changes nothing. It may yet be a clumsy one about a real
        change: so the account's server is asked now and then whether it has something newer."""
        self.change.rejected[str(why)] += 1
        if state is not None:
            self.check_later(did, state)

    def _ask(self, did: str, state: LiveState, delay: float) -> LiveState:
        """A visit that begins from now on; one that is due already will do."""
        state = replace(state, missed_at=self.now)
        if state.asked_at < self.now + INSTANT:
            state, due = next_visit(state, self.now, self.rules.resync_pause, delay)
            self.change.due.append(DueVisit(did, due))
        self.put(did, state)
        return state


def _took(unshown: set[bytes], path: str) -> bool:
    """Whether it was among them; it is not any more."""
    if not unshown or (digest := path_digest(path.encode())) not in unshown:
        return False
    unshown.remove(digest)
    return True
