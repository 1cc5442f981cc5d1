"""What counts is when a request leaves: connections take their time, a different one each."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trawlnet.engine.gate import Gate, LaneParked
from trawlnet.engine.rules import Manners
from trawlnet.sim.virtual import SimClock, run_sim


def left_at(manners: Manners, dials: Sequence[float], common: str = "") -> list[float]:
    """When requests left whose connections took so long; with a common lane each has its own."""

    async def main() -> list[float]:
        clock, left = SimClock(), []
        gate = Gate(clock, manners)

        async def one(number: int, dial: float) -> None:
            lane = f"host{number}" if common else "host"
            if common:
                gate.share(lane, common)
            async with gate.turn(lane) as turn:
                await clock.sleep(dial)
                await turn.leave()
                left.append(clock.now())

        await asyncio.gather(*(one(*pair) for pair in enumerate(dials)))
        return sorted(left)

    return run_sim(main())


def test_a_slow_connection_does_not_bring_two_requests_together() -> None:
    left = left_at(Manners(rate=5.0, concurrency=4), [0.19, 0.0, 0.0])
    assert left == pytest.approx([0.19, 0.39, 0.59], abs=1e-4)


def test_the_pace_is_made_up_for_once_connections_are_quick() -> None:
    left = left_at(Manners(rate=5.0, concurrency=30), [1.0] + [0.0] * 20)
    assert left[-1] <= 21 / 5 + 1e-3


def test_a_crowd_that_waits_to_leave_is_not_woken_for_each_of_it() -> None:
    naps = 0

    class Counting(SimClock):
        async def sleep(self, seconds: float) -> None:
            nonlocal naps
            naps += 1
            await super().sleep(seconds)

    async def main() -> None:
        clock = Counting()
        gate = Gate(clock, Manners(rate=100.0, concurrency=100))
        ready = asyncio.Event()

        async def one() -> None:
            async with gate.turn("host") as turn:
                await ready.wait()
                await turn.leave()

        tasks = [asyncio.create_task(one()) for _ in range(100)]
        await asyncio.sleep(2.0)
        before = naps
        ready.set()
        await asyncio.gather(*tasks)
        assert naps - before <= 100

    run_sim(main())


def test_hosts_at_one_address_leave_one_after_the_other() -> None:
    left = left_at(Manners(rate=5.0, concurrency=4), [0.19, 0.0, 0.0], common="192.0.2.1")
    assert all(b - a >= 0.2 - 1e-5 for a, b in itertools.pairwise(left))


@settings(max_examples=60, deadline=None)
@given(
    st.floats(0.5, 50),
    st.integers(1, 5),
    st.integers(1, 8),
    st.lists(st.floats(0, 3), min_size=1, max_size=25),
)
def test_no_window_of_time_sees_more_leave_than_the_bucket_allows(rate, burst, width, dials):
    left = left_at(Manners(rate=rate, burst=burst, concurrency=width), dials)
    for first in range(len(left)):
        for last in range(first, len(left)):
            assert last - first + 1 <= burst + (left[last] - left[first]) * rate + 1e-3


def test_who_lost_its_lanes_while_it_dialled_does_not_leave() -> None:
    async def main() -> None:
        clock, bar = SimClock(), [0.0]
        gate = Gate(clock, Manners(rate=10.0), barred_until=lambda: bar[0])
        with pytest.raises(LaneParked):
            async with gate.turn("host") as turn:
                bar[0] = clock.now() + 60.0  # It froze here, and somebody took its lanes over.
                await turn.leave()
                pytest.fail("left in spite of the bar")
        assert gate.states()[0].in_flight == 0

    run_sim(main())
