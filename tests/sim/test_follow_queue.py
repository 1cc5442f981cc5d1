"""`repos follow` with its events on a RabbitMQ server that goes away: it waits, says so, and the
server has every event in the end."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path

import pytest

from tests.sim.test_follow_breaks import act_until_true, live_row, log_of
from tests.support.program import Started, started
from tests.support.repos.followed import (
    FoldedEvents,
    LiveWorld,
    folded_events,
    follow_flags,
    live_world,
)
from tests.support.servers import rabbitmq_server
from trawlnet.crawlers.repos.events.event_log import NAME
from trawlnet.queues.open import open_queue
from trawlnet.sim.atproto.live.relay_stream import Mischief

pytestmark = pytest.mark.slow


def read_on(folded: FoldedEvents, url: str) -> FoldedEvents:
    """What a consumer of the queue knows by now."""

    async def drain() -> None:
        queue = await open_queue(url, NAME)
        async for delivery in queue.consume(drain=True):
            folded.apply(delivery.body)
            await delivery.ack()
        await queue.close()

    asyncio.run(drain())
    return folded


def act_in_vain(program: Started, workspace: Path, living: LiveWorld) -> None:
    """The network goes on, and the server of events is away."""
    living.acts(15)
    until_it_waits(program, workspace)


def have_it_fetched(living: LiveWorld) -> None:
    """A task of the crawl brings what the relay has left out, and not the stream."""
    one = living.writers()[:1]
    living.write(one, Mischief.DROP)
    living.write(one)


def until_it_waits(program: Started, workspace: Path) -> None:
    program.until(
        lambda: "RabbitMQ" in live_row(workspace).get("troubles", {}).get("event_queue", ""),
        "what it waits for in `status`",
    )


def test_a_queue_that_goes_away_costs_nothing(tmp_path: Path) -> None:
    workspace = tmp_path / "net"
    with live_world(33, tmp_path, accounts=8, hosts=2) as living, rabbitmq_server() as server:
        flags = ("-w", workspace, *follow_flags(living.world), "--event-queue", server.url)
        with started("repos", "crawl", "--follow", *flags, folder=tmp_path / "out") as program:
            act_until_true(program, workspace, living)
            server.stop()
            act_in_vain(program, workspace, living)
            server.start()
            act_until_true(program, workspace, living)
            program.until(lambda: "troubles" not in live_row(workspace), "the server is back")
            server.kill()
            have_it_fetched(living)
            until_it_waits(program, workspace)
            program.tell(signal.SIGTERM)
            ran = program.ended()
            assert ran.code == 130, ran.err
            assert "interrupted, saved" in ran.err and "does not answer" in ran.err
        assert "following waits for the event queue" in log_of(workspace)
        server.start()
        sent, truth = FoldedEvents(), living.truth()
        with started("repos", "follow", *flags, folder=tmp_path / "out") as program:
            program.until(lambda: read_on(sent, server.url).content == truth, "the truth")
            program.tell(signal.SIGTERM)
            assert program.ended().code == 130
        spooled = folded_events(workspace)
        assert sent.ids == spooled.ids, "the same events, with the same ids"
        assert sent.wrong == [] == spooled.wrong
