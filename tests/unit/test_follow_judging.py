"""What a frame of each kind means for an account, whatever its state."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from tests.support.atproto.made_commits import (
    ABSENT,
    DID,
    KEYS,
    NOW,
    OTHER_DID,
    made_repo,
    message,
    rev_at,
    some_changes,
)
from trawlnet.atproto.firehose.frame import (
    AccountFrame,
    CommitFrame,
    IdentityFrame,
    SyncFrame,
    read_frame,
)
from trawlnet.crawlers.atproto.streams.upstream import Upstream
from trawlnet.crawlers.repos.events.event import IdentityEvent, RecordEvent
from trawlnet.crawlers.repos.following.frames import check_frames
from trawlnet.crawlers.repos.following.held_frames import HeldFrame
from trawlnet.crawlers.repos.following.judging import IdentityDoubt, Judge, JudgeRules
from trawlnet.crawlers.repos.following.live_state import LiveState, Standing, located
from trawlnet.sim.repository.car import write_car
from trawlnet.sim.repository.live import CommitEvent, LiveRepo

HOME, ELSEWHERE = "https://pds.example", "https://other.example"
RELAY = Upstream("https://relay.example", is_pds=False)
PDS = Upstream(HOME, is_pds=True)
STRANGER = Upstream(ELSEWHERE, is_pds=True)
PAUSE = 60.0


@dataclass
class Court:
    """A judge over one account, and a repository that goes on from what the judge knows."""

    state: LiveState | None
    repo: LiveRepo
    held: list[HeldFrame] = field(default_factory=list)
    room: int = 100
    patterns: tuple[str, ...] = ()

    def judge(self, *frames: Any, upstream: Upstream = RELAY, is_final: bool = False) -> Judge:
        def hold(one: HeldFrame) -> bool:
            if len(self.held) >= self.room:
                return False
            self.held.append(one)
            return True

        def is_wanted(collection: str) -> bool:
            return not self.patterns or collection in self.patterns

        rules = JudgeRules(is_wanted, not self.patterns, hold, PAUSE)
        states = {} if self.state is None else {DID: self.state}
        judge = Judge(rules, NOW, dict(states), is_final)
        for frame in frames:
            for one in check_frames([frame], NOW, states):
                judge.apply(upstream, one)
        return judge

    def next_commit(self, second: float = -60.0, count: int = 6) -> CommitEvent:
        return self.repo.commit(some_changes(self.repo, Random(7), count), rev_at(second))


@pytest.fixture
def court() -> Court:
    repo = made_repo(60)
    state = LiveState(
        repo.rev, repo.tree.root.raw, KEYS[1].did_key, HOME, Standing.SYNCHRONIZED, repo.rev
    )
    return Court(state, repo)


def frame_of(event: CommitEvent, **fields: Any) -> CommitFrame:
    frame = read_frame(message(event, **fields))
    assert isinstance(frame, CommitFrame)
    return frame


def sync_of(event: CommitEvent) -> SyncFrame:
    car = write_car([event.commit], event.blocks[:1])
    return SyncFrame(7, DID, "2026-01-01T00:00:00Z", event.rev, car)


def account_frame(*, active: bool) -> AccountFrame:
    status = None if active else "deactivated"
    return AccountFrame(7, DID, "2026-01-01T00:00:00Z", active, status)


def is_due_at_once(judge: Judge) -> bool:
    return [visit.at for visit in judge.change.due] == [NOW]


def test_a_commit_that_goes_on_from_the_state_is_published(court: Court) -> None:
    event = court.next_commit()
    judge = court.judge(frame_of(event))
    assert judge.change.verified == judge.change.commits == 1
    after = judge.change.states[DID]
    assert (after.rev, after.data, after.archived) == (
        event.rev,
        court.repo.tree.root.raw,
        event.rev,
    )
    assert after.is_synchronized
    assert {(one.operation, f"{one.collection}/{one.rkey}") for one in records(judge)} == {
        (str(op.action), op.path) for op in event.ops
    }
    assert judge.deltas[DID].since == court.state.rev
    assert not judge.change.due
    assert not court.held


def records(judge: Judge) -> list[RecordEvent]:
    return [one for one in judge.events if isinstance(one, RecordEvent)]


def test_two_commits_in_one_batch_are_one_delta_and_all_their_events(court: Court) -> None:
    first, second = court.next_commit(-60.0), court.next_commit(-50.0)
    judge = court.judge(frame_of(first), frame_of(second))
    assert judge.deltas[DID].rev == second.rev
    assert [one.rev for one in records(judge)] == sorted(
        [first.rev] * len(first.ops) + [second.rev] * len(second.ops)
    )


def test_a_commit_that_was_published_before_changes_nothing(court: Court) -> None:
    event = court.next_commit()
    court.state = replace(court.state, rev=event.rev, data=court.repo.tree.root.raw)
    judge = court.judge(frame_of(event))
    assert not judge.change.states
    assert not judge.events


def test_a_broken_chain_asks_for_a_visit_and_waits_for_it(court: Court) -> None:
    court.next_commit(-60.0)
    missed = court.next_commit(-50.0)
    judge = court.judge(frame_of(missed))
    assert judge.change.states[DID].standing is Standing.DESYNCHRONIZED
    assert judge.change.states[DID].rev == court.state.rev, "what was published stays"
    assert is_due_at_once(judge)
    assert judge.change.held == court.held != []
    assert not judge.events
    assert not judge.deltas


def test_what_follows_a_broken_chain_waits_without_a_second_visit(court: Court) -> None:
    court.next_commit(-60.0)
    frames = [frame_of(court.next_commit(second)) for second in (-50.0, -40.0, -30.0)]
    judge = court.judge(*frames)
    assert len(court.held) == 3
    assert len(judge.change.due) == 1


def test_the_first_commit_of_a_new_key_brings_a_visit_forward_that_was_put_off(
    court: Court,
) -> None:
    """After a migration visits find a commit of the old key, until the account writes something;
    what came then waited for hours."""
    court.state = replace(
        court.state, standing=Standing.DESYNCHRONIZED, asked_at=NOW + 6 * 3600.0, asks=9
    )
    judge = court.judge(frame_of(court.next_commit(-50.0)), frame_of(court.next_commit(-40.0)))
    assert is_due_at_once(judge), "once"
    assert judge.change.states[DID].asks == 9, "should it fail again, the next is as far off"
    assert len(court.held) == 2
    put_off = replace(judge.states[DID], asked_at=NOW + 6 * 3600.0)
    court.state = put_off
    assert not court.judge(frame_of(court.next_commit(-30.0))).change.due, "once for each key"
    court.state = replace(put_off, was_hurried=False, has_slot=True)
    judge = court.judge(frame_of(court.next_commit(-20.0)))
    assert not judge.change.due, "nor before its turn at its server"
    assert put_off.moved(ELSEWHERE, put_off.key) == replace(put_off, pds=ELSEWHERE)
    assert not put_off.moved("", KEYS[2].did_key).was_hurried


def test_a_commit_that_the_key_does_not_sign_brings_no_visit_forward(court: Court) -> None:
    court.state = replace(
        court.state,
        standing=Standing.DESYNCHRONIZED,
        asked_at=NOW + 6 * 3600.0,
        asks=9,
        key=KEYS[2].did_key,
    )
    assert not court.judge(frame_of(court.next_commit(-50.0))).change.due


def test_a_commit_without_what_taking_back_needs_is_read_by_a_visit(court: Court) -> None:
    event = court.next_commit()
    payload = event.payload(7)
    ops = [{key: value for key, value in op.items() if key != "prev"} for op in payload["ops"]]
    judge = court.judge(frame_of(event, prevData=ABSENT, ops=ops))
    assert judge.change.states[DID].standing is Standing.DESYNCHRONIZED
    assert not judge.change.rejected


def test_an_unknown_account_is_visited_and_takes_no_memory(court: Court) -> None:
    """There may be no such account; if there is, the visit brings what is missed until then."""
    court.state = None
    judge = court.judge(frame_of(court.next_commit()))
    court.state = judge.change.states[DID]
    assert court.state.is_hearsay and court.state.missed_at == NOW
    assert is_due_at_once(judge)
    court.state = replace(court.state, asked_at=NOW + PAUSE, missed_at=NOW - 5.0)
    judge = court.judge(frame_of(court.next_commit(-50.0)))
    assert judge.change.states[DID].missed_at == NOW
    assert not judge.change.due and not court.held
    court.state = located(court.state, HOME, KEYS[1].did_key, NOW)
    court.judge(frame_of(court.next_commit(-40.0)))
    assert len(court.held) == 1, "where it lives is known: what comes now may come behind the visit"


def test_an_unknown_account_takes_its_turn_among_those_of_whoever_named_it_last(
    court: Court,
) -> None:
    court.state = None
    judge = court.judge(frame_of(court.next_commit()), upstream=STRANGER)
    court.state = replace(judge.change.states[DID], asked_at=NOW + PAUSE)
    assert court.state.told_by == ELSEWHERE
    judge = court.judge(frame_of(court.next_commit(-50.0)), upstream=PDS)
    assert judge.change.states[DID].told_by == HOME
    assert is_due_at_once(judge)


def test_an_unknown_account_is_looked_up_among_others_of_its_kind(court: Court) -> None:
    """Lookups of accounts in doubt are few: thousands that were invented are not among them."""
    court.state = LiveState(standing=Standing.DESYNCHRONIZED, asks=1, asked_at=NOW)
    frames = IdentityFrame(7, DID, "2026-01-01T00:00:00Z", "a.example"), account_frame(active=False)
    assert not court.judge(*frames, upstream=STRANGER).doubts


def test_a_wrong_signature_is_doubted_first_and_rejected_after_a_lookup(court: Court) -> None:
    court.state = replace(court.state, key=KEYS[2].did_key)
    frame = frame_of(court.next_commit())
    judge = court.judge(frame)
    assert judge.doubts == {IdentityDoubt(DID, HOME)}
    assert not judge.change.rejected
    assert len(court.held) == 1
    assert not judge.events
    judge = court.judge(frame, is_final=True)
    assert judge.change.rejected == {"bad_signature": 1}
    assert len(court.held) == 1
    assert not judge.events


def test_a_bad_signature_keeps_no_other_commit_of_the_account_waiting(court: Court) -> None:
    good = frame_of(court.next_commit())
    forger = made_repo(60, key=KEYS[2])
    forged = frame_of(forger.commit(some_changes(forger, Random(9), 3), rev_at(-61)))
    judge = court.judge(forged, good)
    assert judge.change.verified == 1
    assert judge.change.states[DID].rev == good.rev


def test_a_rejected_frame_has_the_server_asked_later_and_not_each_time(court: Court) -> None:
    event = court.next_commit()
    broken = frame_of(event, prevData=event.commit)
    judge = court.judge(broken, broken, broken)
    assert judge.change.rejected == {"wrong_prev_data": 3}
    assert [visit.at for visit in judge.change.due] == [NOW + PAUSE]
    assert judge.change.states[DID].is_synchronized


def test_a_server_is_believed_about_its_own_accounts_only(court: Court) -> None:
    frame = frame_of(court.next_commit())
    assert court.judge(frame, upstream=PDS).change.verified == 1
    judge = court.judge(frame, upstream=STRANGER)
    assert not judge.events
    assert judge.doubts == {IdentityDoubt(DID, STRANGER.url)}, (
        "it is the stranger who asks for a lookup"
    )
    judge = court.judge(frame, upstream=STRANGER, is_final=True)
    assert judge.change.rejected == {"wrong_host": 1}


def test_a_sync_of_the_same_tree_goes_on_from_it(court: Court) -> None:
    event = court.repo.commit({}, rev_at(-60))
    judge = court.judge(sync_of(event))
    assert judge.change.states[DID].rev == event.rev
    assert judge.change.states[DID].is_synchronized
    assert not judge.events


def test_a_sync_of_another_tree_asks_for_a_visit(court: Court) -> None:
    judge = court.judge(sync_of(court.next_commit()))
    assert judge.change.states[DID].standing is Standing.DESYNCHRONIZED
    assert is_due_at_once(judge)


def test_an_identity_is_passed_on_and_looked_up(court: Court) -> None:
    frame = IdentityFrame(7, DID, "2026-01-01T00:00:00Z", "a.example")
    judge = court.judge(frame)
    assert judge.events == [IdentityEvent(DID, "a.example", 7, frame.time)]
    assert judge.doubts == {IdentityDoubt(DID, HOME)}
    assert court.judge(frame, upstream=STRANGER).events == []


def test_an_identity_is_passed_on_once(court: Court) -> None:
    """Two relays, or one that goes back, tell of it under different numbers."""
    first = IdentityFrame(7, DID, "2026-01-01T00:00:00Z", "a.example")
    second = IdentityFrame(9, DID, "2026-01-01T00:00:01Z", "b.example")
    again = IdentityFrame(1_000_000, DID, first.time, None)
    judge = court.judge(first, second, again, second)
    assert [event.handle for event in judge.events if isinstance(event, IdentityEvent)] == [
        "a.example",
        "b.example",
    ]
    assert judge.change.identities.keys() == {DID}, "it is remembered beyond this batch"


@pytest.mark.parametrize(
    ("standing", "active", "asks"),
    [
        (Standing.SYNCHRONIZED, True, False),
        (Standing.SYNCHRONIZED, False, True),
        (Standing.INACTIVE, True, True),
        (Standing.INACTIVE, False, False),
        (Standing.DESYNCHRONIZED, True, True),
        (Standing.DESYNCHRONIZED, False, True),
    ],
)
def test_word_about_an_account_is_confirmed_by_a_visit(
    court: Court, standing: Standing, active: bool, asks: bool
) -> None:
    court.state = replace(court.state, standing=standing)
    judge = court.judge(account_frame(active=active))
    assert bool(judge.change.due) is asks
    assert not judge.events, "it is published when the account's server has confirmed it"
    if asks:
        assert judge.change.states[DID].standing is Standing.DESYNCHRONIZED


@pytest.mark.parametrize("active", [True, False])
def test_an_unknown_account_that_left_or_came_back_is_visited(court: Court, active: bool) -> None:
    """A visit may have read it before, and come to its end after this; or have found it inactive,
    of which nothing is remembered."""
    court.state = None
    judge = court.judge(account_frame(active=active))
    assert is_due_at_once(judge)
    assert not judge.events
    state = judge.change.states[DID]
    assert state.standing is Standing.DESYNCHRONIZED and state.missed_at == NOW


@pytest.mark.parametrize(
    ("standing", "active"), [(Standing.SYNCHRONIZED, True), (Standing.INACTIVE, False)]
)
def test_a_visit_that_is_under_way_is_older_than_word_that_confirms_what_is_known(
    court: Court, standing: Standing, active: bool
) -> None:
    court.state = replace(court.state, standing=standing, missed_at=NOW - 5, asked_at=NOW + 5)
    judge = court.judge(account_frame(active=active))
    assert judge.confirmed == {DID}
    assert judge.change.states[DID].missed_at == NOW
    assert judge.change.states[DID].standing is standing, "its commits are published meanwhile"


def test_a_server_says_nothing_about_the_accounts_of_others(court: Court) -> None:
    judge = court.judge(account_frame(active=False), upstream=STRANGER)
    assert not judge.change.due
    assert judge.doubts == {IdentityDoubt(DID, STRANGER.url)}


def test_commits_of_an_inactive_account_are_rejected_and_its_server_is_asked(court: Court) -> None:
    court.state = replace(court.state, standing=Standing.INACTIVE)
    judge = court.judge(frame_of(court.next_commit()))
    assert judge.change.rejected == {"inactive": 1}
    assert len(judge.change.due) == 1


def test_a_visit_that_was_due_in_this_instant_is_not_one_to_come(court: Court) -> None:
    """Due times are stored in microseconds: it may have been let go of."""
    court.state = replace(court.state, asked_at=NOW + 4e-7, asks=1)
    judge = court.judge(account_frame(active=False))
    assert len(judge.change.due) == 1


def test_a_visit_that_is_due_already_is_not_asked_for_twice(court: Court) -> None:
    court.state = replace(court.state, asked_at=NOW + 5.0, asks=1)
    court.next_commit(-60.0)
    judge = court.judge(frame_of(court.next_commit(-50.0)))
    assert not judge.change.due
    assert judge.change.states[DID].missed_at == NOW


def test_a_chain_that_breaks_again_has_its_repository_fetched_after_a_pause(court: Court) -> None:
    court.state = replace(court.state, asked_at=NOW - 10.0, asks=3)
    court.next_commit(-60.0)
    judge = court.judge(frame_of(court.next_commit(-50.0)))
    assert [visit.at for visit in judge.change.due] == [NOW - 10.0 + 4 * PAUSE]


def test_a_frame_without_room_counts_as_missed(court: Court) -> None:
    court.room = 0
    court.next_commit(-60.0)
    judge = court.judge(frame_of(court.next_commit(-50.0)))
    assert judge.change.states[DID].missed_at == NOW
    assert not judge.change.held


def test_collections_that_nobody_wants_move_the_chain_and_nothing_else(court: Court) -> None:
    court.patterns = ("com.example.nothing",)
    event = court.next_commit()
    judge = court.judge(frame_of(event))
    after = judge.change.states[DID]
    assert (after.rev, after.archived) == (event.rev, court.state.archived)
    assert not judge.events
    assert not judge.deltas


def test_a_did_that_no_store_can_hold_is_rejected(court: Court) -> None:
    long = "did:web:" + "a" * 600
    frame = frame_of(court.next_commit(), repo=long)
    judge = court.judge(frame)
    assert sum(judge.change.rejected.values()) == 1
    assert not judge.change.states


def test_one_account_does_not_stand_for_another(court: Court) -> None:
    judge = court.judge(frame_of(court.next_commit(), repo=OTHER_DID))
    assert sum(judge.change.rejected.values()) == 1
    assert not judge.events
