"""Visits that streams ask for take turns at their server when they are due."""

from __future__ import annotations

import heapq
import math
from typing import Any

from msgspec import structs

from trawlnet.crawlers.repos.following.live_state import LiveState, Standing, next_visit
from trawlnet.crawlers.repos.following.live_store import LiveChange
from trawlnet.crawlers.repos.following.resyncs import Resyncs
from trawlnet.crawlers.repos.following.visit_limits import VisitLimits

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

    def __init__(self, homes: dict[str, str]) -> None:
        self.clock = SetClock()
        parts: Any = (None, None, None, None, VisitLimits(PER_HOUR), self.clock)
        self.resyncs = Resyncs(*parts)
        self.states = {
            did: LiveState(pds=pds, standing=Standing.DESYNCHRONIZED) for did, pds in homes.items()
        }
        self.due = [(self.clock.at, did) for did in sorted(homes)]
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
    turns.states["did:other"] = LiveState(
        pds="https://one.example", standing=Standing.DESYNCHRONIZED
    )
    asked_at = turns.clock.at
    heapq.heappush(turns.due, (asked_at, "did:other"))
    turns.run(1.0)
    assert turns.of("did:other")[0] == asked_at


def test_a_slot_has_come_when_the_store_says_that_its_visit_is_due() -> None:
    """It stores microseconds: an instant before its slot the visit was due, again and again."""
    turns = Turns({"did:one": "https://one.example"})
    turns.clock.at = 1_700_000_182.37458
    slot = math.nextafter(turns.clock.at, math.inf)
    state = structs.replace(turns.states["did:one"], asked_at=slot, has_slot=True)
    assert turns.resyncs._with_a_slot({"did:one": state}, LiveChange()) == ["did:one"]


def test_other_servers_do_not_wait_for_one() -> None:
    bad = {f"did:bad{n}": "https://bad.example" for n in range(100)}
    turns = Turns(bad | {"did:good": "https://good.example"})
    begun = turns.clock.at
    turns.run(HOUR)
    assert turns.of("did:good")[0] == begun
