"""Who is missing in a listing after a gap: asked for, at a pace, and not thought of as gone."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from tests.unit.test_follow_publishing import Witness, follower_over
from trawlnet.crawlers.repos.accounts.visit_planner import ListedAccount
from trawlnet.crawlers.repos.following.live_state import LiveState, Standing
from trawlnet.crawlers.repos.following.live_store import LiveChange, LiveStore
from trawlnet.crawlers.repos.following.roll_call import RollCall
from trawlnet.crawlers.repos.following.visit_handler import VisitHandler
from trawlnet.crawlers.repos.following.visit_limits import VisitLimits, VisitTurns
from trawlnet.crawlers.repos.following.visit_sink import VisitSink
from trawlnet.crawlers.repos.work import Listing, ListingKind
from trawlnet.engine.outcome import Outcome, Reason
from trawlnet.engine.task import Task
from trawlnet.net.lane import lane_of

HOME, OTHER = "https://pds.example", "https://other.example"
STATE = LiveState("3lrev", b"root", "did:key:z", HOME, archived="3lrev")
EVERY_MINUTE = 60.0
GAP = 1_700_000_000  # Since when something was missed.


class SetClock:
    def __init__(self) -> None:
        self.at = 1_800_000_000.0

    def now(self) -> float:
        return self.at


class Scene:
    """A follower, and servers that list what they are told to."""

    def __init__(self, live: LiveStore, per_hour: float = 1e6) -> None:
        self.live, self.witness, self.clock = live, Witness(), SetClock()
        self.follower = follower_over(live, self.witness)
        parts: Any = self.follower.parts
        object.__setattr__(parts, "clock", self.clock)
        self.roll = RollCall(self.follower, per_hour, self.clock)

    async def listed(self, dids: list[str], outcome: Outcome, since: int = GAP) -> None:
        """A page, and how the attempt at it ended."""
        await self.follower.compare([ListedAccount(did, HOME, "3lrev") for did in dids], since)

        async def answer(task: Task) -> Outcome:
            return outcome

        turns = VisitTurns(self.live, VisitLimits(1e6), self.clock)  # type: ignore[arg-type]
        handler = VisitHandler(answer, turns)
        task = Listing(ListingKind.REPOS, HOME, since=since).task()
        items = (await handler(task)).items
        await VisitSink(self.follower).write([(task, items)])

    async def call(self) -> list[str]:
        """Who is asked for by now."""
        if whole := await self.roll._whole():
            await self.roll._walk(whole)
        await self.roll._ask()
        assert not self.witness.events, "nobody is gone before their server said so"
        return [visit.did for visit in self.live.first_due(10_000)]


@pytest.fixture
def live(tmp_path: Path) -> Iterator[LiveStore]:
    store = LiveStore.open(tmp_path)
    yield store
    store.close()


def account(number: int) -> str:
    return f"did:plc:{number:024}"


def test_only_who_is_missing_in_the_whole_listing_of_their_server_is_asked_for(
    live: LiveStore,
) -> None:
    states = {
        account(1): STATE,
        account(2): STATE,  # Missing.
        account(3): replace(STATE, pds=OTHER),
        account(4): replace(STATE, standing=Standing.INACTIVE, rev=""),
        account(5): replace(STATE, pds="no address"),
    }

    async def main() -> None:
        scene = Scene(live)
        live.apply(LiveChange(states))
        more = Listing(ListingKind.REPOS, HOME, "page 2", since=GAP).task()
        await scene.listed([], Outcome(Reason.OK, found=[more]))
        assert await scene.call() == [], "it goes on"
        await scene.listed([account(1)], Outcome(Reason.OK))
        live.apply(LiveChange(compared=[more.key]))
        scene.follower.figures = live.figures()
        assert await scene.call() == [account(2)]
        assert live.states([account(2)])[account(2)].standing is Standing.SYNCHRONIZED
        assert live.roll.whole() == {} and live.roll.named([account(1)]) == {account(1): 0}
        assert live.roll.missing(10) == [], "they are asked for once"

    asyncio.run(main())


@pytest.mark.parametrize("reason", [Reason.LOOP, Reason.NOT_FOUND, Reason.TIMEOUT])
def test_in_a_listing_without_an_end_nobody_is_missing(live: LiveStore, reason: Reason) -> None:
    async def main() -> None:
        scene = Scene(live)
        live.apply(LiveChange({account(1): STATE}))
        await scene.listed([], Outcome(reason))
        assert await scene.call() == []

    asyncio.run(main())


def test_a_listing_that_is_cut_short_asks_no_faster_than_visits(live: LiveStore) -> None:
    async def main() -> None:
        scene = Scene(live, per_hour=1200.0)
        live.apply(LiveChange({account(n): STATE for n in range(500)}))
        await scene.listed([account(0)], Outcome(Reason.OK))
        for minute in range(1, 6):
            assert len(await scene.call()) == 10 * minute, "half of them are left to the stream"
            scene.clock.at += EVERY_MINUTE
        # The next listing is whole: no more is asked.
        await scene.listed([account(n) for n in range(500)], Outcome(Reason.OK), GAP + 1)
        assert len(await scene.call()) == 50

    asyncio.run(main())


def test_a_name_from_before_the_gap_does_not_count(live: LiveStore) -> None:
    async def main() -> None:
        scene = Scene(live)
        live.apply(LiveChange({account(1): STATE, account(2): STATE}))
        await scene.listed([account(1), account(2)], Outcome(Reason.OK))
        await scene.listed([account(1)], Outcome(Reason.OK), GAP + 1)
        assert await scene.call() == [account(2)]

    asyncio.run(main())


class OneArchived:
    """Accounts that no stream has named yet."""

    def __init__(self, *dids: str) -> None:
        self.dids = dids

    def dids_after(self, did: str, most: int) -> list[str]:
        return [one for one in self.dids if one > did][:most]

    def rev(self, did: str) -> str | None:
        return STATE.rev if did in self.dids else None

    def glance(self, did: str) -> LiveState | None:
        return STATE if did in self.dids else None

    def live_state(self, did: str) -> LiveState | None:
        return self.glance(did)


def test_who_is_only_archived_is_asked_for_as_well(live: LiveStore) -> None:
    async def main() -> None:
        scene = Scene(live)
        archived: Any = OneArchived(account(1), account(2), account(3))
        object.__setattr__(scene.follower.parts, "archived", archived)
        live.apply(LiveChange({account(3): replace(STATE, standing=Standing.INACTIVE, rev="")}))
        await scene.listed([account(1)], Outcome(Reason.OK))
        assert await scene.call() == [account(2)]

    asyncio.run(main())


def test_one_walk_waits_for_other_listings_but_not_for_ever(live: LiveStore) -> None:
    async def main() -> None:
        scene = Scene(live)
        live.apply(LiveChange({account(1): STATE}, listed=["a listing of another server"]))
        await scene.listed([], Outcome(Reason.OK))
        assert await scene.call() == []
        scene.clock.at += 3600.0
        assert await scene.call() == [account(1)]

    asyncio.run(main())


def test_what_is_known_survives_a_kill(live: LiveStore, tmp_path: Path) -> None:
    live.roll.end_listing({lane_of(HOME): GAP})
    live.roll.name([account(1)], GAP)
    live.roll.miss([(lane_of(HOME), account(2)), (lane_of(OTHER), account(3))])
    live.close()
    again = LiveStore.open(tmp_path)
    try:
        assert again.roll.whole() == {lane_of(HOME): GAP}
        assert again.roll.named([account(1), account(2)]) == {account(1): GAP, account(2): 0}
        assert len(again.roll.missing(1)) == 2, "one of each server"
    finally:
        again.close()
