"""The order in which a batch becomes durable, and what is kept of where a stream stands."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from tests.support.atproto.made_commits import DID, KEYS, NOW, made_repo, rev_at, some_changes
from trawlnet.archive.tombstones import Tombstone
from trawlnet.atproto.dagcbor import encode
from trawlnet.atproto.firehose.frame import CommitFrame, read_frame
from trawlnet.crawlers.atproto.streams.host_cursor import HostCursor
from trawlnet.crawlers.atproto.streams.upstream import Upstream
from trawlnet.crawlers.repos.accounts.identity import RepoIdentity
from trawlnet.crawlers.repos.events import identity_times
from trawlnet.crawlers.repos.events.event import RepoEvent
from trawlnet.crawlers.repos.following.follower import Follower, FollowerParts
from trawlnet.crawlers.repos.following.held_frames import MOST_FRAMES, HeldFrame, HeldFrames
from trawlnet.crawlers.repos.following.judging import JudgeRules
from trawlnet.crawlers.repos.following.live_state import LiveState, ResyncCause, Standing
from trawlnet.crawlers.repos.following.live_store import (
    DueVisit,
    LiveChange,
    LiveStore,
    StreamGap,
    look_at_live,
)
from trawlnet.crawlers.repos.following.visit_limits import VisitLimits
from trawlnet.crawlers.repos.following.visit_sink import VisitBegun, VisitEnded, VisitSink
from trawlnet.engine.outcome import Reason
from trawlnet.engine.task import Task
from trawlnet.engine.threads import Threads
from trawlnet.sim.atproto.live.event_log import info_frame
from trawlnet.sim.repository.live import frame_of
from trawlnet.stores.errors import StoreError

RELAY = Upstream("https://relay.example", is_pds=False)
HOME = "https://pds.example"


class FullDisk(Exception):
    pass


class Witness:
    """Archive and event log in one: it writes down what it is asked for, and fails when told to."""

    def __init__(self) -> None:
        self.blocks: list[bytes] = []
        self.events: list[RepoEvent] = []
        self.order: list[str] = []
        self.fails = ""

    def _do(self, what: str) -> None:
        if self.fails == what:
            raise FullDisk(what)
        self.order.append(what)


class WitnessedArchive:
    def __init__(self, witness: Witness) -> None:
        self._witness = witness

    async def append(self, blocks: Sequence[bytes], revs: Mapping[str, str]) -> None:
        self._witness._do("archive")
        self._witness.blocks += blocks

    async def write(self, batch: Sequence[tuple[Task, Sequence[Any]]]) -> None:
        self._witness._do("archive")


class WitnessedEvents:
    last_us = 7

    def __init__(self, witness: Witness) -> None:
        self._witness = witness

    async def append(self, events: Sequence[RepoEvent]) -> None:
        if events:
            self._witness._do("events")
            self._witness.events += events


class NothingArchived:
    def rev(self, did: str) -> None:
        return None

    def glance(self, did: str) -> None:
        return None

    def live_state(self, did: str) -> None:
        return None

    def is_empty(self) -> bool:
        return True

    def dids_after(self, did: str, most: int) -> list[str]:
        return []


class StillClock:
    def now(self) -> float:
        return NOW

    async def sleep(self, seconds: float) -> None:
        raise AssertionError("nothing here waits")


@pytest.fixture
def live(tmp_path: Path) -> Iterator[LiveStore]:
    store = LiveStore.open(tmp_path)
    yield store
    store.close()


def follower_over(live: LiveStore, witness: Witness, held: HeldFrames | None = None) -> Follower:
    held = held or HeldFrames(1 << 20)
    rules = JudgeRules(lambda name: True, True, held.add, 60.0)
    pool, thread = Threads(1, "check"), Threads(1, "follow")
    parts: Any = (live, NothingArchived(), WitnessedArchive(witness), WitnessedEvents(witness))
    return Follower(FollowerParts(*parts, StillClock(), pool, thread), rules, held, None, 3)


def known_repo(live: LiveStore) -> tuple[Any, LiveState]:
    repo = made_repo(20)
    state = LiveState(repo.rev, repo.tree.root.raw, KEYS[1].did_key, HOME, archived=repo.rev)
    live.apply(LiveChange({DID: state}, cursors={RELAY.host: HostCursor(5)}))
    return repo, state


async def publish(follower: Follower, *messages: bytes) -> None:
    running = asyncio.ensure_future(follower.run(Any))
    publishing = asyncio.ensure_future(follower.publish(await follower.check(RELAY, messages, 5)))
    done, _ = await asyncio.wait((running, publishing), return_when=asyncio.FIRST_COMPLETED)
    for task in (running, publishing):
        task.cancel()
    for task in done:
        task.result()


def test_archive_events_and_state_in_this_order(live: LiveStore) -> None:
    async def main() -> None:
        repo, _ = known_repo(live)
        witness = Witness()
        event = repo.commit(some_changes(repo, Random(3), 4), rev_at(-60))
        await publish(follower_over(live, witness), event.frame(9))
        assert witness.order == ["archive", "events"]
        assert live.states([DID])[DID].rev == event.rev
        assert live.cursor(RELAY.host) == HostCursor(9, "2026-01-01T00:00:00.000Z", False, NOW)
        assert live.figures().verified == 1
        assert live.figures().events == len(event.ops)

    asyncio.run(main())


@pytest.mark.parametrize("fails", ["archive", "events"])
def test_neither_state_nor_cursor_moves_before_the_data_is_there(
    live: LiveStore, fails: str
) -> None:
    async def main() -> None:
        repo, state = known_repo(live)
        witness = Witness()
        witness.fails = fails
        event = repo.commit(some_changes(repo, Random(3), 4), rev_at(-60))
        with pytest.raises(FullDisk):
            await publish(follower_over(live, witness), event.frame(9))
        assert live.states([DID])[DID] == state
        assert live.cursor(RELAY.host) == HostCursor(5)
        assert not witness.events, "no event before the archive has what it tells of"
        # Whoever starts again gets the same frame, and says the same.
        again = Witness()
        await publish(follower_over(live, again), event.frame(9))
        assert again.order == ["archive", "events"]
        assert live.states([DID])[DID].rev == event.rev

    asyncio.run(main())


def test_a_frame_that_waits_outlives_the_process(live: LiveStore) -> None:
    async def main() -> None:
        repo, state = known_repo(live)
        missed = repo.commit(some_changes(repo, Random(3), 4), rev_at(-60))
        middle = LiveState(missed.rev, repo.tree.root.raw, state.key, HOME, archived=missed.rev)
        waits = repo.commit(some_changes(repo, Random(4), 4), rev_at(-50))
        await publish(follower_over(live, Witness()), waits.frame(9))
        assert live.states([DID])[DID].standing is Standing.DESYNCHRONIZED
        # A visit has brought what was missed, and then the process was killed.
        live.apply(LiveChange({DID: middle}))
        witness = Witness()
        follower = follower_over(live, witness)
        await follower.recover()
        assert live.states([DID])[DID].rev == waits.rev
        assert len(witness.events) == len(waits.ops)
        assert list(live.held()) == []

    asyncio.run(main())


@pytest.mark.parametrize(("begun", "missed_at"), [(NOW - 1, NOW), (NOW + 1, 0.0)])
def test_only_a_visit_that_began_later_has_seen_what_was_missed(
    live: LiveStore, begun: float, missed_at: float
) -> None:
    async def main() -> None:
        _, state = known_repo(live)
        missing = replace(state, standing=Standing.DESYNCHRONIZED, missed_at=NOW)
        live.apply(LiveChange({DID: missing}))
        sink = VisitSink(follower_over(live, Witness()))
        ended = VisitEnded(DID, Reason.NOT_MODIFIED)
        await sink.write([(Task(DID, "pds.example"), [VisitBegun(DID, begun), ended])])
        after = live.states([DID])[DID]
        assert (after.standing, after.missed_at) == (Standing.SYNCHRONIZED, missed_at)

    asyncio.run(main())


GONE = Tombstone(DID, "deactivated", int(NOW * 1e6))


@pytest.mark.parametrize("is_confirmed_by", ["a visit", "a visit of the same batch", "a frame"])
def test_a_visit_that_was_overtaken_is_made_again(live: LiveStore, is_confirmed_by: str) -> None:
    """It may have seen the account while it was away for a moment."""

    async def main() -> None:
        _, state = known_repo(live)
        missed_at = 0.0 if is_confirmed_by == "a frame" else NOW - 9
        live.apply(LiveChange({DID: replace(state, missed_at=missed_at)}))
        follower = follower_over(live, Witness())
        sink = VisitSink(follower)
        task, ended = Task(DID, "pds.example"), VisitEnded(DID, Reason.NOT_MODIFIED)
        later, earlier = VisitBegun(DID, NOW - 1), VisitBegun(DID, NOW - 2)
        if is_confirmed_by == "a frame":
            frame = frame_of(
                "#account", {"seq": 7, "did": DID, "time": "2026-01-01T00:00:00Z", "active": True}
            )
            await publish(follower, frame)
            await sink.write([(task, [earlier, GONE])])
        elif is_confirmed_by == "a visit":
            await sink.write([(task, [later, ended])])
            await sink.write([(task, [earlier, GONE])])
        else:
            await sink.write([(task, [later, ended]), (task, [earlier, GONE])])
        after = live.states([DID])[DID]
        assert after.standing is Standing.INACTIVE and after.needs_visit
        assert live.next_due() is not None
        await sink.write([(task, [VisitBegun(DID, NOW + 1), VisitEnded(DID, Reason.DEACTIVATED)])])
        assert not live.states([DID])[DID].needs_visit, "not for ever"

    asyncio.run(main())


@pytest.mark.parametrize(("home", "is_due"), [(HOME, False), ("https://other.example", True)])
def test_an_account_that_is_away_is_asked_for_where_it_lives_now(
    live: LiveStore, home: str, is_due: bool
) -> None:
    """The server that said so may have been the one that it left."""

    async def main() -> None:
        _, state = known_repo(live)
        live.apply(LiveChange({DID: replace(state, standing=Standing.INACTIVE, rev="", data=b"")}))
        await follower_over(live, Witness()).learn(RepoIdentity(DID, home, state.key))
        after = live.states([DID])[DID]
        assert after.pds == home and after.needs_visit is is_due
        assert (live.next_due() is not None) is is_due

    asyncio.run(main())


def commit_frames(count: int) -> list[CommitFrame]:
    repo = made_repo(5)
    found = []
    for number in range(count):
        event = repo.commit(some_changes(repo, Random(number), 2), rev_at(number - 3000))
        frame = read_frame(event.frame(number + 1))
        assert isinstance(frame, CommitFrame)
        found.append(frame)
    return found


def test_what_waits_is_bounded_by_bytes_and_by_account() -> None:
    frame = commit_frames(1)[0]
    one = HeldFrame(RELAY, frame)
    size = len(frame.payload) + 1000
    held = HeldFrames(3 * size)
    assert [held.add(one) for _ in range(5)] == [True, True, True, False, False]
    assert held.take(DID) == [one] * 3
    assert held.bytes == len(held) == 0
    roomy = HeldFrames(1 << 30)
    assert sum(roomy.add(one) for _ in range(MOST_FRAMES + 10)) <= MOST_FRAMES


def test_the_live_store_gives_back_what_it_was_given(live: LiveStore) -> None:
    frames = [HeldFrame(RELAY, frame) for frame in commit_frames(3)]
    state = LiveState("rev", b"root", "key", HOME, Standing.DESYNCHRONIZED, "rev", NOW, 2)
    change = LiveChange(
        {DID: state},
        [DueVisit(DID, NOW + 5), DueVisit(DID, NOW + 1)],
        cursors={RELAY.host: HostCursor(7)},
        gaps={RELAY.host: StreamGap(RELAY.url, False, NOW)},
        held=frames,
        commits=3,
    )
    figures = live.apply(change)
    assert (figures.commits, figures.desynchronized) == (3, 1)
    assert live.states([DID, "did:plc:nobody"]) == {DID: state}
    assert live.due(NOW + 2, 10) == [DueVisit(DID, NOW + 1)]
    assert live.next_due() == NOW + 1
    assert list(live.held()) == frames
    live.apply(LiveChange({DID: LiveState()}, fed=change.due, released=[DID], held=frames[:1]))
    assert live.next_due() is None
    assert list(live.held()) == frames[:1]
    assert live.figures().desynchronized == 0
    assert live.gaps() == [StreamGap(RELAY.url, False, NOW)]
    live.apply(LiveChange(closed=live.gaps(), listed=["list:hosts"]))
    assert live.gaps() == []


def test_a_gap_is_open_until_every_page_is_compared(live: LiveStore) -> None:
    gap = StreamGap(RELAY.url, False, NOW)
    assert live.apply(LiveChange(gaps={RELAY.host: gap})).gaps == 1
    assert live.apply(LiveChange(gaps={RELAY.host: gap})).gaps == 1, "it is the same one"
    long = "x" * 1000
    hosts = LiveChange(closed=[gap], listed=["hosts"])
    assert [live.apply(hosts).comparing for _ in range(2)] == [1, 1]
    pages = LiveChange(listed=["one", long], compared=["hosts"])
    assert [live.apply(pages).comparing for _ in range(2)] == [2, 2]
    assert live.apply(LiveChange(compared=["one"])).comparing == 1
    assert live.apply(LiveChange(listed=["one"])).comparing == 1, "it was compared"
    assert live.apply(LiveChange(compared=[long])).comparing == 0
    assert live.apply(LiveChange(listed=["one"])).comparing == 1, "of another gap"


def test_gaps_without_a_message_between_them_are_compared_one_by_one(live: LiveStore) -> None:
    """A listing that was read for one of them says nothing about the next: it is another task."""

    async def told(follower: Follower) -> None:
        await publish(follower, info_frame("OutdatedCursor"))

    async def main() -> None:
        known_repo(live)
        follower, since = follower_over(live, Witness()), []
        begin, rewind = partial(follower.begin, RELAY), partial(follower.rewind, RELAY)
        for miss in (begin, begin, partial(told, follower), partial(told, follower), rewind):
            await miss()
            [gap] = live.gaps()
            live.apply(LiveChange(closed=[gap]))
            since.append(int(gap.since))
        assert since == sorted(set(since)), "each begins after the one before"
        assert since[1] == int(NOW), "where the first one ended"

    asyncio.run(main())


def test_resyncs_are_counted_by_cause_and_by_end(live: LiveStore) -> None:
    behind = LiveState("b", standing=Standing.DESYNCHRONIZED)
    gone = LiveState(standing=Standing.INACTIVE)
    causes = {DID: ResyncCause.BROKEN_CHAIN}
    for _ in range(2):  # Out of step once, however often it is said.
        figures = live.apply(LiveChange({DID: behind}, causes=causes))
    assert (figures.begun, figures.desynchronized) == ({"broken_chain": 1}, 1)
    for state in (LiveState("b"), behind, LiveState("c"), behind, gone):
        figures = live.apply(LiveChange({DID: state}))
    assert figures.begun == {"broken_chain": 1, "archived": 2}
    assert figures.ended == {"unchanged": 1, "fetched": 1, "inactive": 1}
    assert figures.desynchronized == 0


def test_status_finds_where_the_stream_stands(tmp_path: Path) -> None:
    assert look_at_live(tmp_path) is None
    live = LiveStore.open(tmp_path)
    live.apply(LiveChange(cursors={RELAY.host: HostCursor(7)}, commits=3))
    live.close()
    look = look_at_live(tmp_path)
    assert look is not None
    assert (look.cursors, look.figures.commits) == ({RELAY.host: HostCursor(7)}, 3)


def test_of_two_kills_the_first_one_knew_what_was_published(live: LiveStore) -> None:
    live.begin_adopting({DID: "first"})
    live.begin_adopting({DID: "second"})
    assert live.adopting() == [(DID, "first")]
    live.apply(LiveChange(adopted=[DID]))
    assert live.adopting() == []


def test_a_damaged_live_store_is_not_begun_anew(tmp_path: Path) -> None:
    LiveStore.open(tmp_path).close()
    (tmp_path / "live" / "data.mdb").write_bytes(b"rubbish" * 1000)
    with pytest.raises(StoreError, match="is damaged"):
        LiveStore.open(tmp_path)


def renamed(did: str, seq: int) -> bytes:
    told = {"seq": seq, "did": did, "time": "2026-01-01T00:00:00Z", "handle": "a.example"}
    return encode({"op": 1, "t": "#identity"}) + encode(told)


def test_invented_accounts_fill_no_disk_and_are_told_of_once(live: LiveStore) -> None:
    """Any server can name accounts that do not exist, through a relay as well."""

    async def main() -> None:
        known_repo(live)
        witness = Witness()
        follower = follower_over(live, witness)
        dids = ["did:plc:" + letter * 24 for letter in "abc"]
        for first in (10, 20):
            frames = [renamed(did, first + number) for number, did in enumerate([DID, *dids])]
            await publish(follower, *frames)
        assert [event.did for event in witness.events] == [DID, *dids]
        assert live.identity_times([DID, *dids]).keys() == {DID}

    asyncio.run(main())


def test_of_invented_accounts_only_the_latest_are_remembered(
    live: LiveStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(identity_times, "MOST_UNKNOWN", 2)

    async def main() -> None:
        witness = Witness()
        follower = follower_over(live, witness)
        for number, letter in enumerate("abcca"):
            await publish(follower, renamed("did:plc:" + letter * 24, 10 + number))
        assert "".join(event.did[-1] for event in witness.events) == "abca"

    asyncio.run(main())


def test_a_server_has_no_more_fetched_than_so_many_an_hour() -> None:
    limits = VisitLimits(per_hour=60.0)
    slots = [limits.next_slot(HOME, NOW) for _ in range(30)]
    assert slots.count(NOW) == 6, "a tenth of an hour's at once"
    assert slots[6:] == [NOW + 60.0 * number for number in range(1, 25)]
    assert limits.next_slot("https://other.example", NOW) == NOW, "others do not wait for it"
    again = limits.next_slot(HOME.replace("pds", "PDS") + ":443/", NOW)
    assert again == NOW + 60.0 * 25, "one server, however documents spell it"
