"""The client among answers drawn at random, under limits drawn at random.

The judge knows what the server sent and what it was let send, and nothing of the client but its
answer: what is within the limits is read exactly, what is beyond them is refused as too large, and
whatever happens, others are answered.
"""

from __future__ import annotations

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from tests.random_worlds.budget import worlds as drawn
from tests.random_worlds.http_world import HONEST, Sent, World, limits, served, worlds
from tests.support.net.clients import AGENT, CountedTurns
from trawlnet.engine.outcome import Reason
from trawlnet.net.client.answer import RequestLimits, Response
from trawlnet.net.clock import SystemClock
from trawlnet.net.guard import Guard
from trawlnet.net.http import Http
from trawlnet.net.trouble import Trouble

PACKET = 64 * 1024  # Bytes: limits are kept give or take as many.
KERNEL = 32 << 20  # Bytes that may be on their way when the client has had enough.


async def asked(world: World, bounds: RequestLimits, sent: Sent) -> Response | Trouble:
    async with served(world, sent) as server:
        guard = Guard(exempt=frozenset({("127.0.0.1", server.port)}))
        turns = CountedTurns()
        async with Http(turns, SystemClock(), AGENT, guard=guard, limits=bounds) as http:
            hostile = asyncio.create_task(http.get(server.url("/hostile")))
            honest = [
                http.get(server.url("/honest"), limits=RequestLimits(total=60.0)) for _ in range(2)
            ]
            for answer in await asyncio.gather(*honest):
                assert isinstance(answer, Response)
                assert answer.body == HONEST
            answer = await hostile
            after = await http.get(server.url("/honest"), limits=RequestLimits(total=60.0))
            assert isinstance(after, Response), "what a connection held was taken for an answer"
            assert after.body == HONEST
            return answer


def must_be_refused(world: World, bounds: RequestLimits) -> bool:
    """By the bytes that are sent: of an answer that is cut, what is left may be within bounds."""
    head, body, framing = (world.size(kind) for kind in ("head", "body", "framing"))
    if head > bounds.header + PACKET:
        return True
    if world.status >= 400:
        return False
    return (
        body > bounds.wire
        or (world.cut is None and len(world.truth) > bounds.inflated)
        or world.longest_run > bounds.header + 2 * PACKET
        or framing + body > bounds.wire + bounds.header + 2 * PACKET
    )


def must_be_read(world: World, bounds: RequestLimits) -> bool:
    head, body, framing = (world.size(kind) for kind in ("head", "body", "framing"))
    return (
        world.is_whole
        and not world.is_odd
        and not world.is_folded
        and head <= bounds.header
        and framing <= bounds.header
        and (world.status >= 400 or framing + body <= bounds.wire)
        and (world.status >= 400 or len(world.truth) <= bounds.inflated)
    )


def judge(world: World, bounds: RequestLimits, answer: Response | Trouble, sent: Sent) -> None:
    assert sent.size < KERNEL
    assert sent.answers.count("/hostile") == 1
    if must_be_read(world, bounds):
        assert isinstance(answer, Response), answer
    if isinstance(answer, Trouble):
        assert answer.reason is not Reason.TIMEOUT
        if world.is_whole and not world.is_odd:
            assert answer.reason is Reason.TOO_LARGE, answer
        return
    assert answer.status == world.status
    if world.endless is not None:
        return
    if world.is_odd:
        assert world.status >= 400
        assert answer.body == b""
    if world.status >= 400:
        assert answer.body == world.truth[: len(answer.body)]
        assert len(answer.body) <= bounds.error_body
        return
    assert not must_be_refused(world, bounds)
    if world.cut is None:
        assert answer.body == world.truth
    else:  # A body that ends with its connection ends wherever that does.
        assert world.framing == "to_the_end"
        assert answer.body == world.truth[: len(answer.body)]
        assert len(answer.body) <= bounds.inflated
        assert not world.coding or answer.body in (b"", world.truth)


@given(st.data())
@drawn(250)
def test_any_answer_is_read_exactly_or_refused(data: st.DataObject) -> None:
    bounds = data.draw(limits())
    world = data.draw(worlds(bounds))
    sent = Sent()
    answer = asyncio.run(asyncio.wait_for(asked(world, bounds, sent), 120.0))
    judge(world, bounds, answer, sent)
