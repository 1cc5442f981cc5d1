"""What commands that run a fleet share: its servers, signals, what is shown, how it ended."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any

from trawlnet.cli.ending import given_up_on
from trawlnet.cli.errors import Exit
from trawlnet.cli.fleet_show import fleet_line, fleet_row
from trawlnet.cli.signals import interruptible
from trawlnet.cli.status import status_row
from trawlnet.cli.talk import emit, listed, say
from trawlnet.engine.ports import Counts
from trawlnet.fleet.supervise import Seen
from trawlnet.net.clock import SystemClock
from trawlnet.observe.render import duration
from trawlnet.store.redis import RedisStore
from trawlnet.store.redis_fleet import FleetKeys, Plan, Word

_SHOW_EVERY = 5.0  # Seconds.


@asynccontextmanager
async def servers(redis: str) -> AsyncIterator[tuple[FleetKeys, RedisStore]]:
    keys = await FleetKeys.open(redis)
    try:
        store = await RedisStore.open(redis)
        try:
            yield keys, store
        finally:
            await store.close()
    finally:
        await keys.close()


@contextmanager
def steered_by_signals(keys: FleetKeys) -> Iterator[None]:
    """Once drains the fleet, twice stops it at once; nothing is lost either way."""
    loop = asyncio.get_running_loop()
    changes: set[asyncio.Task[Any]] = set()

    def tell(word: Word) -> None:
        changes.add(loop.create_task(keys.change(word=word)))

    def first() -> str:
        tell(Word.DRAIN)
        return "the fleet finishes what is in flight"

    with interruptible(first, lambda: tell(Word.STOP)):
        yield


def say_scaled(plan: Plan, asked: int) -> None:
    if plan.shards != asked:
        say(f"the fleet was scaled to {plan.shards} shards and keeps them")
        say(f"hint: change it with: trawlnet fleet scale {asked}")


class Show:
    """A line now and then, or an object."""

    def __init__(self, as_json: bool) -> None:
        self._as_json = as_json
        self._clock = SystemClock()
        self._next = 0.0

    def look_at(self, seen: Seen) -> None:
        if self._clock.now() < self._next:
            return
        self._next = self._clock.now() + _SHOW_EVERY
        if self._as_json:
            emit({"event": "progress"} | fleet_row(seen))
        else:
            say(fleet_line(seen))


@dataclass(frozen=True, slots=True)
class Ended:
    """How a fleet ended."""

    crawler: str
    word: Word
    counts: Counts
    seconds: float

    @property
    def code(self) -> Exit:
        if self.word is Word.LIMIT:
            return Exit.LIMIT
        if self.word is not Word.DONE:
            return Exit.INTERRUPTED
        return Exit.GIVEN_UP if given_up_on(self.counts) else Exit.DONE

    @property
    def story(self) -> str:
        told = listed(self.counts.settled)
        return f"{_ENDINGS[self.word]} after {duration(self.seconds)}: {told}"


def sum_up(ended: Ended, archive: Mapping[str, int], words: str, as_json: bool) -> None:
    """`archive` are figures of the manifest, `words` the same in words."""
    if not as_json:
        say(ended.story)
        say(words)
        if given_up := given_up_on(ended.counts):
            verb = f"trawlnet {ended.crawler} failures --store redis://HOST:PORT/DB"
            say(f"hint: {given_up:,} given up on; list them: {verb}")
        return
    row: dict[str, Any] = {"event": "summary", "ending": ended.word, "exit_code": int(ended.code)}
    row |= {"seconds": round(ended.seconds, 3), "given_up": given_up_on(ended.counts)}
    emit(row | {"archive": archive} | status_row(ended.crawler, ended.counts))


_ENDINGS = {
    Word.DONE: "done",
    Word.LIMIT: "stopped at a limit, saved,",
    Word.DRAIN: "interrupted, saved,",
    Word.STOP: "stopped, saved,",
    Word.RUN: "left",
}
