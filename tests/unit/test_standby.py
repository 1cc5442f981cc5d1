"""Standing by: who may open the office, who is sent home, and what a late process may not do."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from trawlnet.engine.control import Control, Ending
from trawlnet.fleet.standby import LeaderEpoch, LeaderFenced, Leadership
from trawlnet.sim.virtual import SimClock, run_sim
from trawlnet.stores.errors import Fenced
from trawlnet.stores.redis.fleet.shards import Beat, ClaimAnswer, FleetPlan, Word

OFFICE = Leadership("redis://nowhere", "ids:", 10.0, 0)


@dataclass
class Keys:
    """The office, as Redis keeps it."""

    plan_now: FleetPlan = field(default_factory=FleetPlan)
    claims: list[ClaimAnswer | None] = field(default_factory=lambda: [ClaimAnswer(True)])
    stands: bool = True
    token: str = "s000-1"
    released: int = 0
    changes: list[Mapping[str, Any]] = field(default_factory=list)

    async def plan(self) -> FleetPlan:
        return self.plan_now

    async def change(self, **fields: Any) -> FleetPlan:
        self.changes.append(fields)
        self.plan_now = replace(self.plan_now, version=self.plan_now.version + 1, **fields)
        return self.plan_now

    async def claim(self, plan: FleetPlan, *_: Any) -> ClaimAnswer | None:
        return self.claims.pop(0)

    async def beat(self, *_: Any) -> Beat:
        return Beat(self.stands, self.plan_now)

    async def statuses(self) -> dict[int, Mapping[str, Any]]:
        return {}

    async def release(self) -> None:
        self.released += 1


class Waiting:
    async def wait(self, *_: Any) -> None: ...

    async def leave(self, *_: Any) -> None: ...


def term_of(keys: Keys) -> LeaderEpoch:
    return LeaderEpoch(OFFICE, keys, Waiting(), SimClock())  # type: ignore[arg-type]


async def claimed(keys: Keys, *, begin: bool) -> LeaderEpoch:
    term = term_of(keys)
    await term.claim(lambda active: None, begin=begin)
    return term


def test_a_closed_office_is_opened_only_by_whoever_begins() -> None:
    async def main() -> None:
        closed = Keys()
        with pytest.raises(LeaderFenced):
            await claimed(closed, begin=False)
        assert closed.changes == []
        term = await claimed(closed, begin=True)
        assert closed.changes == [{"run": 1, "shards": 1, "word": Word.RUN}]
        await term.end()
        assert closed.released == 1

    run_sim(main())


def test_whoever_waits_is_sent_home_when_the_office_is_closed_meanwhile() -> None:
    async def main() -> None:
        keys = Keys(claims=[])
        sent: Sequence[ClaimAnswer | None] = [ClaimAnswer(False, wait=1.0), None, ClaimAnswer(True)]
        keys.claims = list(sent)

        async def close_it() -> None:
            await asyncio.sleep(0.5)
            await keys.change(word=Word.DRAIN)

        closing = asyncio.create_task(close_it())
        with pytest.raises(LeaderFenced):
            await claimed(keys, begin=True)
        await closing
        assert keys.plan_now.word is Word.DRAIN, "it is not opened again"

    run_sim(main())


def test_one_that_was_replaced_ends_its_crawl_and_resigns_for_nobody() -> None:
    async def main() -> None:
        keys = Keys()
        term, control = await claimed(keys, begin=True), Control(1)
        watching = asyncio.create_task(term.watch(control))
        await asyncio.sleep(3.0)
        keys.stands = False
        with pytest.raises(Fenced):
            await watching
        await term.end()
        assert keys.released == 0, "the office is another's"

    run_sim(main())


def test_the_active_one_drains_when_the_office_is_closed() -> None:
    async def main() -> None:
        keys = Keys()
        term, control = await claimed(keys, begin=True), Control(1)
        watching = asyncio.create_task(term.watch(control))
        await asyncio.sleep(3.0)
        assert control.ending is None
        await keys.change(word=Word.DRAIN)
        await asyncio.sleep(3.0)
        assert control.ending is Ending.DRAINED
        watching.cancel()
        await term.end()
        assert keys.released == 1

    run_sim(main())
