"""Virtual time tells a program that never waits from one that waits."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from trawlnet.sim import virtual
from trawlnet.sim.virtual import run_sim


async def spin_in_the_loop() -> None:
    while True:
        await asyncio.sleep(0)


async def spin_over_threads() -> None:
    while True:
        await asyncio.get_running_loop().run_in_executor(None, int)


@pytest.mark.parametrize("spin", [spin_in_the_loop, spin_over_threads])
def test_who_never_waits_is_told_so(
    spin: Callable[[], Coroutine[Any, Any, None]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(virtual, "_LONGEST_INSTANT", 100)
    with pytest.raises(RuntimeError, match="time stands still"):
        run_sim(spin())


def test_who_waits_may_go_on_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(virtual, "_LONGEST_INSTANT", 100)

    async def wait() -> float:
        for _ in range(1000):
            await asyncio.sleep(1.0)
        return asyncio.get_running_loop().time()

    assert run_sim(wait()) == 1000.0


def test_who_waits_for_nothing_is_told_so() -> None:
    async def wait() -> None:
        await asyncio.Event().wait()

    with pytest.raises(RuntimeError, match="deadlock"):
        run_sim(wait())
