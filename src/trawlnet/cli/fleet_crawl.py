"""A crawl by many processes: start the fleet, watch over it, show it, and say how it ended."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime
from typing import Any

from trawlnet.archive.objects import s3_options
from trawlnet.cli.alerting import begun as alert_of_beginning
from trawlnet.cli.alerting import ended as alert_of_end
from trawlnet.cli.alerting import refuse_bad_webhook, telling
from trawlnet.cli.errors import Exit
from trawlnet.cli.fleet_show import fleet_line, fleet_row
from trawlnet.cli.run import given_up_on
from trawlnet.cli.status import status_row
from trawlnet.cli.talk import emit, listed, say, showable
from trawlnet.cli.workspace import Workspace, shown
from trawlnet.crawlers.repos.build import given_by
from trawlnet.crawlers.repos.config import ReposConfig
from trawlnet.crawlers.repos.recheck import reopen_inactive
from trawlnet.crawlers.repos.shared import check_shareable
from trawlnet.engine.ports import Counts
from trawlnet.fleet.compose import Composer
from trawlnet.fleet.ray import ray_runtime
from trawlnet.fleet.shard import ShardJob
from trawlnet.fleet.supervise import Command, Runtime, Seen, begin, supervise
from trawlnet.net.clock import SystemClock
from trawlnet.observe.alert_shapes import Webhook
from trawlnet.observe.logs import logging_to
from trawlnet.observe.render import duration
from trawlnet.sink.objects import open_objects
from trawlnet.store.redis import RedisStore
from trawlnet.store.redis_fleet import FleetKeys, Word

log = logging.getLogger(__name__)

_SHOW_EVERY = 5.0  # Seconds.


def run_fleet(config: ReposConfig, workspace: Workspace, as_json: bool) -> int:
    """Start or continue a crawl that many shards share; returns the exit code."""
    check_shareable(config)
    given_by(config)  # What is wrong with the config is said here, not by every shard.
    refuse_bad_webhook(_webhook(config))
    s3 = s3_options(os.environ)
    name = f"{workspace.crawler}-fleet-{datetime.now(UTC):%Y%m%dT%H%M%SZ}"
    with logging_to(workspace.logs, name, say) as log_file:
        say(f"a fleet crawls into {config.archive}; log in {shown(log_file)}")
        told = showable(config.model_dump(mode="json"))
        log.info("fleet began", extra={"config": json.dumps(told)})
        with ray_runtime(config.fleet, _job(config, workspace, s3)) as runtime:
            return asyncio.run(_crawl(config, runtime, s3, as_json))


def _job(config: ReposConfig, workspace: Workspace, s3: Mapping[str, str]) -> ShardJob:
    return ShardJob(
        shard=0,
        crawler=workspace.crawler,
        # Only whoever commands the fleet tells of it: the shards need no secret for that.
        config=config.model_dump(mode="json", exclude={"webhook"}),
        store=config.redis_address,
        s3=s3,
        stands=config.shard_timeout,
        manners_gap=1.0 / min(config.min_pds_rps, config.small_pds_rps),
        scratch=str((workspace.state / "fleet").resolve()),
    )


async def _crawl(
    config: ReposConfig, runtime: Runtime, s3: Mapping[str, str], as_json: bool
) -> int:
    clock, show = SystemClock(), _Show(as_json)
    begun = clock.now()
    async with (
        telling("repos", _webhook(config), clock) as alerts,
        _servers(config) as (keys, store),
    ):
        alerts.tell(alert_of_beginning("repos", await store.counts(), begun))
        plan = await keys.plan()
        if plan.word is Word.DONE:
            await reopen_inactive(store, begun - config.recheck_inactive)
        objects = open_objects(config.archive, s3)
        composer = Composer(keys, objects, clock, config.segment_size)
        command = Command(keys, store, composer, runtime, clock, config.shard_timeout, show.look_at)
        await begin(keys, config.shards)
        with _steered_by_signals(keys):
            word = await supervise(command)
        counts, lines = await store.counts(), await keys.manifest()
        story = _story(word, counts, clock.now() - begun)
        alerts.tell(alert_of_end("repos", story, given_up_on(counts), clock.now()))
    code = _exit_code(word, counts)
    _sum_up(word, counts, lines, clock.now() - begun, code, as_json)
    return code


def _webhook(config: ReposConfig) -> Webhook:
    return Webhook(config.webhook, config.webhook_shape)


@asynccontextmanager
async def _servers(config: ReposConfig) -> AsyncIterator[tuple[FleetKeys, RedisStore]]:
    keys = await FleetKeys.open(config.redis_address)
    try:
        store = await RedisStore.open(config.redis_address)
        try:
            yield keys, store
        finally:
            await store.close()
    finally:
        await keys.close()


@contextmanager
def _steered_by_signals(keys: FleetKeys) -> Iterator[None]:
    """Once drains the fleet, twice stops it at once; nothing is lost either way."""
    loop = asyncio.get_running_loop()
    words = [Word.DRAIN, Word.STOP]
    changes: set[asyncio.Task[Any]] = set()

    def told(number: signal.Signals) -> None:
        if words:
            word = words.pop(0)
            say(f"{number.name}: the fleet is told to {word}; once more stops it at once")
            changes.add(loop.create_task(keys.change(word=word)))

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, told, number)
    try:
        yield
    finally:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.remove_signal_handler(number)


class _Show:
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


def _exit_code(word: Word, counts: Counts) -> Exit:
    if word is not Word.DONE:
        return Exit.INTERRUPTED
    return Exit.GIVEN_UP if given_up_on(counts) else Exit.DONE


def _sum_up(
    word: Word,
    counts: Counts,
    lines: list[dict[str, Any]],
    seconds: float,
    code: Exit,
    as_json: bool,
) -> None:
    archive = {"segments": len(lines), "repos": sum(line["repos"] for line in lines)}
    if as_json:
        row: dict[str, Any] = {"event": "summary", "ending": word, "exit_code": int(code)}
        row |= {"seconds": round(seconds, 3), "given_up": given_up_on(counts), "archive": archive}
        emit(row | status_row("repos", counts))
        return
    say(_story(word, counts, seconds))
    say(f"the manifest lists {archive['repos']:,} repos in {archive['segments']:,} segments")


def _story(word: Word, counts: Counts, seconds: float) -> str:
    return f"{_ENDINGS[word]} after {duration(seconds)}: {listed(counts.settled)}"


_ENDINGS = {
    Word.DONE: "done",
    Word.DRAIN: "interrupted, saved,",
    Word.STOP: "stopped, saved,",
    Word.RUN: "left",
}
