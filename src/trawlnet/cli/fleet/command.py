"""The part of a fleet that all crawlers' commands share: job, log, signals, progress, ending."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Generic, Protocol, TypeVar

from pydantic import BaseModel

from trawlnet.cli.common.errors import Exit
from trawlnet.cli.common.output import emit, listed, say
from trawlnet.cli.common.workspace import Workspace, located, shown
from trawlnet.cli.crawl.alerting import begun as alert_of_beginning
from trawlnet.cli.crawl.alerting import ended as alert_of_end
from trawlnet.cli.crawl.alerting import sending_alerts
from trawlnet.cli.crawl.ending import given_up_on
from trawlnet.cli.crawl.signals import interruptible, tasks
from trawlnet.cli.crawl.status import status_row
from trawlnet.cli.crawl.steering import beside
from trawlnet.engine.ports import Clock, Counts
from trawlnet.fleet.ray import check_installed, ray_runtime
from trawlnet.fleet.shard import ShardJob
from trawlnet.fleet.supervise import Command, Composing, Runtime, Seen, begin, supervise
from trawlnet.net.clock import SystemClock
from trawlnet.net.redact import redacted
from trawlnet.observe.alerts.shapes import Webhook, WebhookShape
from trawlnet.observe.logs.writer import logging_to
from trawlnet.observe.terminal.render import duration
from trawlnet.stores.redis.fleet.shards import FleetKeys, FleetPlan, Word
from trawlnet.stores.redis.work.store import RedisStore

log = logging.getLogger(__name__)

S = TypeVar("S")

_SHOW_EVERY = 5.0  # Seconds.
_PULSE_EVERY = 1.0


class FleetConfig(Protocol):
    """The keys that every config with a fleet has."""

    @property
    def fleet(self) -> str: ...

    @property
    def webhook(self) -> str: ...

    @property
    def webhook_shape(self) -> WebhookShape: ...


def webhook_of(config: FleetConfig) -> Webhook:
    return Webhook(config.webhook, config.webhook_shape)


@dataclass(frozen=True, slots=True)
class Start:
    """A fleet that is about to begin."""

    workspace: Workspace
    address: str  # Of Ray, or `local`.
    headline: str
    job: ShardJob


def job_of(config: BaseModel, workspace: Workspace, stands: float, **more: Any) -> ShardJob:
    """The job of each process; `more` are the fields that only some crawlers need."""
    return ShardJob(
        shard=0,
        crawler=workspace.crawler,
        # Only the command sends alerts, so that the processes need no secret.
        config=config.model_dump(mode="json", exclude={"webhook"}),
        stands=stands,
        scratch=str((workspace.state / "fleet").resolve()),
        **more,
    )


def run_with_ray(
    start: Start, config: BaseModel, crawl: Callable[[Runtime], Coroutine[Any, Any, int]]
) -> int:
    """Run the crawl's command while Ray runs its processes; returns the exit code."""
    crawler = start.workspace.crawler
    name = f"{crawler}-fleet-{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
    with logging_to(start.workspace.logs, name, say) as log_file:
        say(f"{start.headline}; log in {shown(log_file)}")
        shown_config = redacted(config.model_dump(mode="json", exclude={"seeds"}))
        log.info("fleet began", extra={"config": json.dumps(shown_config)})
        with ray_runtime(start.address, start.job) as runtime:
            return asyncio.run(_giving_signs(start.workspace, crawl(runtime)))


def run_shards(start: Start, config: BaseModel, shards: Shards, as_json: bool) -> int:
    """Run a crawl whose lanes are shared by shards; returns the exit code."""
    check_installed()
    asyncio.run(_check_servers(shards.redis))  # Ray takes seconds to start.
    return run_with_ray(start, config, lambda runtime: crawl_with_shards(shards, runtime, as_json))


async def _check_servers(redis: str) -> None:
    """Raises what is wrong with the Redis: unreachable, or written by a newer version."""
    async with servers(redis):
        pass


async def _giving_signs(workspace: Workspace, crawl: Coroutine[Any, Any, int]) -> int:
    """Touch the file that `trawlnet health` checks, while the crawl runs."""

    async def touch() -> None:
        while True:
            workspace.fleet_pulse.touch()
            await asyncio.sleep(_PULSE_EVERY)

    try:
        async with beside(touch()):
            return await crawl
    finally:
        workspace.fleet_pulse.unlink(missing_ok=True)


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
def steered_by_signals(
    change: Callable[[Word], Coroutine[Any, Any, Any]],
    on_second: Callable[[], object] | None = None,
) -> Iterator[None]:
    """The first signal drains the fleet, the second stops it; nothing is lost either way."""
    loop = asyncio.get_running_loop()
    changes: set[asyncio.Task[Any]] = set()

    def to(word: Word) -> None:
        changes.add(loop.create_task(change(word)))

    def first() -> str:
        to(Word.DRAIN)
        return "the fleet finishes its tasks in flight"

    with interruptible(first, on_second or (lambda: to(Word.STOP))):
        yield


class Show(Generic[S]):
    """Progress every few seconds: a line, or an object."""

    def __init__(
        self, as_json: bool, row: Callable[[S], Mapping[str, Any]], line: Callable[[S], str]
    ) -> None:
        self._as_json = as_json
        self._row = row
        self._line = line
        self._clock = SystemClock()
        self._next = 0.0

    def look_at(self, seen: S) -> None:
        if self._clock.now() < self._next:
            return
        self._next = self._clock.now() + _SHOW_EVERY
        if self._as_json:
            emit({"event": "progress", **self._row(seen)})
        else:
            say(self._line(seen))


@dataclass(frozen=True, slots=True)
class FleetCrawl:
    """The parts that differ between crawlers whose lanes are shared by shards."""

    composer: Composing
    reached: Callable[[Seen], Awaitable[bool]]  # Whether a limit of the whole crawl is reached.
    begin: Mapping[str, Any] = field(default_factory=dict)  # More arguments of `begin`.


@dataclass(frozen=True, slots=True)
class Shards:
    """A crawl whose lanes are shared by shards."""

    crawler: str
    redis: str
    count: int
    stands: float
    webhook: Webhook
    open: Callable[[FleetKeys, RedisStore, Clock], Awaitable[FleetCrawl]]
    counted: str  # What a line of the manifest counts: repos, captures.
    files: str  # What a line of the manifest stands for: segments, logs.
    tell_left_out: Callable[[Mapping[str, int]], list[str]] = list  # As text.


async def crawl_with_shards(shards: Shards, runtime: Runtime, as_json: bool) -> int:
    """Watch over the shards until the crawl ends; returns the exit code."""
    clock, show = SystemClock(), Show(as_json, fleet_row, fleet_line)
    begun, crawler = clock.now(), shards.crawler
    place = located({"redis_address": shards.redis})
    async with (
        sending_alerts(crawler, shards.webhook, clock) as alerts,
        servers(shards.redis) as (keys, store),
    ):
        alerts.tell(alert_of_beginning(crawler, await store.counts(), begun))
        opened = await shards.open(keys, store, clock)
        command = Command(
            keys,
            store,
            opened.composer,
            runtime,
            clock,
            shards.stands,
            show.look_at,
            opened.reached,
        )
        plan = await begin(keys, shards.count, crawler, **opened.begin)
        _say_scaled(plan, shards.count, place)
        with steered_by_signals(lambda word: keys.change(word=word)):
            word = await supervise(command)
        ended = FleetEnded(crawler, word, await store.counts(), clock.now() - begun)
        lines, left_out = await keys.manifest(), await keys.left_out()
        lost = given_up_on(ended.counts)
        alerts.tell(alert_of_end(crawler, ended.story, lost, clock.now()))
    count = sum(line[shards.counted] for line in lines)
    archive = {shards.files: len(lines), shards.counted: count}
    words = f"the manifest lists {count:,} {shards.counted} in {len(lines):,} {shards.files}"
    if as_json:
        _emit_summary(ended, archive, left_out)
    else:
        _sum_up(ended, words, shards.tell_left_out(left_out), place)
    return ended.code


def _say_scaled(plan: FleetPlan, asked: int, place: str) -> None:
    if plan.shards != asked:
        say(f"the fleet was scaled to {plan.shards} shards and keeps them")
        say(f"hint: change it with: trawlnet fleet scale {asked}{place}")


@dataclass(frozen=True, slots=True)
class FleetEnded:
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
        settled = listed(self.counts.settled)
        return f"{_ENDINGS[self.word]} after {duration(self.seconds)}: {settled}"


def _sum_up(ended: FleetEnded, archived: str, left_out: Sequence[str], place: str) -> None:
    say(ended.story)
    say(archived)
    if left_out:
        say(f"left out: {', '.join(left_out)}")
    if given_up := given_up_on(ended.counts):
        verb = f"trawlnet {ended.crawler} failures{place}"
        say(f"hint: {tasks(given_up)} given up; list with: {verb}")


def _emit_summary(
    ended: FleetEnded, archive: Mapping[str, int], left_out: Mapping[str, int]
) -> None:
    row: dict[str, Any] = {"event": "summary", "ending": ended.word, "exit_code": int(ended.code)}
    row |= {"seconds": round(ended.seconds, 3), "given_up": given_up_on(ended.counts)}
    row |= {"left_out": left_out} if left_out else {}
    emit(row | {"archive": archive} | status_row(ended.crawler, ended.counts))


_ENDINGS = {
    Word.DONE: "done",
    Word.LIMIT: "stopped at a limit, saved,",
    Word.DRAIN: "interrupted, saved,",
    Word.STOP: "stopped, saved,",
    Word.RUN: "left",
}


def fleet_row(seen: Seen) -> dict[str, Any]:
    shards = [{"shard": shard, **row} for shard, row in seen.shards.items()]
    plan = {"shards": seen.plan.shards, "word": seen.plan.word, "run": seen.plan.run}
    rate = round(sum(row["rate"] for row in shards), 2)
    return {"plan": plan, "rate": rate, "shards": shards} | status_row(
        seen.plan.crawler or "repos", seen.counts
    )


def fleet_line(seen: Seen) -> str:
    rate = sum(row["rate"] for row in seen.shards.values())
    settled = sum(seen.counts.settled.values())
    return (
        f"{len(seen.shards)} of {seen.plan.shards} shards, {seen.plan.word}: "
        f"{settled:,} settled, {seen.counts.open:,} open, {rate:,.0f} attempts/s"
    )
