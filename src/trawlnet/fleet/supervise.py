"""The supervisor of a fleet: keeps as many shards running as the plan says, until all are done."""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, Protocol, TypeVar

from trawlnet.crawlers.errors import NotReady
from trawlnet.engine.ports import Clock, Counts, Ledger
from trawlnet.fleet.balance import Loads, balanced, moves_worth_it
from trawlnet.fleet.history import FleetHistory, figures_of
from trawlnet.storage.errors import SinkUnreachable
from trawlnet.storage.s3 import ObjectsError
from trawlnet.stores.errors import StoreUnreachable
from trawlnet.stores.redis.fleet.shards import FleetKeys, FleetPlan, Word

log = logging.getLogger(__name__)

T = TypeVar("T")
Statuses = Mapping[int, Mapping[str, Any]]

_NOTHING: Loads = MappingProxyType({})
_LOOK_EVERY: Final = 0.5  # Seconds.
_COMPOSE_EVERY: Final = 10.0
_WEIGH_EVERY: Final = 5.0  # Seconds between two comparisons of the shards' loads.
_MOVED_FOR: Final = 60.0  # Seconds until the next after a move, so that lanes do not oscillate.
_SILENT: Final = 3.0  # Multiples of the ttl after which a silent shard is replaced.
# Seconds that a process may take to its first heartbeat on a busy machine: the first value, then
# twice as long for each replacement, up to the last value.
_BEGINS: Final = 60.0
_BEGINS_AT_MOST: Final = 960.0
_PATIENCE: Final = 600.0  # Seconds without Redis or the object store after which it gives up.


class Runtime(Protocol):
    """Runs shards, and restarts those that die."""

    def ensure(self, shard: int) -> None:
        """Start the shard unless it runs. Raises the error that ended it."""

    def replace(self, shard: int) -> None:
        """Abandon a shard that does not answer, and start another."""

    def release(self, shard: int) -> None:
        """Stop a shard that is no longer needed."""


class Composing(Protocol):
    """Composes the parts that shards have uploaded."""

    async def compose(self, *, everything: bool) -> int:
        """List complete results if there are enough of them, or all. Returns how many."""

    async def sweep(self) -> int:
        """Delete superseded parts. Returns how many."""


@dataclass(frozen=True, slots=True)
class Seen:
    """A snapshot of the fleet, for display."""

    plan: FleetPlan
    shards: Statuses
    counts: Counts


async def _never(seen: Seen) -> bool:
    return False


@dataclass(frozen=True, slots=True)
class Command:
    """The parts of a supervisor."""

    keys: FleetKeys
    store: Ledger
    composer: Composing
    runtime: Runtime
    clock: Clock
    stands: float  # Seconds without a heartbeat after which a shard is replaced (the ttl).
    show: Callable[[Seen], None]
    # Whether a limit of the whole crawl was reached, such as a number of pages.
    enough: Callable[[Seen], Awaitable[bool]] = _never


async def begin(
    keys: FleetKeys,
    shards: int,
    crawler: str = "repos",
    expected: Loads = _NOTHING,
    over: Collection[Word] = (Word.DONE,),
) -> FleetPlan:
    """Start a crawl, or continue one that did not end with a word of `over`; a new one is
    distributed by the expected load of each bucket. Raises NotReady for keys of another crawler."""
    plan = await keys.plan()
    if plan.crawler not in ("", crawler):
        raise NotReady(
            f"this Redis holds a fleet of {plan.crawler}, not of {crawler}",
            "use one database for each crawl: redis://HOST:PORT/1",
        )
    run, moved, now = plan.run, plan.moved, shards
    if plan.word in over:
        run, moved = plan.run + 1, balanced(expected, shards, ())
    elif plan.asked == shards:
        now = plan.shards  # The same command again: `fleet scale` overrides its number.
    await keys.window.wish(paused=False)
    return await keys.change(
        run=run,
        shards=now,
        word=Word.RUN,
        crawler=crawler,
        moved=json.dumps(moved),
        asked=shards,
    )


async def supervise(command: Command) -> Word:
    """Run until every shard has ended and its parts are composed; returns why it ended."""
    watch = _Watch(command)
    word = await watch.until_told()
    await watch.until_gone()
    await _patiently(command, lambda: command.composer.compose(everything=True))
    await _patiently(command, command.composer.sweep)
    return word


def is_done(seen: Seen) -> bool:
    """Whether every source is exhausted, and no open task can be done now.

    The shards were read before the counts: once its source is exhausted, a shard adds tasks only by
    settling tasks, which count as open until then.
    """
    dry = is_at_work(seen) and all(seen.shards[shard]["dry"] for shard in range(seen.plan.shards))
    return dry and seen.counts.open == seen.counts.blocked


def is_at_work(seen: Seen) -> bool:
    """Whether every shard of the plan is alive, and has received the plan."""
    return all(
        shard in seen.shards and seen.shards[shard]["version"] == seen.plan.version
        for shard in range(seen.plan.shards)
    )


class _Watch:
    def __init__(self, command: Command) -> None:
        self._command = command
        self._heard: dict[int, float] = {}  # Shard -> the time of its last heartbeat.
        self._stood: set[int] = set()  # Shards with a heartbeat since they were started.
        self._begins: dict[int, float] = {}  # Shard -> its longer start-up time after a failure.
        self._composed = command.clock.now()
        self._weighed = command.clock.now()
        self._history = FleetHistory()

    async def until_told(self) -> Word:
        command = self._command
        while True:
            seen = await _patiently(command, self._look)
            command.show(seen)
            await _patiently(command, lambda: self._remember(seen))  # noqa: B023 - called now.
            if seen.plan.word is not Word.RUN:
                return seen.plan.word
            if is_done(seen):
                return await self._end(Word.DONE)
            if await _patiently(command, lambda: command.enough(seen)):  # noqa: B023 - called now.
                return await self._end(Word.LIMIT)
            self._keep(seen)
            await _patiently(command, lambda: self._balance(seen))  # noqa: B023 - called now.
            if command.clock.now() - self._composed > _COMPOSE_EVERY:
                await _patiently(command, lambda: command.composer.compose(everything=False))
                self._composed = command.clock.now()
            await command.clock.sleep(_LOOK_EVERY)

    async def _end(self, word: Word) -> Word:
        plan = await _patiently(self._command, lambda: self._command.keys.end(word))
        return plan.word

    async def until_gone(self) -> None:
        """Wait until the shards have ended, or the leases of dead ones are over."""
        command = self._command
        while (seen := await _patiently(command, self._look)).shards:
            command.show(seen)
            await command.clock.sleep(_LOOK_EVERY)

    async def _look(self) -> Seen:
        keys = self._command.keys
        plan = await keys.plan()
        shards = await keys.statuses()
        return Seen(plan, shards, await self._command.store.counts())

    async def _remember(self, seen: Seen) -> None:
        window, now = self._command.keys.window, self._command.clock.now()
        await self._history.add(window, now, figures_of(seen.counts, list(seen.shards.values())))

    async def _balance(self, seen: Seen) -> None:
        """Move lanes from loaded shards to those that would be idle."""
        plan, keys, now = seen.plan, self._command.keys, self._command.clock.now()
        if now < self._weighed or plan.shards == 1 or not is_at_work(seen):
            return
        self._weighed = now + _WEIGH_EVERY
        rate = max(row["rate"] for row in seen.shards.values())
        moved = moves_worth_it(await keys.waiting(), plan.shards, plan.moved, rate)
        if moved is not None and await keys.move(plan, moved) is not None:
            log.info("lanes move", extra={"buckets": len(set(moved) ^ set(plan.moved))})
            self._weighed = now + _MOVED_FOR

    def _keep(self, seen: Seen) -> None:
        now, runtime = self._command.clock.now(), self._command.runtime
        for shard in range(seen.plan.shards):
            if shard in seen.shards:
                self._heard[shard] = now
                self._stood.add(shard)
                self._begins.pop(shard, None)
            if now - self._heard.setdefault(shard, now) > self._patience(shard):
                log.warning("shard replaced", extra={"shard": shard})
                self._heard[shard] = now
                if shard not in self._stood:
                    longer = 2.0 * self._begins.get(shard, _BEGINS)
                    self._begins[shard] = min(longer, _BEGINS_AT_MOST)
                self._stood.discard(shard)
                runtime.replace(shard)
            runtime.ensure(shard)
        for shard in [one for one in self._heard if one >= seen.plan.shards]:
            if shard not in seen.shards:
                del self._heard[shard]
                self._stood.discard(shard)
                runtime.release(shard)

    def _patience(self, shard: int) -> float:
        """The start-up time that a shard may take. It grows with each replacement: otherwise, where
        starting takes longer, shards would be replaced for ever and none would run."""
        silent = _SILENT * self._command.stands
        return silent if shard in self._stood else max(silent, self._begins.get(shard, _BEGINS))


async def _patiently(command: Command, ask: Callable[[], Awaitable[T]]) -> T:
    """Ask again for a while when a server does not answer."""
    begun = command.clock.now()
    while True:
        try:
            return await ask()
        except (StoreUnreachable, SinkUnreachable, ObjectsError) as trouble:
            if command.clock.now() - begun > _PATIENCE:
                raise
            log.warning("supervisor waits", extra={"error": trouble.message})
            await command.clock.sleep(_LOOK_EVERY)
