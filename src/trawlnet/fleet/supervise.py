"""Keep a fleet at its plan: as many shards as it says, until all of them together are done."""

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
_WEIGH_EVERY: Final = 5.0  # Seconds between two looks at who has how much left,
_MOVED_FOR: Final = 60.0  # and after lanes have moved: they must not go to and fro.
_SILENT: Final = 3.0  # Times that a shard stands: one that is silent for so long is replaced.
# Seconds that a process may need until its first beat, on a busy machine; the next one in its place
# has twice as long, up to the last.
_BEGINS: Final = 60.0
_BEGINS_AT_MOST: Final = 960.0
_PATIENCE: Final = 600.0  # Seconds without Redis or the object store after which we give up.


class Runtime(Protocol):
    """Where shards run; it restarts those that die."""

    def ensure(self, shard: int) -> None:
        """It runs, or is about to. Raises what made it give up."""

    def replace(self, shard: int) -> None:
        """Let go of one that does not answer, and start another."""

    def release(self, shard: int) -> None:
        """It is no longer needed."""


class Composing(Protocol):
    """What becomes of the parts that shards have put."""

    async def compose(self, *, everything: bool) -> int:
        """List what is complete, as far as it is worth it, or all of it. Returns how much."""

    async def sweep(self) -> int:
        """Delete what counts no more. Returns how much."""


@dataclass(frozen=True, slots=True)
class Seen:
    """A look at the fleet, for whoever shows it."""

    plan: FleetPlan
    shards: Statuses
    counts: Counts


async def _never(seen: Seen) -> bool:
    return False


@dataclass(frozen=True, slots=True)
class Command:
    """What the supervisor works with."""

    keys: FleetKeys
    store: Ledger
    composer: Composing
    runtime: Runtime
    clock: Clock
    stands: float  # Seconds that a shard stands without a beat.
    show: Callable[[Seen], None]
    # Whether a limit of the whole crawl was reached, such as so many pages.
    enough: Callable[[Seen], Awaitable[bool]] = _never


async def begin(
    keys: FleetKeys,
    shards: int,
    crawler: str = "repos",
    expected: Loads = _NOTHING,
    over: Collection[Word] = (Word.DONE,),
) -> FleetPlan:
    """Start a crawl, or go on with one that did not end with a word of `over`; a new one is shared
    out by what is expected in each bucket. Raises NotReady for another's keys."""
    plan = await keys.plan()
    if plan.crawler not in ("", crawler):
        raise NotReady(
            f"this Redis holds a fleet of {plan.crawler}, not of {crawler}",
            "give each crawl a database of its own: redis://HOST:PORT/1",
        )
    run, moved, now = plan.run, plan.moved, shards
    if plan.word in over:
        run, moved = plan.run + 1, balanced(expected, shards, ())
    elif plan.asked == shards:
        now = plan.shards  # The same command again: whoever has scaled the crawl meant it.
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
    """Returns why it ended, when every shard has let go and what they put is composed."""
    watch = _Watch(command)
    word = await watch.until_told()
    await watch.until_gone()
    await _patiently(command, lambda: command.composer.compose(everything=True))
    await _patiently(command, command.composer.sweep)
    return word


def is_done(seen: Seen) -> bool:
    """Every source is told whole, and nothing is left that can be done now.

    The shards were looked at before the counts: once its source is dry, a shard adds work only by
    settling work, which is counted as open until then.
    """
    told = is_at_work(seen) and all(seen.shards[shard]["dry"] for shard in range(seen.plan.shards))
    return told and seen.counts.open == seen.counts.blocked


def is_at_work(seen: Seen) -> bool:
    """Every shard of the plan stands, and has heard of it."""
    return all(
        shard in seen.shards and seen.shards[shard]["version"] == seen.plan.version
        for shard in range(seen.plan.shards)
    )


class _Watch:
    def __init__(self, command: Command) -> None:
        self._command = command
        self._heard: dict[int, float] = {}  # Shard -> when it last stood.
        self._stood: set[int] = set()  # Those that stood since they were started.
        self._begins: dict[int, float] = {}  # How long one may begin, where one took too long.
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
        """Those that were told to end have ended; of a dead one the time is over."""
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
        """Give shards that would be idle some of what others have too much of."""
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
        """One that is only beginning must not be replaced by one that begins again, and then
        again: where beginning takes longer than we wait, nobody would ever stand."""
        silent = _SILENT * self._command.stands
        return silent if shard in self._stood else max(silent, self._begins.get(shard, _BEGINS))


async def _patiently(command: Command, ask: Callable[[], Awaitable[T]]) -> T:
    """Servers that go away come back: ask again, for a while."""
    begun = command.clock.now()
    while True:
        try:
            return await ask()
        except (StoreUnreachable, SinkUnreachable, ObjectsError) as trouble:
            if command.clock.now() - begun > _PATIENCE:
                raise
            log.warning("supervisor waits", extra={"error": trouble.message})
            await command.clock.sleep(_LOOK_EVERY)
