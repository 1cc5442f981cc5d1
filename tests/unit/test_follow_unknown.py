"""Accounts of which a stream tells no more than the DID: looked up in turns, found or forgotten."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from tests.unit.test_follow_publishing import Witness, follower_over
from trawlnet.crawlers.atproto.streams.upstream import Upstream
from trawlnet.crawlers.repos.accounts.identity import RepoIdentity, directory
from trawlnet.crawlers.repos.accounts.visit_planner import VisitPlanner
from trawlnet.crawlers.repos.following.follower import Follower
from trawlnet.crawlers.repos.following.live_state import LiveState, Standing
from trawlnet.crawlers.repos.following.live_store import DueVisit, LiveChange, LiveStore
from trawlnet.crawlers.repos.following.open_following import homes_of
from trawlnet.crawlers.repos.following.resyncs import Resyncs
from trawlnet.crawlers.repos.following.unknown_accounts import (
    Line,
    LookupLines,
    UnknownAccounts,
)
from trawlnet.crawlers.repos.following.visit_limits import VisitLimits
from trawlnet.engine.gate import Gate, LaneParked
from trawlnet.engine.outcome import Outcome, Reason
from trawlnet.engine.rules import Manners

PLC, HOME = "https://plc.example", "https://pds.example"
GOOD, BAD = Line("https://good.example", False), Line("https://bad.example", False)
UPSTREAMS = [Upstream(HOME, is_pds=True), Upstream("https://left.example", is_pds=True)]
MONTH = 30 * 86_400.0
NOT_FOUND = Outcome(Reason.NOT_FOUND)


def test_who_names_thousands_keeps_no_others_waiting() -> None:
    lines = LookupLines()
    for n in range(8000):
        lines.add(BAD, f"did:bad{n}")
        lines.add(BAD._replace(is_again=True), f"did:again{n}")
    for n in range(3):
        lines.add(GOOD, f"did:good{n}")
    first = [lines.take() for _ in range(9)]
    assert {f"did:good{n}" for n in range(3)} < set(first)
    assert sum("again" in str(did) for did in first) == 3, "nor those who come for the first time"


def test_who_comes_behind_thousands_of_the_same_line_is_soon_served_and_so_is_the_first() -> None:
    lines = LookupLines()
    for n in range(8000):
        lines.add(BAD, f"did:{n}")
    assert [lines.take() for _ in range(4)] == ["did:7999", "did:0", "did:7998", "did:1"]


def test_lines_have_room_for_so_many_and_each_has_its_share() -> None:
    lines = LookupLines(most=100)
    for n in range(1000):
        lines.add(BAD, f"did:bad{n}")
    for n in range(1000):
        lines.add(GOOD, f"did:good{n % 60}")
    taken = list(iter(lines.take, None))
    assert sum("good" in did for did in taken) == 50, "nobody waits twice"
    assert len(taken) == 150


class Directory:
    """A resolver, and what it will answer."""

    def __init__(self) -> None:
        self.homes: dict[str, str] = {}
        self.trouble: list[Outcome | LaneParked] = []
        self.asked: list[str] = []

    def directory_of(self, did: str) -> str:
        return directory(did, PLC, allow_private=False)

    async def resolve(self, did: str) -> RepoIdentity | Outcome:
        self.asked.append(did)
        if self.trouble:
            trouble = self.trouble.pop(0)
            if isinstance(trouble, LaneParked):
                raise trouble
            return trouble
        if did in self.homes:
            return RepoIdentity(did, self.homes[did], "did:key:z")
        return NOT_FOUND


class SkippingClock:
    """Who sleeps wakes up at once, later."""

    def __init__(self) -> None:
        self.at = 1_800_000_000.0

    def now(self) -> float:
        return self.at

    async def sleep(self, seconds: float) -> None:
        self.at += seconds
        await asyncio.sleep(0)


class Scene:
    """The desk between a follower and a directory."""

    def __init__(self, live: LiveStore) -> None:
        self.live, self.clock, self.directory = live, SkippingClock(), Directory()
        follower: Any = follower_over(live, Witness())
        object.__setattr__(follower.parts, "clock", self.clock)
        anything: Any = None
        planner = VisitPlanner(
            anything, self.directory, None, frozenset(["left.example"]), False, anything
        )
        follower.is_at_home = homes_of(UPSTREAMS, planner)
        self.follower: Follower = follower
        self.gate = Gate(self.clock, Manners())
        parts: Any = (follower, self.directory, self.gate, self.clock)
        self.unknown = UnknownAccounts(*parts)
        limits: Any = VisitLimits(1000.0)
        resyncs: Any = (follower, None, planner, None, limits, self.clock, self.unknown.add)
        self.resyncs = Resyncs(*resyncs)

    def hear_of(self, *dids: str) -> None:
        now = self.clock.at
        state = LiveState(standing=Standing.DESYNCHRONIZED, told_by=BAD.told_by, asked_at=now)
        due = [DueVisit(did, now) for did in dids]
        self.live.apply(LiveChange(dict.fromkeys(dids, structs.replace(state, asks=1)), due))

    async def run(self) -> None:
        """Until nothing is due any more; time is skipped."""
        latest = self.clock.at + MONTH
        while (due := self.live.next_due()) is not None:
            self.clock.at = max(self.clock.at, due)
            assert self.clock.at < latest, "asked for without end"
            change = LiveChange(fed=self.live.due(self.clock.at, 500))
            states = self.live.states(visit.did for visit in change.fed)
            await self.resyncs._locate(states, change)
            self.live.apply(change)
            for desk in (self.unknown._directory, self.unknown._web):
                while (did := desk._lines.take()) is not None:
                    if (state := self.unknown._state(did)) is not None:
                        await self.unknown._look_up(did, state)


@pytest.fixture
def scene(tmp_path: Path) -> Iterator[Scene]:
    store = LiveStore.open(tmp_path)
    yield Scene(store)
    store.close()


def test_an_account_that_is_found_takes_its_turn_at_its_server(scene: Scene) -> None:
    scene.directory.homes["did:plc:found"] = HOME
    scene.hear_of("did:plc:found")
    begun = scene.clock.at
    asyncio.run(scene.run())
    state = scene.live.states(["did:plc:found"])["did:plc:found"]
    assert (state.pds, state.key, state.told_by) == (HOME, "did:key:z", "")
    assert state.needs_visit and not state.is_hearsay and not state.has_slot
    assert state.asked_at == begun, "at once"
    assert scene.directory.asked == ["did:plc:found"]


@pytest.mark.parametrize("did", ["did:plc:invented", "did:web:invented.web.org", "did:odd:one"])
def test_an_account_that_nobody_knows_is_forgotten_after_hours(scene: Scene, did: str) -> None:
    scene.hear_of(did)
    begun = scene.clock.at
    asyncio.run(scene.run())
    assert scene.live.states([did]) == {}
    assert 3600.0 < scene.clock.at - begun < 24 * 3600.0
    assert 5 < len(scene.directory.asked) < 10
    figures = scene.live.figures()
    assert (figures.desynchronized, figures.ended) == (0, {"forgotten": 1})


def test_an_account_on_a_server_that_is_left_alone_is_forgotten(scene: Scene) -> None:
    scene.directory.homes["did:plc:left"] = "https://left.example"
    scene.hear_of("did:plc:left")
    asyncio.run(scene.run())
    assert scene.live.states(["did:plc:left"]) == {}


def test_of_a_pds_only_its_own_accounts_are_followed(scene: Scene) -> None:
    """It may name all accounts of the network."""
    scene.directory.homes = {"did:plc:own": HOME, "did:plc:other": "https://other.example"}
    scene.hear_of("did:plc:own", "did:plc:other")
    asyncio.run(scene.follower.learn(RepoIdentity("did:plc:other", "https://other.example", "")))
    asyncio.run(scene.run())
    assert list(scene.live.states(scene.directory.homes)) == ["did:plc:own"]
    assert scene.live.figures().rejected["wrong_host"] > 0
    relay = Upstream("https://relay.example", is_pds=False)
    planner: Any = scene.resyncs.planner
    other = RepoIdentity("did:plc:other", "https://other.example", "")
    assert homes_of([*UPSTREAMS, relay], planner)(other), "a relay speaks for everybody"


def test_trouble_of_the_directory_is_not_the_accounts(scene: Scene) -> None:
    scene.directory.homes["did:plc:found"] = HOME
    scene.directory.trouble = [Outcome(Reason.UNAVAILABLE), LaneParked("plc.example", 0.0)] * 20
    scene.hear_of("did:plc:found")
    asyncio.run(scene.run())
    assert scene.live.states(["did:plc:found"])["did:plc:found"].pds == HOME
    assert scene.gate.failures("plc.example") == 0, "its last answer was good"


def test_trouble_of_a_web_site_holds_nobody_up_and_is_told_to_the_gate(scene: Scene) -> None:
    scene.directory.trouble = [Outcome(Reason.TIMEOUT)]
    scene.hear_of("did:web:slow.web.org")

    async def main() -> None:
        scene.unknown.add("did:web:slow.web.org", LiveState())
        state = scene.live.states(["did:web:slow.web.org"])["did:web:slow.web.org"]
        await scene.unknown._look_up("did:web:slow.web.org", state)

    begun = scene.clock.at
    asyncio.run(main())
    assert scene.clock.at == begun
    assert scene.gate.failures("slow.web.org") == 1


def test_news_of_the_directory_about_one_that_waits_is_as_good_as_a_lookup(scene: Scene) -> None:
    scene.hear_of("did:plc:one")
    news = RepoIdentity("did:plc:one", HOME, "did:key:z")
    scene.live.apply(LiveChange(fed=scene.live.first_due(1)))  # It waits for a second lookup.
    asyncio.run(scene.resyncs.follower.learn_news([news]))
    assert scene.live.next_due() == scene.resyncs.follower.parts.clock.now(), "at once"
    asyncio.run(scene.run())
    assert scene.live.states(["did:plc:one"])["did:plc:one"].pds == HOME
    assert scene.directory.asked == []


def test_who_is_archived_meanwhile_is_not_looked_up(scene: Scene) -> None:
    scene.hear_of("did:plc:one")
    scene.unknown.add("did:plc:one", LiveState(told_by=BAD.told_by))
    scene.live.apply(LiveChange({"did:plc:one": LiveState("rev", b"root", "key", HOME)}))
    asyncio.run(scene.run())
    assert scene.directory.asked == []


def test_what_is_heard_of_an_account_again_changes_nothing_of_its_pauses(scene: Scene) -> None:
    """Resyncs ask for it again while it waits in line."""
    scene.hear_of("did:plc:one")
    for _ in range(5):
        scene.unknown.add("did:plc:one", LiveState(told_by=BAD.told_by))
    asyncio.run(scene.run())
    assert len(scene.directory.asked) < 10
