"""Visits that streams ask for take turns at their server when they are due."""

from __future__ import annotations

import asyncio
import dataclasses
import heapq
import math
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from tests.support.atproto.made_commits import DID, NOW
from tests.unit.test_follow_publishing import HOME, Witness, follower_over
from trawlnet.crawlers.repos.following.live_state import LiveState, Standing, next_visit
from trawlnet.crawlers.repos.following.live_store import LiveChange, LiveStore
from trawlnet.crawlers.repos.following.resyncs import Resyncs, SharedFrontier
from trawlnet.crawlers.repos.following.visit_handler import VisitHandler
from trawlnet.crawlers.repos.following.visit_limits import VisitLimits, VisitTurns
from trawlnet.crawlers.repos.following.visit_sink import VisitBegun, VisitEnded, VisitSink
from trawlnet.crawlers.repos.work import RepoVisit, read_task
from trawlnet.engine.outcome import Outcome, Reason, Receipt
from trawlnet.engine.ports import Page
from trawlnet.engine.task import Task
from trawlnet.stores.memory import MemoryStore

HOUR = 3600.0
PER_HOUR = 60.0
BURST = 6  # A tenth of an hour's.
PAUSE = 60.0


class SetClock:
    def __init__(self) -> None:
        self.at = 1_700_000_000.0

    def now(self) -> float:
        return self.at


class Turns:
    """What a live store would hold of accounts that break their chains without end."""

    def __init__(self, homes: dict[str, str], per_hour: float = PER_HOUR) -> None:
        self.clock = SetClock()
        parts: Any = (None, None, None, None, VisitLimits(per_hour), self.clock)
        self.resyncs = Resyncs(*parts)
        self.states = {
            did: LiveState(pds=pds, standing=Standing.DESYNCHRONIZED) for did, pds in homes.items()
        }
        self.due = [(self.clock.at, did) for did in sorted(homes)]
        heapq.heapify(self.due)
        self.visits: list[tuple[float, str]] = []

    def run(self, seconds: float) -> None:
        end = self.clock.at + seconds
        while self.due and self.due[0][0] <= end:
            at, did = heapq.heappop(self.due)
            self.clock.at = max(self.clock.at, at)
            change = LiveChange()
            for one in self.resyncs._with_a_slot({did: self.states[did]}, change):
                self.visits.append((self.clock.at, one))
                self.states[one], again = next_visit(self.states[one], self.clock.at, PAUSE)
                heapq.heappush(self.due, (again, one))
            self.states |= change.states
            for visit in change.due:
                heapq.heappush(self.due, (visit.at, visit.did))
        self.clock.at = end

    def ask_for(self, did: str, pds: str) -> None:
        self.states[did] = LiveState(pds=pds, standing=Standing.DESYNCHRONIZED)
        heapq.heappush(self.due, (self.clock.at, did))

    def archive(self, did: str) -> None:
        """Somebody else visits it."""
        self.states[did] = structs.replace(self.states[did], standing=Standing.SYNCHRONIZED)

    def of(self, did: str) -> list[float]:
        return [at for at, who in self.visits if who == did]


def test_a_server_that_breaks_all_its_chains_has_no_more_visits_than_its_hours_allow() -> None:
    turns = Turns({f"did:{n}": "https://bad.example" for n in range(300)})
    begun = turns.clock.at
    turns.run(4 * HOUR)
    for hour in range(4):
        inside = [at for at, _ in turns.visits if 0 <= at - begun - hour * HOUR < HOUR]
        assert len(inside) <= PER_HOUR + BURST
    assert len({did for _, did in turns.visits}) >= 3.9 * PER_HOUR, "nor fewer"


def test_a_visit_that_is_put_off_for_hours_keeps_no_other_waiting() -> None:
    turns = Turns({"did:restless": "https://one.example"})
    turns.run(6 * HOUR)  # Its pauses have doubled to hours by now.
    assert max(turns.due)[0] > turns.clock.at + HOUR
    asked_at = turns.clock.at
    turns.ask_for("did:other", "https://one.example")
    turns.run(1.0)
    assert turns.of("did:other")[0] == asked_at


def test_turns_that_nobody_needs_any_more_are_given_back() -> None:
    """The stream names accounts of a server, and then the crawl itself archives them."""
    pds = "https://large.example"
    turns = Turns({f"did:{n:05}": pds for n in range(20_000)}, per_hour=1000.0)
    turns.run(600.0)
    for did, state in turns.states.items():
        turns.archive(did)
        if state.has_slot:  # As a sink does it.
            turns.resyncs.limits.give_back(pds, state.asked_at)
            turns.states[did] = structs.replace(turns.states[did], has_slot=False)
    for number in range(30):
        asked_at, did = turns.clock.at, f"did:new{number}"
        turns.ask_for(did, pds)
        turns.run(60.0)
        assert turns.of(did)[0] - asked_at < 10.0


def test_turns_that_are_given_back_are_as_many_as_were_taken() -> None:
    pds = "https://bad.example"
    turns = Turns({f"did:{n}": pds for n in range(300)})
    begun = turns.clock.at
    for part in range(16):
        turns.run(HOUR / 4)
        for did in list(turns.states)[part::9]:
            turns.archive(did)
        for n in range(40):
            turns.ask_for(f"did:{part}-{n}", pds)
    times = sorted(at - begun for at, _ in turns.visits)
    for first, begin in enumerate(times):
        for count, end in enumerate(times[first:], 1):
            assert count <= BURST + 1 + (end - begin) * PER_HOUR / HOUR
    assert len(times) >= 3.9 * PER_HOUR, "nor fewer"


def test_who_has_no_server_yet_takes_no_turn() -> None:
    """A lookup asks a directory, at the pace of that."""
    turns = Turns({f"did:{n}": "" for n in range(1000)})
    turns.run(1.0)
    assert len({did for _, did in turns.visits}) == 1000


def test_a_slot_has_come_when_the_store_says_that_its_visit_is_due() -> None:
    """It stores microseconds: an instant before its slot the visit was due, again and again."""
    turns = Turns({"did:one": "https://one.example"})
    turns.clock.at = 1_700_000_182.37458
    slot = math.nextafter(turns.clock.at, math.inf)
    state = structs.replace(turns.states["did:one"], asked_at=slot, has_slot=True)
    assert turns.resyncs._with_a_slot({"did:one": state}, LiveChange()) == ["did:one"]


def test_a_visit_that_is_let_go_of_before_its_turn_is_not_on_its_way() -> None:
    """Else nobody would ask for the next one: its turn never comes."""
    pds = "https://one.example"
    turns = Turns({"did:one": pds})
    given_back = structs.replace(turns.states["did:one"], asked_at=turns.clock.at + 90.0)
    for state in (given_back, structs.replace(given_back, has_slot=True)):
        turns.states["did:one"] = structs.replace(state, standing=Standing.SYNCHRONIZED)
        turns.due = [(turns.clock.at + 40.0, "did:one")]  # A look at whether it is needed still.
        turns.run(50.0)
        assert turns.states["did:one"].asked_at <= turns.clock.at
        assert not turns.visits


def test_a_visit_of_the_crawl_gives_back_the_turn_of_the_streams(tmp_path: Path) -> None:
    live, limits = LiveStore.open(tmp_path), VisitLimits(PER_HOUR)
    taken = [limits.next_slot(HOME, NOW) for _ in range(20)]
    state = LiveState("rev", b"root", "key", HOME, Standing.DESYNCHRONIZED, "rev", taken[10], 1)
    live.apply(LiveChange({DID: structs.replace(state, has_slot=True)}))
    sink = VisitSink(follower_over(live, Witness()), limits)
    items = [VisitBegun(DID, NOW), VisitEnded(DID, Reason.NOT_MODIFIED)]
    asyncio.run(sink.write([(Task(DID, "pds.example"), items)]))
    after = live.states([DID])[DID]
    live.close()
    assert after.is_synchronized and not after.has_slot
    assert limits.next_slot(HOME, NOW) == taken[10]
    assert limits.next_slot(HOME, NOW) > taken[-1], "once"


@pytest.mark.parametrize("reason", [Reason.NOT_FOUND, Reason.DEACTIVATED])
def test_an_account_that_the_crawl_does_not_find_is_left_to_its_lookups(
    tmp_path: Path, reason: Reason
) -> None:
    """Else something would be remembered of every account that is invented."""
    live = LiveStore.open(tmp_path)
    live.apply(LiveChange({DID: LiveState(standing=Standing.DESYNCHRONIZED, missed_at=NOW - 9)}))
    items = [VisitBegun(DID, NOW), VisitEnded(DID, reason)]
    sink = VisitSink(follower_over(live, Witness()))
    asyncio.run(sink.write([(Task(DID, "pds.example"), items)]))
    assert live.states([DID])[DID].is_hearsay is (reason is Reason.NOT_FOUND)
    live.close()


def test_other_servers_do_not_wait_for_one() -> None:
    bad = {f"did:bad{n}": "https://bad.example" for n in range(100)}
    turns = Turns(bad | {"did:good": "https://good.example"})
    begun = turns.clock.at
    turns.run(HOUR)
    assert turns.of("did:good")[0] == begun


def test_a_visit_that_is_under_way_is_not_made_twice() -> None:
    """Another one, which had failed, is put back with it."""

    async def main() -> None:
        store: MemoryStore[Any] = MemoryStore()
        under_way, failed = Task("did:a", "one.example"), Task("did:b", "one.example")
        resyncs = Turns({}).resyncs
        resyncs.frontier = SharedFrontier(store)
        await store.feed(Page([under_way, failed], ""))
        await store.lease({"one.example": 2}, NOW, 60.0)
        await store.settle([Receipt(failed, Reason.DEACTIVATED, at=NOW)])
        news = [under_way.carrying({"rev": "new"}), failed.carrying({"rev": "new"})]
        await resyncs._put(news)
        leased = (await store.lease({"one.example": 2}, NOW, 60.0)).tasks
        assert [(task.key, task.payload) for task in leased] == [("did:b", {"rev": "new"})]

    asyncio.run(main())


@pytest.mark.parametrize(("looked_up", "is_believed"), [(NOW - 5, False), (NOW + 5, True)])
def test_a_home_that_was_looked_up_before_the_stream_named_the_account_is_in_doubt(
    tmp_path: Path, looked_up: float, is_believed: bool
) -> None:
    live = LiveStore.open(tmp_path)
    live.apply(LiveChange({DID: LiveState(standing=Standing.DESYNCHRONIZED, missed_at=NOW)}))
    asked: list[Task] = []

    async def answer(task: Task) -> Outcome[Any]:
        asked.append(task)
        return Outcome(Reason.TIMEOUT)

    visit = RepoVisit(DID, HOME, "did:key:z", resolved_at=int(looked_up))
    turns = VisitTurns(live, VisitLimits(PER_HOUR), SetClock())  # type: ignore[arg-type]
    asyncio.run(VisitHandler(answer, turns)(visit.task()))
    live.close()
    expected = visit if is_believed else dataclasses.replace(visit, resolved_at=0)
    assert [read_task(task) for task in asked] == [expected]
