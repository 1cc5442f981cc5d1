"""Events on a RabbitMQ server: confirmed before append returns, with the ids of the log."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from tests.crash.event_roles import numbered
from tests.support.servers import rabbitmq_server
from trawlnet.crawlers.repos.events.event import event_id
from trawlnet.crawlers.repos.events.event_log import NAME, RETENTION, EventLog, EventReader
from trawlnet.queues.open import open_queue
from trawlnet.storage.errors import SinkUnreachable

PATIENCE = 120.0


def test_a_server_has_every_event_before_append_returns(tmp_path: Path) -> None:
    async def scenario(url: str) -> None:
        log = await EventLog.open(tmp_path, lambda: 1000.0, RETENTION, url)
        await log.append([numbered(n) for n in range(500)])
        await log.append([numbered(499)])  # After a crash, once more.
        queue, found = await open_queue(url, NAME), []
        assert await queue.depth() == 501
        async for delivery in queue.consume(drain=True):
            found.append(delivery.body)
            await delivery.ack()
        await queue.close()
        await log.close()
        assert [row["id"] for row in found[:500]] == [event_id(numbered(n)) for n in range(500)]
        assert found[500]["id"] == found[499]["id"]
        assert found[7]["record"]["n"] == 7
        reader = EventReader(tmp_path)
        times = [one.time_us for one in (await reader.read(await reader.start())).events]
        assert times == [row["time_us"] for row in found]

    with rabbitmq_server() as server:
        asyncio.run(asyncio.wait_for(scenario(server.url), PATIENCE))


def test_a_server_that_is_not_there_is_said_at_once(tmp_path: Path) -> None:
    with pytest.raises(SinkUnreachable):
        asyncio.run(EventLog.open(tmp_path, lambda: 0.0, RETENTION, "amqp://127.0.0.1:9/"))
