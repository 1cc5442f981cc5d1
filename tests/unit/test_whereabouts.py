"""Where accounts live now: asking a directory in the middle of a visit."""

from __future__ import annotations

import asyncio

import pytest

from trawlnet.crawlers.repos.identity import Identity
from trawlnet.crawlers.repos.whereabouts import Whereabouts
from trawlnet.engine.gate import LaneParked
from trawlnet.sim.virtual import SimClock, run_sim


class SlowDirectory:
    def directory_of(self, did: str) -> str:
        return "https://plc.example"

    async def resolve(self, did: str) -> Identity:
        await asyncio.sleep(60.0)
        return Identity(did, "https://pds.example", "")


def test_a_slow_directory_does_not_get_every_worker() -> None:
    """Two visits wait for it; the others give their worker back and come again."""

    async def main() -> None:
        clock = SimClock()
        where = Whereabouts(SlowDirectory(), None, 0.0, clock, asyncio.Semaphore(2))
        asking = [asyncio.create_task(where.resolved(f"did:plc:{n}")) for n in range(2)]
        await clock.sleep(1.0)
        with pytest.raises(LaneParked) as later:
            await where.resolved("did:plc:2")
        assert later.value.until > clock.now()
        assert [one.did for one in await asyncio.gather(*asking)] == ["did:plc:0", "did:plc:1"]
        assert await where.resolved("did:plc:2") == Identity("did:plc:2", "https://pds.example", "")

    run_sim(main())
