"""How long servers are waited for: an alarm that is set anew for each wait."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trawlnet.net.client.patience import Alarm, Patience
from trawlnet.sim.virtual import run_sim


def calls_of(waits: list[tuple[float, float]]) -> list[float]:
    """When the alarm called, for waits that take so long and may take so long."""

    async def run() -> list[float]:
        loop = asyncio.get_running_loop()
        called: list[float] = []
        alarm = Alarm(lambda: called.append(loop.time()))
        for takes, may_take in waits:
            alarm.set(loop.time() + may_take)
            await asyncio.sleep(takes)
            alarm.set(float("inf"))
        await asyncio.sleep(1000.0)
        return called

    return run_sim(run())


def test_a_wait_that_ends_in_time_is_not_disturbed_nor_is_the_next() -> None:
    assert calls_of([(1.0, 2.0)] * 10) == []


def test_a_shorter_patience_than_the_last_is_kept_to() -> None:
    assert calls_of([(1.0, 300.0), (10.0, 2.0)]) == [pytest.approx(3.0, abs=0.002)]


@given(st.lists(st.tuples(st.floats(0.01, 50.0), st.floats(0.01, 50.0)), max_size=8))
def test_it_calls_for_each_wait_that_lasts_too_long_and_at_its_instant(
    waits: list[tuple[float, float]],
) -> None:
    begun, due = 0.0, []
    for takes, may_take in waits:
        if abs(takes - may_take) < 0.01:
            return  # Either is fine.
        if takes > may_take:
            due.append(begun + may_take)
        begun += takes
    assert calls_of(waits) == pytest.approx(due, abs=0.002)


def test_a_stopped_alarm_does_not_call_and_can_be_set_again() -> None:
    async def run() -> list[float]:
        loop = asyncio.get_running_loop()
        called: list[float] = []
        alarm = Alarm(lambda: called.append(loop.time()))
        alarm.set(5.0)
        alarm.stop()
        await asyncio.sleep(10.0)
        alarm.set(20.0)
        await asyncio.sleep(100.0)
        return called

    assert run_sim(run()) == [pytest.approx(20.0, abs=0.002)]


def test_what_one_wait_has_used_up_the_next_has_not() -> None:
    async def run() -> float:
        patience = Patience(10.0)
        async with patience:
            await asyncio.sleep(7.0)
        with pytest.raises(TimeoutError, match="no end within 10 s"):
            async with patience:
                await asyncio.sleep(7.0)
        return asyncio.get_running_loop().time()

    assert run_sim(run()) == pytest.approx(10.0)
