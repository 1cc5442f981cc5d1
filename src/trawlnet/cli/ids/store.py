"""`trawlnet ids store`: the queue workers that put what a crawl has published into tables."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

from trawlnet.cli.common.errors import Exit
from trawlnet.cli.common.flags import Folder, Json, flag
from trawlnet.cli.common.output import emit, now_and_then, say
from trawlnet.cli.common.sections import load_section
from trawlnet.cli.common.verb import RUNS, Verb
from trawlnet.cli.common.workspace import Workspace, create, shown
from trawlnet.cli.crawl.alerting import refuse_bad_webhook, sending_alerts
from trawlnet.cli.crawl.run import check_address, exporting
from trawlnet.cli.crawl.signals import stop_event
from trawlnet.cli.crawl.steering import beside
from trawlnet.cli.repos.plc import CLICKHOUSE
from trawlnet.crawlers.ids.config import IdsConfig, PresetName
from trawlnet.crawlers.ids.storing.backlog import Backlog
from trawlnet.crawlers.ids.storing.locations import instances_place, queue_place
from trawlnet.crawlers.ids.storing.messages import ITEM, REPORT
from trawlnet.crawlers.ids.storing.workers import StoreLimits, Storing, StoringCounts
from trawlnet.crawlers.tables_place import tables_place
from trawlnet.engine.ports import Clock
from trawlnet.net.clock import SystemClock
from trawlnet.net.redact import redact
from trawlnet.observe.alerts.shapes import Webhook
from trawlnet.observe.logs.writer import logging_to
from trawlnet.observe.metrics.ids import StoreMeter
from trawlnet.queues.open import open_queue
from trawlnet.queues.queue import Queue
from trawlnet.tables.clickhouse.open import opened
from trawlnet.tables.instances.instances import opened_instances, unknown_hashes

_KEYS = (
    "preset",
    "queue",
    "postgres",
    "store",
    *CLICKHOUSE,
    "webhook",
    "webhook_shape",
    "metrics_address",
)
_MOST_UNKNOWN = 20  # Hashes that are listed at the end.
_LOOKED_AT = 10_000  # Hashes that are read at the start, to tell which are new.

Drain = Annotated[bool, flag("--drain", "End when the queue is empty.")]
# TRAWLNET_IDS_WORKERS sets the workers of the crawl.
Workers = Annotated[
    int,
    flag(
        "--workers N", "Batches stored at the same time.", min=1, max=16, allow_from_autoenv=False
    ),
]


def store(
    *,
    workspace: Folder,
    drain: Drain = False,
    workers: Workers = 2,
    json: Json = False,
    flags: Mapping[str, Any],
) -> int:
    """Store what a crawl has published: processed rows, and each raw report.

    Runs beside a crawl until it is stopped. A kill at any instant loses nothing, and storing an
    item twice changes nothing. Messages that cannot be parsed go to the poison queue.
    """
    config = load_section(Workspace(workspace, "ids"), IdsConfig, flags).config
    refuse_bad_webhook(Webhook(config.webhook, config.webhook_shape))
    if config.metrics_address:
        check_address(config.metrics_address)
    logs = create(workspace, "ids").logs
    with logging_to(logs, f"ids_store-{datetime.now(UTC):%Y%m%dT%H%M%SZ}", say):
        return asyncio.run(_store(config, workspace, drain, workers, json))


async def _store(config: IdsConfig, path: Path, drain: bool, workers: int, as_json: bool) -> int:
    clock = SystemClock()
    begun = clock.now()
    kind = ITEM if config.preset is PresetName.JSON else REPORT
    source, target = queue_place(config, path), instances_place(config, path)
    async with (
        opened_instances(target) as db,
        opened(tables_place(config, path)) as tables,
    ):
        known = set(await unknown_hashes(db, _LOOKED_AT))
        queue = await open_queue(source, kind.queue)
        try:
            with stop_event("storing the messages that were read") as stop:
                say(f"storing {kind.queue} of {_shown(source)} in {_shown(target)}")
                job = Storing(db, tables, clock, stop, StoreLimits(workers=workers), kind)
                async with _watched(config, path, queue, job.done, clock):
                    await job.run(queue, drain=drain, on_progress=now_and_then(clock, _line))
            put_aside = (await queue.counts()).poisoned
        finally:
            await queue.close()
        unknown = await unknown_hashes(db, _LOOKED_AT)
    code = Exit.INTERRUPTED if stop.is_set() else Exit.GIVEN_UP if put_aside else Exit.DONE
    poison = _poison(source, kind.queue)
    seconds = clock.now() - begun
    ended = _StoreSummary(kind.what, job.done, put_aside, poison, unknown, known, seconds, code)
    (_emit if as_json else _say)(ended)
    return code


@asynccontextmanager
async def _watched(
    config: IdsConfig, path: Path, queue: Queue, tally: StoringCounts, clock: Clock
) -> AsyncIterator[None]:
    """Export figures and send alerts of the storing inside."""
    webhook = Webhook(config.webhook, config.webhook_shape)
    async with sending_alerts("ids", webhook, clock) as alerts:
        place = Workspace(path, "ids").store_figures
        backlog = Backlog(queue, tally, alerts, clock, place)
        meter = StoreMeter(backlog.figures)
        async with exporting(meter.text, config.metrics_address), beside(backlog.watch()):
            yield
        await backlog.look()


@dataclass(frozen=True, slots=True)
class _StoreSummary:
    what: str
    tally: StoringCounts
    put_aside: int
    poison: str  # The place of messages that could not be parsed.
    unknown: list[int]
    known_before: set[int]  # Unknown hashes that were stored before this run.
    seconds: float
    code: Exit


def _emit(ended: _StoreSummary) -> None:
    row: dict[str, Any] = {"event": "summary", "exit_code": int(ended.code)}
    row |= {"stored": ended.tally.stored, "repeated": ended.tally.repeated}
    row |= {"put_aside": ended.put_aside, "unknown_hashes": ended.unknown[:_MOST_UNKNOWN]}
    emit(row | {"seconds": round(ended.seconds, 3)})


def _say(ended: _StoreSummary) -> None:
    tally, rate = ended.tally, ended.tally.stored / max(ended.seconds, 0.001)
    say(
        f"{'stopped, saved' if ended.code is Exit.INTERRUPTED else 'stored'}: "
        f"{tally.stored:,} {ended.what} ({tally.repeated:,} were already stored), {rate:,.0f}/s"
    )
    if fresh := [one for one in ended.unknown if one not in ended.known_before]:
        named = ", ".join(map(str, fresh[:_MOST_UNKNOWN]))
        say(f"unknown activity hashes, stored and flagged: {named}")
    if ended.put_aside:
        count = f"{ended.put_aside:,} messages could not be parsed as {ended.what}"
        say(f"hint: {count}; they are in {ended.poison}")


def _line(tally: StoringCounts, seconds: float) -> str:
    rate = (tally.stored + tally.repeated) / seconds
    return f"store: {tally.stored:,} stored, {rate:,.0f}/s, {tally.put_aside:,} in the poison queue"


def _poison(source: str | Path, queue: str) -> str:
    if isinstance(source, Path):
        return shown(source / queue / f"{queue}.poison.jsonl")
    return f"the queue {queue}.poison"


def _shown(place: str | Path) -> str:
    return shown(place) if isinstance(place, Path) else redact(place)


STORE = Verb(store, "ids store -w ./net --drain", RUNS, "ids", IdsConfig, _KEYS, hidden=("store",))
