"""Calls to Redis end when they are told to, at whatever step of theirs."""

from __future__ import annotations

import asyncio

import pytest

from tests.support.servers import redis_server
from trawlnet.stores.redis.scripts import Scripts, connect

STEPS = 40  # More than one call takes.
PATIENCE = 60.0  # Seconds; only a test that fails waits that long.


def test_whoever_asks_again_and_again_can_be_cancelled_at_every_step() -> None:
    async def main(url: str) -> None:
        client = connect(url)
        scripts = Scripts(client, url, "t:", ())

        async def asking() -> None:
            while True:
                await scripts.ask("GET", "nothing")

        await scripts.ask("GET", "nothing")
        for steps in range(1, STEPS):
            task = asyncio.create_task(asking())
            for _ in range(steps):
                await asyncio.sleep(0)
            task.cancel()
            done, _ = await asyncio.wait([task], timeout=PATIENCE)
            if not done:
                task.cancel()
                pytest.fail(f"it went on after it was cancelled at step {steps}")
        await client.aclose()

    with redis_server() as server:
        asyncio.run(main(server.url))


def test_many_callers_at_once_wait_for_a_connection_instead_of_failing() -> None:
    async def main(url: str) -> None:
        client = connect(url)
        scripts = Scripts(client, url, "many:", ())
        await asyncio.gather(*(scripts.ask("INCR", "calls") for _ in range(300)))
        assert int(await scripts.ask("GET", "calls")) == 300
        await client.aclose()

    with redis_server() as server:
        asyncio.run(main(server.url))
