"""The system's clock, through a change of the wall clock and through the sleep of the machine."""

from __future__ import annotations

import time

import pytest

from trawlnet.net.clock import SystemClock


class Machine:
    """Its three clocks."""

    def __init__(self) -> None:
        self.wall, self.awake, self.started = 1_700_000_000.0, 50.0, 80.0

    def clock_gettime(self, which: int) -> float:
        return self.started if which == time.CLOCK_BOOTTIME else self.awake


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    machine = Machine()
    monkeypatch.setattr(time, "time", lambda: machine.wall)
    monkeypatch.setattr(time, "monotonic", lambda: machine.awake)
    monkeypatch.setattr(time, "clock_gettime", machine.clock_gettime)
    return machine


@pytest.mark.skipif(not hasattr(time, "CLOCK_BOOTTIME"), reason="only Linux has this clock")
def test_time_goes_on_while_the_machine_sleeps(machine: Machine) -> None:
    """Others took the lease of a shard over meanwhile: it must not act on it when it wakes."""
    clock = SystemClock()
    began = clock.now()
    assert began == machine.wall
    machine.wall += 3600.0
    machine.started += 3600.0
    assert clock.now() - began == 3600.0


def test_a_wall_clock_that_is_put_right_moves_nothing(machine: Machine) -> None:
    clock = SystemClock()
    began = clock.now()
    machine.wall -= 7200.0
    assert clock.now() == began
