"""Identities in doubt: looked up now and then, at a cost that nobody can drive up, and soon,
whatever others ask for."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import pairwise
from typing import Any

from trawlnet.crawlers.repos.accounts.identity import RepoIdentity
from trawlnet.crawlers.repos.following import lookups
from trawlnet.crawlers.repos.following.judging import IdentityDoubt
from trawlnet.crawlers.repos.following.lookups import IdentityLookups
from trawlnet.sim.virtual import SimClock, run_sim

DID = "did:plc:" + "a" * 24
PAUSE = 60.0
EVIL, HOME = "https://evil.example", "https://pds.example"
TARPIT = ".tarpit.example"
TARPITS_TAKE = 30.0  # Seconds.
SOON = 5.0  # Seconds.


class CountingResolver:
    """It takes an answer from a directory, or from a web server, as long as they take."""

    def __init__(self, clock: SimClock) -> None:
        self.clock = clock
        self.asked: dict[str, list[float]] = {}

    async def resolve(self, did: str) -> RepoIdentity:
        self.asked.setdefault(did, []).append(self.clock.now())
        await self.clock.sleep(TARPITS_TAKE if did.endswith(TARPIT) else 0.1)
        return RepoIdentity(did, HOME, "did:key:z")


class Scene:
    def __init__(self) -> None:
        self.clock = SimClock()
        self.resolver = CountingResolver(self.clock)
        self.learnt: dict[str, float] = {}  # When.
        resolver: Any = self.resolver
        self.looking = IdentityLookups(resolver, self.learn, self.clock, PAUSE)

    async def learn(self, found: RepoIdentity) -> None:
        self.learnt[found.did] = self.clock.now()

    def wait_of(self, did: str) -> float:
        return self.learnt.get(did, math.inf)


@asynccontextmanager
async def looking() -> AsyncIterator[Scene]:
    scene, nobody = Scene(), None
    running = asyncio.create_task(scene.looking.run(nobody))  # type: ignore[arg-type]
    yield scene
    running.cancel()


def invented(count: int, source: str = EVIL) -> list[IdentityDoubt]:
    return [IdentityDoubt(f"did:plc:{number:024}", source) for number in range(count)]


def test_an_account_that_is_doubted_without_end_costs_one_lookup_a_pause() -> None:
    async def main() -> None:
        async with looking() as scene:
            for _ in range(600):
                scene.looking.add([IdentityDoubt(DID, HOME)])
                await asyncio.sleep(0.5)
                assert len(scene.looking) <= 2, "one that waits, and one that is put off"
            await asyncio.sleep(2 * PAUSE)
            asked = scene.resolver.asked[DID]
            gaps = [b - a for a, b in pairwise(asked)]
            assert 5 <= len(asked) <= 7 and min(gaps) >= PAUSE

    run_sim(main())


def test_however_many_are_doubted_what_waits_has_a_bound(monkeypatch: Any) -> None:
    monkeypatch.setattr(lookups, "_WAITING", 50)

    async def main() -> None:
        async with looking() as scene:
            most = 0
            for _ in range(40):
                scene.looking.add(invented(300))
                most = max(most, len(scene.looking))
                await asyncio.sleep(0.1)
            assert 50 < most <= 100, "some wait, and as many are put off"
            assert scene.looking.dropped > 30 * 200

    run_sim(main())


def test_invented_doubts_keep_no_honest_one_waiting(monkeypatch: Any) -> None:
    monkeypatch.setattr(lookups, "_WAITING", 2000)

    async def main() -> None:
        async with looking() as scene:
            scene.looking.add(invented(10_000))
            dropped = scene.looking.dropped
            assert dropped == 8000
            scene.looking.add([IdentityDoubt(DID, HOME)])
            scene.looking.add(invented(10_000))
            await asyncio.sleep(SOON)
            assert scene.wait_of(DID) < SOON
            assert len(scene.learnt) > 100, "others have their turns as well"

    run_sim(main())


def test_honest_doubts_that_are_put_off_are_not_dropped_for_invented_ones(
    monkeypatch: Any,
) -> None:
    monkeypatch.setattr(lookups, "_WAITING", 20)

    async def main() -> None:
        async with looking() as scene:
            scene.looking.add([IdentityDoubt(DID, HOME)])
            await asyncio.sleep(1.0)
            scene.looking.add([IdentityDoubt(DID, HOME)])
            for _ in range(100):
                for start in range(0, 100, 10):
                    scene.looking.add(invented(100)[start : start + 10])
                    await asyncio.sleep(0.05)
            await asyncio.sleep(PAUSE)
            assert len(scene.resolver.asked[DID]) == 2, "a key may change twice in a minute"

    run_sim(main())


def test_servers_that_take_ages_keep_no_other_account_waiting() -> None:
    async def main() -> None:
        honest = "did:web:honest.example"
        async with looking() as scene:
            scene.looking.add([IdentityDoubt(f"did:web:{n}{TARPIT}", EVIL) for n in range(500)])
            await asyncio.sleep(1.0)
            scene.looking.add([IdentityDoubt(DID, HOME), IdentityDoubt(honest, HOME)])
            await asyncio.sleep(SOON)
            assert max(scene.wait_of(DID), scene.wait_of(honest)) < SOON
            await asyncio.sleep(10 * TARPITS_TAKE)
            assert len(scene.learnt) >= 40, "they are looked up as well"

    run_sim(main())
