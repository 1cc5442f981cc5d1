"""Identities in doubt: looked up now and then, at a cost that nobody can drive up."""

from __future__ import annotations

import asyncio
from typing import Any

from trawlnet.crawlers.repos.accounts.identity import RepoIdentity
from trawlnet.crawlers.repos.following import lookups
from trawlnet.crawlers.repos.following.lookups import IdentityLookups
from trawlnet.sim.virtual import SimClock, run_sim

DID = "did:plc:" + "a" * 24
PAUSE = 60.0


class CountingResolver:
    def __init__(self, clock: SimClock) -> None:
        self.clock = clock
        self.asked: list[float] = []

    async def resolve(self, did: str) -> RepoIdentity:
        self.asked.append(self.clock.now())
        return RepoIdentity(did, "https://pds.example", "did:key:z")


async def learn(found: RepoIdentity) -> None:
    pass


def test_an_account_that_is_doubted_without_end_costs_one_lookup_a_pause_and_one_timer() -> None:
    async def main() -> None:
        clock = SimClock()
        resolver = CountingResolver(clock)
        looking = IdentityLookups(resolver, learn, clock, PAUSE)  # type: ignore[arg-type]
        nobody: Any = None
        running = asyncio.create_task(looking.run(nobody))
        for _ in range(600):
            looking.add([DID])
            await asyncio.sleep(0.5)
            assert len(looking._later) <= 1
        await asyncio.sleep(2 * PAUSE)
        running.cancel()
        gaps = [b - a for a, b in zip(resolver.asked, resolver.asked[1:], strict=False)]
        assert 5 <= len(resolver.asked) <= 7 and min(gaps) >= PAUSE

    run_sim(main())


def test_however_many_are_doubted_the_timers_have_a_bound(monkeypatch: Any) -> None:
    monkeypatch.setattr(lookups, "_WAITING", 50)

    async def main() -> None:
        clock = SimClock()
        looking = IdentityLookups(CountingResolver(clock), learn, clock, PAUSE)  # type: ignore[arg-type]
        nobody: Any = None
        running = asyncio.create_task(looking.run(nobody))
        timers = 0
        for _ in range(40):
            for start in range(0, 300, 30):
                looking.add([f"did:plc:{n:024}" for n in range(start, start + 30)])
                await asyncio.sleep(0.01)
            timers = max(timers, len(asyncio.get_running_loop()._scheduled))  # type: ignore[attr-defined]
        running.cancel()
        assert 50 <= timers < 100

    run_sim(main())
