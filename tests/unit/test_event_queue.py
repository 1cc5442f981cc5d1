"""A server of events that is away: waited for while the crawl goes on, and never passed over."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from trawlnet.crawlers.repos.events.event_queue import EventQueue
from trawlnet.engine.control import Control, Ending
from trawlnet.queues.queue import Message
from trawlnet.sim.virtual import run_sim
from trawlnet.storage.errors import SinkUnreachable, StoppedWaiting


class AbsentServer:
    """Confirms nothing for the first so many tries."""

    def __init__(self, absences: int) -> None:
        self.absences = absences
        self.sent: list[Message] = []

    async def publish(self, messages: Sequence[Message]) -> None:
        if self.absences:
            self.absences -= 1
            raise SinkUnreachable("the server does not answer")
        self.sent += messages


def over(server: Any, control: Control | None) -> EventQueue:
    queue = EventQueue(server)
    if control:
        queue.attend(control)
    return queue


def test_it_is_waited_for_however_long_it_takes(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        server = AbsentServer(absences=20_000)  # More than a day.
        queue = over(server, Control(1))
        publishing = asyncio.create_task(queue.publish([{"n": 1}, {"n": 2}]))
        await asyncio.sleep(60.0)
        assert "does not answer" in queue.trouble
        assert not server.sent
        await publishing
        assert server.sent == [{"n": 1}, {"n": 2}]
        assert queue.trouble == ""

    run_sim(scenario())
    said = [record.message for record in caplog.records if record.levelname == "WARNING"]
    assert len(said) == 2, "when it begins and when it ends, not each time it is tried"


@pytest.mark.parametrize("ending", Ending)
def test_a_crawl_that_ends_does_not_wait_for_it(ending: Ending) -> None:
    """What was not confirmed is in the spool, and sent again at the next start."""

    async def scenario() -> None:
        control = Control(1)
        queue = over(AbsentServer(absences=20_000), control)
        publishing = asyncio.create_task(queue.publish([{"n": 1}]))
        await asyncio.sleep(3600.0)
        control.drain(ending)
        with pytest.raises(SinkUnreachable) as raised:
            async with asyncio.timeout(10.0):
                await publishing
        assert isinstance(raised.value, StoppedWaiting) is (ending is Ending.DRAINED)

    run_sim(scenario())


def test_before_the_crawl_begins_it_is_an_error() -> None:
    with pytest.raises(SinkUnreachable):
        run_sim(over(AbsentServer(absences=1), None).publish([{"n": 1}]))
