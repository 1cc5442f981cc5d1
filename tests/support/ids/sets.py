"""The two sets of a queue, tables and a ClickHouse that ids can be stored in, for tests."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psycopg

from tests.support.clickhouse_front import ClickHouse, clickhouse_front
from tests.support.ids.made_reports import KINGS_FALL, entry, report
from tests.support.servers import PostgresServer, RabbitServer, postgres_server, rabbitmq_server
from trawlnet.crawlers.ids.pgcr.processor import process, store_message
from trawlnet.crawlers.ids.storing.workers import StoreLimits, Storing, StoringCounts
from trawlnet.net.clock import SystemClock
from trawlnet.queues.open import open_queue
from trawlnet.queues.queue import Message, Queue, QueueOptions
from trawlnet.tables.clickhouse.open import opened
from trawlnet.tables.clickhouse.ports import Query
from trawlnet.tables.clickhouse.server import ClickHouseServer
from trawlnet.tables.instances.instance import Instance
from trawlnet.tables.instances.instances import opened_instances
from trawlnet.tables.relational.database import Relational, Statement

SINGLE = ("instance", "instance_player", "instance_character", "instance_weapon")
SUMMED = ("player", "player_stats", "player_first_clear", "instance_sherpa")


@dataclass(frozen=True)
class StoreSet:
    """Where everything is; another process can read it from a file."""

    queue: str
    store: str
    tables: str = ""  # Folder of the embedded engine; else the server below is meant.
    address: str = ""
    password: str = ""
    database: str = ""
    name: str = "instance_store"

    @property
    def raw(self) -> Path | ClickHouseServer:
        if self.tables:
            return Path(self.tables)
        return ClickHouseServer(self.address, password=self.password, database=self.database)

    @property
    def instances(self) -> Path | str:
        return self.store if "://" in self.store else Path(self.store)

    def save(self, file: Path) -> None:
        file.write_text(json.dumps(asdict(self)))

    @staticmethod
    def load(file: Path) -> StoreSet:
        return StoreSet(**json.loads(file.read_text()))

    @asynccontextmanager
    async def opened_queue(self) -> AsyncIterator[Queue]:
        queue = await open_queue(self.queue, self.name, QueueOptions(poll=0.02))
        try:
            yield queue
        finally:
            await queue.close()

    async def publish(self, messages: Sequence[Message]) -> None:
        async with self.opened_queue() as queue:
            await queue.publish(messages)

    async def drain(self, limits: StoreLimits | None = None) -> StoringCounts:
        async with (
            opened_instances(self.instances) as db,
            opened(self.raw) as tables,
            self.opened_queue() as queue,
        ):
            job = Storing(db, tables, SystemClock(), asyncio.Event(), limits)
            await job.run(queue, drain=True)
            return job.done

    async def raw_rows(self) -> list[tuple[int, str]]:
        """Every row, also those that a merge would leave out."""
        async with opened(self.raw) as tables:
            rows = await tables.rows(Query("all", "SELECT instance_id, raw_json FROM pgcr_raw"))
        return sorted((instance, text) for instance, text in rows)

    async def contents(self) -> dict[str, list[tuple[Any, ...]]]:
        async with opened_instances(self.instances) as db:
            return {name: await table(db, name) for name in (*SINGLE, *SUMMED)}


async def table(db: Relational, name: str) -> list[tuple[Any, ...]]:
    rows = await db.rows(Statement("all", f"SELECT * FROM {name}"))
    return sorted(rows, key=repr)


async def ask(db: Relational, sql: str) -> list[tuple[Any, ...]]:
    return await db.rows(Statement("asked", sql))


@dataclass(frozen=True)
class Servers:
    rabbit: RabbitServer
    postgres: PostgresServer
    clickhouse: ClickHouse


@contextmanager
def store_servers(folder: Path) -> Iterator[Servers]:
    with (
        rabbitmq_server() as rabbit,
        postgres_server() as postgres,
        clickhouse_front(folder) as clickhouse,
    ):
        yield Servers(rabbit, postgres, clickhouse)


def embedded_set(folder: Path) -> StoreSet:
    return StoreSet(str(folder / "spool"), str(folder / "instances.db"), str(folder / "tables"))


def served_set(servers: Servers) -> StoreSet:
    """New databases and a new queue on servers that many tests share."""
    name = f"ids_{secrets.token_hex(4)}"
    with psycopg.connect(servers.postgres.url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    clickhouse = servers.clickhouse
    return StoreSet(
        servers.rabbit.url,
        servers.postgres.url.rpartition("/")[0] + f"/{name}",
        address=clickhouse.address,
        password=clickhouse.password,
        database=name,
        name=name,
    )


def raids(count: int, first: int = 1000) -> list[dict[str, Any]]:
    """Reports of a few people who meet again and again, in several activities, not all to the
    end; ids do not follow the order of time."""
    made = []
    for number in range(count):
        hour = number * 7 % 240
        people = [
            entry(1 + (number * step) % 11, completed=int(number % 5 > 0)) for step in (1, 2, 3)
        ]
        people = list({e["characterId"]: e for e in people}.values())
        for one in people:
            one["values"]["activityDurationSeconds"]["basic"]["value"] = 1000 + number * 37 % 500
        made.append(
            report(
                *people,
                instance=first + number,
                activity=(KINGS_FALL, 2964135793, 4242)[number % 3],
                period=f"2024-03-{1 + hour // 24:02}T{hour % 24:02}:00:00Z",
                activityWasStartedFromBeginning=number % 4 > 0,
            )
        )
    return made


def messages(raws: Sequence[dict[str, Any]]) -> list[Message]:
    return [store_message(raw) for raw in raws]


def instances(raws: Sequence[dict[str, Any]]) -> list[Instance]:
    return [process(raw) for raw in raws]
