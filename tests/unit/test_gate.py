from __future__ import annotations

import asyncio
import itertools
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trawlnet.engine.gate import Gate, LaneColumns, LaneParked
from trawlnet.engine.outcome import Outcome, Reason
from trawlnet.engine.rules import Manners
from trawlnet.sim.virtual import SimClock, run_sim


def starts_of(manners: Manners, requests: int, took: float) -> list[float]:
    """Send requests all at once at one lane, and say when each was let through."""

    async def main() -> list[float]:
        clock = SimClock()
        gate = Gate(clock, manners)
        starts: list[float] = []

        async def one() -> None:
            async with gate.turn("lane"):
                starts.append(clock.now())
                await clock.sleep(took)

        await asyncio.gather(*(one() for _ in range(requests)))
        return starts

    return run_sim(main())


def gaps(starts: list[float]) -> list[float]:
    return [later - earlier for earlier, later in itertools.pairwise(starts)]


def test_starts_are_spaced_by_the_rate():
    starts = starts_of(Manners(rate=4.0, concurrency=100), 20, took=0.0)
    assert min(gaps(starts)) >= 0.25 - 1e-5
    assert starts[-1] == pytest.approx(19 / 4)


def test_a_burst_may_go_at_once_and_then_the_rate_holds():
    starts = starts_of(Manners(rate=4.0, burst=5, concurrency=100), 20, took=0.0)
    assert starts[:5] == [0.0] * 5
    assert min(gaps(starts[5:])) >= 0.25 - 1e-5


def test_concurrency_is_a_bound_of_its_own():
    starts = starts_of(Manners(rate=1000.0, concurrency=3), 9, took=10.0)
    assert starts == pytest.approx([0, 0.001, 0.002, 10, 10.001, 10.002, 20, 20.001, 20.002])


def test_a_gap_from_the_end_counts_from_the_end_of_the_response():
    starts = starts_of(Manners(rate=1.0, concurrency=1, gap_from_end=True), 4, took=0.5)
    assert starts == pytest.approx([0.0, 1.5, 3.0, 4.5])


def test_without_a_rate_only_concurrency_counts():
    assert starts_of(Manners(rate=math.inf, concurrency=50), 50, took=1.0) == [0.0] * 50


@settings(max_examples=60, deadline=None)
@given(
    st.floats(0.5, 50),
    st.integers(1, 6),
    st.integers(1, 8),
    st.lists(st.floats(0, 3), min_size=1, max_size=30),
)
def test_no_window_of_time_sees_more_starts_than_the_bucket_allows(rate, burst, width, arrivals):
    async def main() -> list[float]:
        clock = SimClock()
        gate = Gate(clock, Manners(rate=rate, burst=burst, concurrency=width))
        starts: list[float] = []

        async def one(at: float) -> None:
            await clock.sleep(at)
            async with gate.turn("lane"):
                starts.append(clock.now())
                await clock.sleep(at / 3)

        await asyncio.gather(*(one(at) for at in arrivals))
        return starts

    starts = run_sim(main())
    for first in range(len(starts)):
        for last in range(first, len(starts)):
            allowed = burst + (starts[last] - starts[first]) * rate
            assert last - first + 1 <= allowed + 1e-3


def test_a_parked_lane_gives_the_worker_back_at_once():
    async def main() -> None:
        clock = SimClock()
        gate = Gate(clock, Manners())
        gate.observe("lane", Outcome(Reason.RATE_LIMITED, wait=500.0))
        with pytest.raises(LaneParked) as parked:
            async with gate.turn("lane"):
                pass
        assert parked.value.until == 500.0 and clock.now() == 0.0

    run_sim(main())


def test_those_already_waiting_when_a_lane_is_parked_are_sent_back_too():
    async def main() -> list[str]:
        clock = SimClock()
        gate = Gate(clock, Manners(rate=0.1, concurrency=10))

        async def one() -> str:
            try:
                async with gate.turn("lane"):
                    return "went"
            except LaneParked:
                return "sent back"

        waiting = asyncio.gather(*(one() for _ in range(4)))
        await clock.sleep(15.0)
        gate.observe("lane", Outcome(Reason.RATE_LIMITED, wait=1000.0))
        return await waiting

    assert sorted(run_sim(main())) == ["sent back", "sent back", "went", "went"]


def test_other_lanes_do_not_notice_a_parked_one():
    async def main() -> None:
        clock = SimClock()
        gate = Gate(clock, Manners())
        gate.park("bad", math.inf)
        async with gate.turn("good"):
            assert clock.now() == 0.0
        assert gate.blocked("bad") and gate.ready_at("bad") == math.inf

    run_sim(main())


def test_cancelling_a_waiter_does_not_lose_the_place():
    async def main() -> float:
        clock = SimClock()
        gate = Gate(clock, Manners(rate=math.inf, concurrency=1))

        async def hold(seconds: float) -> None:
            async with gate.turn("lane"):
                await clock.sleep(seconds)

        first = asyncio.create_task(hold(5))
        await clock.sleep(1)
        second = asyncio.create_task(hold(5))
        third = asyncio.create_task(hold(5))
        await clock.sleep(1)
        second.cancel()
        await asyncio.gather(first, second, third, return_exceptions=True)
        return clock.now()

    assert run_sim(main()) == 10.0


def test_a_lane_in_trouble_gets_one_worker_until_it_is_well():
    async def main() -> None:
        gate = Gate(SimClock(), Manners(concurrency=8))
        assert gate.room("lane") == 8
        gate.observe("lane", Outcome(Reason.TIMEOUT))
        assert gate.room("lane") == 1
        gate.observe("lane", Outcome(Reason.OK))
        assert gate.room("lane") == 8

    run_sim(main())


def test_promises_are_counted_in_and_forgotten_with_their_tasks():
    async def main() -> None:
        gate = Gate(SimClock(), Manners(rate=2.0))
        gate.promise("lane", 3)
        assert gate.ready_at("lane") == pytest.approx(1.5)
        gate.promised_at_most("lane", 0)
        assert gate.ready_at("lane") <= 0.0

    run_sim(main())


@pytest.mark.slow
def test_idle_lanes_are_forgotten_so_memory_follows_the_lanes_in_use():
    async def main() -> int:
        clock = SimClock()
        gate = Gate(clock, Manners(rate=1000.0))
        gate.observe("remembered", Outcome(Reason.TIMEOUT))
        for n in range(50_000):
            async with gate.turn(f"lane{n}"):
                await clock.sleep(0.01)
        assert any(state.lane == "remembered" for state in gate.states())
        return len(gate.states())

    assert run_sim(main()) < 10_000


def test_a_late_riser_pushes_the_next_one_back():
    """A loop that stalls must not let two requests out close together."""

    class Stalling(SimClock):
        async def sleep(self, seconds: float) -> None:
            await super().sleep(seconds + 0.9)

    async def main() -> list[float]:
        clock = Stalling()
        gate = Gate(clock, Manners(rate=1.0, concurrency=9))
        starts: list[float] = []

        async def one(at: float) -> None:
            await asyncio.sleep(at)
            async with gate.turn("lane"):
                starts.append(clock.now())

        await asyncio.gather(*(one(n * 0.3) for n in range(9)))
        return sorted(starts)

    assert min(gaps(run_sim(main()))) >= 1.0 - 1e-5


def test_nobody_leaves_while_all_are_barred() -> None:
    async def main() -> None:
        clock, bar = SimClock(), [0.0]
        gate = Gate(clock, Manners(rate=10.0, concurrency=1), barred_until=lambda: bar[0])
        async with gate.turn("host"):
            pass
        bar[0] = clock.now() + 60.0
        with pytest.raises(LaneParked) as parked:
            async with gate.turn("host"):
                pytest.fail("went in spite of the bar")
        assert parked.value.until == bar[0]
        bar[0] = 0.0
        async with gate.turn("host"):
            assert gate.states()[0].in_flight == 1

    run_sim(main())


def test_columns_tell_the_same_as_states() -> None:
    async def main() -> Gate:
        gate = Gate(SimClock(), Manners())
        for count, lane in enumerate(("well", "once", "twice", "blocked")):
            gate.treat(lane, Manners(rate=4.0, halve_every=1, block_at=3))
            for _ in range(count):
                gate.observe(lane, Outcome(Reason.TIMEOUT))
        return gate

    gate, names = run_sim(main()), LaneColumns._fields
    rows = [tuple(getattr(state, name) for name in names) for state in gate.states()]
    assert list(zip(*gate.columns(10), strict=True)) == rows
    assert list(zip(*gate.columns(2), strict=True)) == rows[:2]
    assert gate.remembered == 4


def test_what_was_in_flight_when_a_lane_was_suspended_is_no_probe():
    async def main():
        gate = Gate(SimClock(), Manners(block_at=2, probes=1, first_probe=30.0))
        trouble = Outcome(Reason.UNAVAILABLE)
        holds = [gate.observe("l", trouble) for _ in range(8)]
        assert holds[:2] == [0.0, 30.0] and set(holds[2:]) == {0.0}
        assert not gate.blocked("l")
        await asyncio.sleep(31.0)
        assert gate.observe("l", trouble) == math.inf and gate.blocked("l")

    run_sim(main())


def test_a_lane_that_fails_gets_no_second_burst():
    async def main():
        clock = SimClock()
        gate = Gate(clock, Manners(rate=8.0, burst=5, halve_every=1, block_at=100))
        left = []
        while clock.now() < 0.1:
            async with gate.turn("l") as turn:
                await turn.leave()
                left.append(clock.now())
            gate.observe("l", Outcome(Reason.UNAVAILABLE))
        assert sum(at < 0.1 for at in left) <= 5

    run_sim(main())


def test_a_longer_gap_of_its_own_gives_a_lane_no_second_burst():
    async def main():
        clock = SimClock()
        gate = Gate(clock, Manners(rate=10.0, burst=5))
        left = []
        for number in range(12):
            async with gate.turn("l") as turn:
                await turn.leave()
                left.append(clock.now())
            if number == 4:
                gate.treat("l", Manners(rate=1.0, burst=5))
        assert left[4] == 0.0 and left[5] >= 1.0 - 1e-5
        assert all(b - a >= 1.0 - 1e-5 for a, b in itertools.pairwise(left[4:]))

    run_sim(main())


def test_requests_that_fail_while_their_lane_is_parked_are_no_further_failures():
    async def main() -> None:
        clock = SimClock()
        gate = Gate(clock, Manners(rate=10.0, concurrency=3, block_at=2))
        for _ in range(3):  # They were in flight together, and the host asks for a pause.
            gate.observe("lane", Outcome(Reason.TIMEOUT, wait=5.0))
        assert gate.failures("lane") == 1 and not gate.blocked("lane")
        await clock.sleep(5.0)
        gate.observe("lane", Outcome(Reason.TIMEOUT, wait=5.0))
        assert gate.blocked("lane")

    run_sim(main())


def test_a_late_answer_does_not_shorten_a_parking():
    """What a store keeps is what the gate waits for: it kept less, and a host that was given up
    counted as one that will be asked again, so that the crawl did not end."""

    async def main() -> None:
        gate = Gate(SimClock(), Manners(rate=10.0, concurrency=4, block_at=2))
        assert gate.observe("lane", Outcome(Reason.RATE_LIMITED, wait=60.0)) == 60.0
        assert gate.observe("lane", Outcome(Reason.TIMEOUT, wait=5.0)) == 60.0
        assert gate.observe("lane", Outcome(Reason.OK)) == 0.0, "parks nothing"
        gate.park("other", math.inf)
        gate.observe("other", Outcome(Reason.TRUNCATED))  # It left before, and so did the next.
        assert gate.observe("other", Outcome(Reason.TIMEOUT, wait=1.0)) == math.inf

    run_sim(main())
