"""Lanes with something in common: each keeps its own pace, and all of them the common one."""

from __future__ import annotations

import asyncio
import itertools

import pytest

from trawlnet.engine.gate import Gate, LaneParked
from trawlnet.engine.outcome import Outcome, Reason
from trawlnet.engine.rules import Manners
from trawlnet.sim.virtual import SimClock, run_sim

SERIAL = Manners(rate=1.0, concurrency=1, gap_from_end=True)


async def visit(gate: Gate, clock: SimClock, lane: str, spans: list[tuple[float, float]]) -> None:
    async with gate.turn(lane):
        begun = clock.now()
        await clock.sleep(0.5)
    spans.append((begun, clock.now()))


def test_hosts_at_one_address_leave_it_the_gap_of_one_host() -> None:
    async def main() -> list[tuple[float, float]]:
        clock = SimClock()
        gate = Gate(clock, SERIAL)
        spans: list[tuple[float, float]] = []
        for n in range(6):
            gate.share(f"host{n % 3}", "address")
        await asyncio.gather(*(visit(gate, clock, f"host{n % 3}", spans) for n in range(6)))
        return sorted(spans)

    spans = run_sim(main())
    assert len(spans) == 6
    for (_, end), (begin, _) in itertools.pairwise(spans):
        assert begin - end >= 1.0 - 1e-5


def test_a_lane_is_ready_only_when_what_it_shares_is() -> None:
    async def main() -> None:
        clock = SimClock()
        gate = Gate(clock, SERIAL)
        gate.share("a", "address")
        gate.share("b", "address")
        gate.promise("a", 1)
        assert gate.ready_at("b") == pytest.approx(1.0)
        assert gate.allowance("b", 0.0) == 0
        spans: list[tuple[float, float]] = []
        await visit(gate, clock, "a", spans)
        assert gate.ready_at("b") == pytest.approx(1.5)
        assert gate.allowance("b", 1.5) == 1

    run_sim(main())


def test_a_promise_that_is_not_kept_is_taken_back_from_both() -> None:
    async def main() -> None:
        gate = Gate(SimClock(), SERIAL)
        gate.promise("a", 1)
        gate.share("a", "address")
        gate.share("b", "address")
        gate.promised_at_most("a", 0)
        assert gate.ready_at("b") <= 0.0

    run_sim(main())


def test_trouble_of_one_host_does_not_hold_its_neighbours() -> None:
    async def main() -> None:
        clock = SimClock()
        gate = Gate(clock, SERIAL)
        gate.share("sick", "address")
        gate.share("well", "address")
        gate.observe("sick", Outcome(Reason.RATE_LIMITED, wait=600.0))
        spans: list[tuple[float, float]] = []
        await visit(gate, clock, "well", spans)
        assert spans == [(0.0, 0.5)]
        with pytest.raises(LaneParked):
            await visit(gate, clock, "sick", spans)

    run_sim(main())


def test_a_lane_parked_while_it_waits_for_the_common_one_does_not_go() -> None:
    async def main() -> None:
        clock = SimClock()
        gate = Gate(clock, SERIAL)
        gate.share("a", "address")
        gate.share("b", "address")
        spans: list[tuple[float, float]] = []
        first = asyncio.create_task(visit(gate, clock, "a", spans))
        await clock.sleep(0.1)
        second = asyncio.create_task(visit(gate, clock, "b", spans))
        await clock.sleep(0.1)
        gate.park("b", 600.0)
        with pytest.raises(LaneParked):
            await second
        await first
        assert [begun for begun, _ in spans] == [0.0]

    run_sim(main())


def test_moving_to_another_address_leaves_the_old_one_alone() -> None:
    async def main() -> None:
        clock = SimClock()
        gate = Gate(clock, SERIAL)
        gate.share("a", "old")
        gate.share("b", "old")
        gate.share("a", "new")
        spans: list[tuple[float, float]] = []
        await visit(gate, clock, "a", spans)
        assert gate.ready_at("b") <= 0.0
        assert gate.ready_at("a") == pytest.approx(1.5)

    run_sim(main())


def test_new_manners_reach_what_is_shared() -> None:
    async def main() -> None:
        clock = SimClock()
        gate = Gate(clock, SERIAL)
        gate.share("a", "address")
        gate.share("b", "address")
        gate.retune(Manners(rate=10.0, concurrency=1, gap_from_end=True))
        spans: list[tuple[float, float]] = []
        await visit(gate, clock, "a", spans)
        assert gate.ready_at("b") == pytest.approx(0.6)

    run_sim(main())


def test_slower_manners_hold_from_the_last_request_on() -> None:
    async def main() -> None:
        clock = SimClock()
        gate = Gate(clock, SERIAL)
        await visit(gate, clock, "a", [])
        gate.treat("a", Manners(rate=0.1, concurrency=1, gap_from_end=True))
        assert gate.ready_at("a") == pytest.approx(10.5)

    run_sim(main())
