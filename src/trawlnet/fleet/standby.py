"""Leader and standbys: one process is active, under a token, and the others wait to take over."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final, NoReturn

from trawlnet.crawlers.share import ShardOwnership
from trawlnet.engine.control import Control
from trawlnet.engine.ports import Clock
from trawlnet.fleet.lease import ShardLease
from trawlnet.stores.errors import StoreError, StoreUnreachable
from trawlnet.stores.redis.fleet.shards import FleetKeys, FleetPlan, Word
from trawlnet.stores.redis.standby import StandbyKeys

log = logging.getLogger(__name__)

_BEATS: Final = 5  # Heartbeats within the ttl of the leadership.
_MANNERS: Final = 1.0  # Seconds after which the rate budget that the predecessor used is free.


class LeaderFenced(StoreError):
    """A command ended the crawl, for the standbys, too."""

    def __init__(self) -> None:
        super().__init__("the crawl was ended by a command", "to continue, run it again")


@dataclass(frozen=True, slots=True)
class Leadership:
    """The leadership of one crawl, which one process holds at a time."""

    store: str = field(repr=False)  # URL of Redis.
    prefix: str
    stands: float  # Seconds without a beat after which the holder is replaced (the ttl).
    member: int = 0  # The number of this process in its fleet.

    @property
    def name(self) -> str:
        """The name of this process among the standbys."""
        return f"{socket.gethostname()}:{os.getpid()}:{self.member}"


class LeaderEpoch:
    """The leadership from its claim to its end, renewed by heartbeats. `figures` and `control` are
    set once the crawl runs; the next heartbeat reports them."""

    def __init__(
        self, leadership: Leadership, keys: FleetKeys, waiting: StandbyKeys, clock: Clock
    ) -> None:
        self._leadership = leadership
        self._keys = keys
        self._waiting = waiting
        self._clock = clock
        self.lease = ShardLease(keys, 0, leadership.stands, clock)
        self.figures: Callable[[], Mapping[str, Any]] = dict
        self.control: Control | None = None
        self._beats: asyncio.Task[None] | None = None

    @property
    def ownership(self) -> ShardOwnership:
        return ShardOwnership(self.lease.token, self.lease.barred_until, self.lease.may_put)

    async def claim(self, on_wait: Callable[[Mapping[str, Any]], None], *, begin: bool) -> None:
        """Wait, listed as a standby, until this process is the leader. With `begin`, a crawl that a
        command ended is opened again; without it, raises LeaderFenced."""
        claiming = asyncio.create_task(self._claimed(begin))
        noting = asyncio.create_task(self._wait_visibly(on_wait))
        try:
            await asyncio.wait((claiming, noting), return_when=asyncio.FIRST_COMPLETED)
            before = claiming.result() if claiming.done() else noting.result()
        finally:
            await _ended(noting, claiming)
            await self._waiting.leave(self._leadership.name)
        self._beats = asyncio.create_task(self._beat())
        log.info("lease taken", extra={"token": self.lease.token, "before": list(before)})
        if before:
            await self._clock.sleep(min(_MANNERS, self._leadership.stands / 2))

    async def watch(self, control: Control) -> None:
        """Run beside the crawl, and end it when the leadership is lost."""
        self.control = control
        assert self._beats is not None, "it was claimed"
        await asyncio.shield(self._beats)

    async def end(self) -> None:
        """Release the lease, so that a standby need not wait for its end."""
        if self._beats is None:
            return
        is_lost = self._beats.done()
        await _ended(self._beats)
        if not is_lost:
            await self.lease.release()

    async def _claimed(self, begin: bool) -> Sequence[str]:
        before = None
        while before is None:
            before = await self.lease.claim(await self._open_plan(begin), ())
            begin = False  # A command that ends the crawl from now on counts for us, too.
        return before

    async def _open_plan(self, begin: bool) -> FleetPlan:
        plan = await self._keys.plan()
        if plan.word is Word.RUN:
            return plan
        if not begin:
            raise LeaderFenced
        return await self._keys.change(run=plan.run + 1, shards=1, word=Word.RUN)

    async def _wait_visibly(self, on_wait: Callable[[Mapping[str, Any]], None]) -> NoReturn:
        """List this process as a standby, for `status`; calls `on_wait` with each new leader."""
        leadership, before = self._leadership, ""
        while True:
            active = (await self._keys.statuses()).get(0)
            if active is not None:
                await self._waiting.wait(leadership.name, _process(leadership), leadership.stands)
                if active["token"] != before:
                    before = str(active["token"])
                    on_wait(active)
            await self._clock.sleep(leadership.stands / _BEATS)

    async def _beat(self) -> None:
        while True:
            beat = await self.lease.beat(self._status())
            if beat.plan.word is not Word.RUN and self.control is not None:
                self.control.drain()
            await self._clock.sleep(self._leadership.stands / _BEATS)

    def _status(self) -> dict[str, Any]:
        control = self.control or Control(0)
        return {
            "token": self.lease.token,
            **_process(self._leadership),
            "dry": False,
            "draining": control.ending is not None,
            "in_flight": control.figures.in_flight,
            "attempts": sum(control.figures.tally.values()),
            "settled": {str(reason): count for reason, count in control.figures.settled.items()},
            "rate": round(control.figures.window.rate(self._clock.now()), 2),
            **self.figures(),
        }


async def _ended(*tasks: asyncio.Task[Any]) -> None:
    """Cancel the tasks and drop their errors: the caller has them already, or meets them again."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _process(leadership: Leadership) -> dict[str, Any]:
    return {"node": socket.gethostname(), "pid": os.getpid(), "member": leadership.member}


@asynccontextmanager
async def leading(
    leadership: Leadership,
    clock: Clock,
    on_wait: Callable[[Mapping[str, Any]], None] = lambda active: None,
    *,
    begin: bool = True,
) -> AsyncIterator[LeaderEpoch]:
    """Wait for the leadership, and hold it inside; `on_wait` is called with the present leader.
    Raises LeaderFenced, and the errors of Redis."""
    keys = await FleetKeys.open(leadership.store, shard=0, prefix=leadership.prefix)
    waiting = StandbyKeys(leadership.store, leadership.prefix)
    term = LeaderEpoch(leadership, keys, waiting, clock)
    try:
        await term.claim(on_wait, begin=begin)
        yield term
    finally:
        try:
            await term.end()
        except StoreUnreachable as error:
            # The lease ends by itself.
            log.warning("lease not released", extra={"error": error.message})
        await waiting.close()
        await keys.close()


@dataclass(frozen=True, slots=True)
class Holders:
    """The active process and the standbys, for display."""

    plan: FleetPlan
    active: Mapping[str, Any] | None
    standbys: list[Mapping[str, Any]]


async def holders(store: str, prefix: str) -> Holders:
    async with watching(store, prefix) as look:
        return await look()


@asynccontextmanager
async def watching(store: str, prefix: str) -> AsyncIterator[Callable[[], Awaitable[Holders]]]:
    """Yield a function that reads the holders; it raises StateLost if the keys of its first call
    are gone, which would otherwise look like a crawl that a command ended."""
    keys, waiting = await FleetKeys.open(store, prefix=prefix), StandbyKeys(store, prefix)

    async def look() -> Holders:
        active = (await keys.statuses()).get(0)
        return Holders(await keys.plan(), active, await waiting.waiting())

    try:
        yield look
    finally:
        await waiting.close()
        await keys.close()
