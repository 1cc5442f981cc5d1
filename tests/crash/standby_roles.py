"""Members of a fleet that keeps up with ids, for the nursery: sound ones, and a broken one."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.crash import ids_roles
from trawlnet.crawlers.ids.storing.publish import QueueingSink
from trawlnet.engine.task import Task
from trawlnet.fleet.ids import run_member
from trawlnet.fleet.shard import ShardJob
from trawlnet.net.clock import SystemClock
from trawlnet.queues.rabbitmq import RabbitQueue


async def sound(folder: Path) -> None:
    """Active or on standby, until it is killed or dismissed. Tells what it is about to publish."""
    given = json.loads((folder / "config.json").read_text())
    publish, write = RabbitQueue.publish, QueueingSink.write

    def note(what: str) -> None:
        with (folder / "published.log").open("a") as file:
            file.write(f"{os.getpid()} {what}\n")

    async def published(self: RabbitQueue, messages: Sequence[Any]) -> None:
        note("publishes")
        await publish(self, messages)

    async def written(self: QueueingSink, batch: Sequence[tuple[Task, Sequence[Any]]]) -> None:
        note("begins")  # Before it has looked whether it may.
        await write(self, batch)
        note("ends")

    RabbitQueue.publish = published  # type: ignore[method-assign]
    QueueingSink.write = written  # type: ignore[method-assign]
    # As many members as there are processes: a number tells them apart in `holders`.
    stands, scratch = given["shard_timeout"], str(folder)
    job = ShardJob(os.getpid(), "ids", given, stands, scratch)
    await run_member(job, SystemClock())


async def settle_first(folder: Path) -> None:
    """Breaks "settled implies durable": the ledger says done, then the queue is written."""
    ids_roles.break_order()
    await sound(folder)


ROLES = {"sound": sound, "settle_first": settle_first}
