"""One process is active, others stand by: whoever holds the office works, under a token."""

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

_BEATS: Final = 5  # In the time that an office stands without one.
_MANNERS: Final = 1.0  # Seconds: the budget that the one before us had used is over then.


class LeaderFenced(StoreError):
    """Everybody was told to end, those who stand by as well."""

    def __init__(self) -> None:
        super().__init__("the crawl was told to end", "go on: run the same command again")


@dataclass(frozen=True, slots=True)
class Leadership:
    """What there is one holder of at a time."""

    store: str = field(repr=False)  # URL of Redis.
    prefix: str
    stands: float  # Seconds without a beat after which its holder is replaced.
    member: int = 0  # Which one of those that a fleet keeps; for it to know them apart.

    @property
    def name(self) -> str:
        """Of this process, among those who stand by."""
        return f"{socket.gethostname()}:{os.getpid()}:{self.member}"


class LeaderEpoch:
    """From the claim to the end, kept by beats. `figures` and `control` are set once there are
    any, to be told at the next beat."""

    def __init__(
        self, office: Leadership, keys: FleetKeys, waiting: StandbyKeys, clock: Clock
    ) -> None:
        self._office = office
        self._keys = keys
        self._waiting = waiting
        self._clock = clock
        self.tenure = ShardLease(keys, 0, office.stands, clock)
        self.figures: Callable[[], Mapping[str, Any]] = dict
        self.control: Control | None = None
        self._beats: asyncio.Task[None] | None = None

    @property
    def mandate(self) -> ShardOwnership:
        return ShardOwnership(self.tenure.token, self.tenure.barred_until, self.tenure.may_put)

    async def claim(self, on_wait: Callable[[Mapping[str, Any]], None], *, begin: bool) -> None:
        """Wait until the office is ours, and be seen waiting. With `begin` it is opened to all if
        it was closed. Raises Dismissed."""
        claiming = asyncio.create_task(self._claimed(begin))
        noting = asyncio.create_task(self._wait_visibly(on_wait))
        try:
            await asyncio.wait((claiming, noting), return_when=asyncio.FIRST_COMPLETED)
            before = claiming.result() if claiming.done() else noting.result()
        finally:
            await _ended(noting, claiming)
            await self._waiting.leave(self._office.name)
        self._beats = asyncio.create_task(self._beat())
        log.info("lease taken", extra={"token": self.tenure.token, "before": list(before)})
        if before:
            await self._clock.sleep(min(_MANNERS, self._office.stands / 2))

    async def watch(self, control: Control) -> None:
        """Beside the crawl: ends it when the office is lost."""
        self.control = control
        assert self._beats is not None, "it was claimed"
        await asyncio.shield(self._beats)

    async def end(self) -> None:
        """Whoever stands by need not wait until our time is over."""
        if self._beats is None:
            return
        is_lost = self._beats.done()
        await _ended(self._beats)
        if not is_lost:
            await self.tenure.release()

    async def _claimed(self, begin: bool) -> Sequence[str]:
        before = None
        while before is None:
            before = await self.tenure.claim(await self._open_plan(begin), ())
            begin = False  # Who closes it later means us, too.
        return before

    async def _open_plan(self, begin: bool) -> FleetPlan:
        plan = await self._keys.plan()
        if plan.word is Word.RUN:
            return plan
        if not begin:
            raise LeaderFenced
        return await self._keys.change(run=plan.run + 1, shards=1, word=Word.RUN)

    async def _wait_visibly(self, on_wait: Callable[[Mapping[str, Any]], None]) -> NoReturn:
        """Seen in `status`; `on_wait` hears of the active process whenever that is another."""
        office, before = self._office, ""
        while True:
            active = (await self._keys.statuses()).get(0)
            if active is not None:
                await self._waiting.wait(office.name, _whereabouts(office), office.stands)
                if active["token"] != before:
                    before = str(active["token"])
                    on_wait(active)
            await self._clock.sleep(office.stands / _BEATS)

    async def _beat(self) -> None:
        while True:
            beat = await self.tenure.beat(self._status())
            if beat.plan.word is not Word.RUN and self.control is not None:
                self.control.drain()
            await self._clock.sleep(self._office.stands / _BEATS)

    def _status(self) -> dict[str, Any]:
        control = self.control or Control(0)
        return {
            "token": self.tenure.token,
            **_whereabouts(self._office),
            "dry": False,
            "draining": control.ending is not None,
            "in_flight": control.figures.in_flight,
            "attempts": sum(control.figures.tally.values()),
            "settled": {str(reason): count for reason, count in control.figures.settled.items()},
            "rate": round(control.figures.window.rate(self._clock.now()), 2),
            **self.figures(),
        }


async def _ended(*tasks: asyncio.Task[Any]) -> None:
    """Whatever they died of was told to somebody who waited for it, or comes up again."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


def _whereabouts(office: Leadership) -> dict[str, Any]:
    return {"node": socket.gethostname(), "pid": os.getpid(), "member": office.member}


@asynccontextmanager
async def in_office(
    office: Leadership,
    clock: Clock,
    on_wait: Callable[[Mapping[str, Any]], None] = lambda active: None,
    *,
    begin: bool = True,
) -> AsyncIterator[LeaderEpoch]:
    """Waits, perhaps for long; `on_wait` hears for whom. Raises Dismissed, and what Redis does."""
    keys = await FleetKeys.open(office.store, shard=0, prefix=office.prefix)
    waiting = StandbyKeys(office.store, office.prefix)
    term = LeaderEpoch(office, keys, waiting, clock)
    try:
        await term.claim(on_wait, begin=begin)
        yield term
    finally:
        try:
            await term.end()
        except StoreUnreachable as error:
            # It runs out by itself.
            log.warning("lease not released", extra={"error": error.message})
        await waiting.close()
        await keys.close()


@dataclass(frozen=True, slots=True)
class Holders:
    """Who works and who waits, for whoever looks."""

    plan: FleetPlan
    active: Mapping[str, Any] | None
    standbys: list[Mapping[str, Any]]


async def holders(store: str, prefix: str) -> Holders:
    async with watching(store, prefix) as look:
        return await look()


@asynccontextmanager
async def watching(store: str, prefix: str) -> AsyncIterator[Callable[[], Awaitable[Holders]]]:
    """To look again and again; the look raises StateLost when the keys of the first one are gone,
    which else would look like an office that was closed."""
    keys, waiting = await FleetKeys.open(store, prefix=prefix), StandbyKeys(store, prefix)

    async def look() -> Holders:
        active = (await keys.statuses()).get(0)
        return Holders(await keys.plan(), active, await waiting.waiting())

    try:
        yield look
    finally:
        await waiting.close()
        await keys.close()
