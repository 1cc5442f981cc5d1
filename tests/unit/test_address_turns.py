"""Turns that count for an address: who lives where is looked up seldom, and not forgotten."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from trawlnet.engine.gate import Gate
from trawlnet.engine.rules import Manners
from trawlnet.net.address import AddressTurns
from trawlnet.net.client.dial import AddressInfo, GuardedResolver, Pools, info_of
from trawlnet.net.guard import Guard
from trawlnet.net.trouble import Unresolved
from trawlnet.sim.virtual import SimClock, run_sim


class SimResolver(GuardedResolver):
    """One that knows its answers."""

    def __init__(self, addresses: dict[str, str]) -> None:
        super().__init__(Guard(), Pools(), 1.0)
        self.addresses = addresses
        self.asked: list[str] = []

    async def resolve(self, host: str, port: int = 0) -> list[AddressInfo]:
        self.asked.append(host)
        if host not in self.addresses:
            raise Unresolved(host)
        return [info_of(self.addresses[host], port)]


def visits(
    addresses: dict[str, str],
    act: Callable[[AddressTurns, SimResolver], Coroutine[Any, Any, None]],
    proxy_for: Callable[[str], str | None] = lambda host: None,
) -> SimResolver:
    resolver = SimResolver(addresses)

    async def run() -> None:
        gate = Gate(SimClock(), Manners(rate=1.0, concurrency=1))
        await act(AddressTurns(gate, SimClock(), resolver, proxy_for), resolver)

    run_sim(run())
    return resolver


async def instants(turns: AddressTurns, *lanes: str) -> list[float]:
    """When a request on each lane may start, all of them begun at once."""
    loop = asyncio.get_running_loop()
    began = loop.time()

    async def one(lane: str) -> float:
        async with turns.turn(lane):
            return loop.time() - began

    return await asyncio.gather(*(one(lane) for lane in lanes))


_MANY = 10_000  # Lanes; the gate keeps fewer that are idle.
HERE = {"a.example": "192.0.2.1", "b.example": "192.0.2.1", "c.example": "192.0.2.2"}


def test_hosts_at_one_address_take_turns_however_often_they_are_asked() -> None:
    async def act(turns: AddressTurns, resolver: SimResolver) -> None:
        for _ in range(5):
            times = await instants(turns, "a.example", "b.example", "c.example")
            assert [round(time, 3) for time in times] == [0.0, 1.0, 0.0]
            await asyncio.sleep(5.0)

    resolver = visits(HERE, act)
    assert resolver.asked == ["a.example", "b.example", "c.example"]


def test_a_lane_that_the_gate_has_forgotten_shares_its_address_again() -> None:
    async def act(turns: AddressTurns, resolver: SimResolver) -> None:
        await instants(turns, "a.example", "b.example")
        await asyncio.sleep(60.0)
        for number in range(_MANY):
            turns.turn(f"{number}.example")
        times = await instants(turns, "a.example", "b.example")
        assert [round(time, 3) for time in times] == [0.0, 1.0]

    visits(HERE, act)


def test_a_host_is_looked_up_again_when_that_was_long_ago_and_may_have_moved() -> None:
    async def act(turns: AddressTurns, resolver: SimResolver) -> None:
        await instants(turns, "a.example", "c.example")
        resolver.addresses = HERE | {"c.example": "192.0.2.1"}
        await asyncio.sleep(3600.0)
        times = await instants(turns, "a.example", "c.example")
        assert [round(time, 3) for time in times] == [0.0, 1.0]

    resolver = visits(HERE, act)
    assert resolver.asked == ["a.example", "c.example"] * 2


def test_a_host_that_cannot_be_looked_up_any_more_stays_where_it_was() -> None:
    async def act(turns: AddressTurns, resolver: SimResolver) -> None:
        await instants(turns, "a.example", "b.example")
        resolver.addresses = {}
        await asyncio.sleep(3600.0)
        assert await turns.address_of("b.example") == "192.0.2.1"
        times = await instants(turns, "a.example", "b.example")
        assert [round(time, 3) for time in times] == [0.0, 1.0]

    visits(HERE, act)


def test_an_unknown_host_is_not_looked_up_for_each_request() -> None:
    async def act(turns: AddressTurns, resolver: SimResolver) -> None:
        for _ in range(5):
            assert await instants(turns, "gone.example") == [0.0]
            await asyncio.sleep(2.0)

    assert visits(HERE, act).asked == ["gone.example"]


def test_literal_addresses_and_hosts_behind_a_proxy_are_not_looked_up() -> None:
    async def act(turns: AddressTurns, resolver: SimResolver) -> None:
        times = await instants(turns, "192.0.2.7:81", "192.0.2.7:82", "a.example", "b.example")
        assert [round(time, 3) for time in times] == [0.0, 1.0, 0.0, 0.0]

    def proxy_for(host: str) -> str | None:
        return "http://proxy.example" if host.endswith("example") else None

    assert visits(HERE, act, proxy_for).asked == []
