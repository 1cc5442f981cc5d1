"""`trawlnet ids store` as its users run it, over the queue that a crawl leaves in a workspace."""

from __future__ import annotations

import asyncio
import signal
import sqlite3
import time
from collections.abc import Sequence
from pathlib import Path

import orjson
import pytest

from tests.support.ids.sets import messages, raids
from tests.support.program import Ran, at_once, started, trawlnet
from tests.support.servers import free_port
from trawlnet.crawlers.ids.storing.backlog import Backlog
from trawlnet.crawlers.ids.storing.workers import StoringCounts
from trawlnet.observe.alerts.shapes import Alert
from trawlnet.queues.open import open_queue
from trawlnet.queues.queue import Message
from trawlnet.sim.virtual import SimClock, run_sim


def publish(workspace: Path, told: Sequence[Message]) -> None:
    async def run() -> None:
        queue = await open_queue(workspace / "spool", "instance_store")
        await queue.publish(told)
        await queue.close()

    asyncio.run(run())


def drain(workspace: Path, *more: object) -> Ran:
    return trawlnet("ids", "store", "-w", workspace, "--drain", "--json", *more)


def rows(workspace: Path, sql: str) -> list[tuple[object, ...]]:
    with sqlite3.connect(workspace / "state" / "ids" / "instances.db") as connection:
        return connection.execute(sql).fetchall()


def summary(ran: Ran) -> dict[str, object]:
    (row,) = ran.rows
    return {name: row[name] for name in ("exit_code", "stored", "repeated", "put_aside")}


def test_a_drained_queue_is_in_both_stores_and_a_second_run_changes_nothing(tmp_path: Path) -> None:
    publish(tmp_path, messages(raids(25)))
    ran = drain(tmp_path)
    assert (ran.code, ran.rows[0]["unknown_hashes"]) == (0, [4242])
    assert summary(ran) == {"exit_code": 0, "stored": 25, "repeated": 0, "put_aside": 0}
    told = rows(tmp_path, "SELECT COUNT(*), MIN(instance_id), MAX(instance_id) FROM instance")
    assert told == [(25, 1000, 1024)]
    publish(tmp_path, messages(raids(25)))
    again = trawlnet("ids", "store", "-w", tmp_path, "--drain")
    assert "stored: 0 instances (25 were already stored)" in again.err
    assert "4242" not in again.err, "it was told before"
    assert rows(tmp_path, "SELECT COUNT(*) FROM instance") == [(25,)]
    sql = "SELECT count() AS n, uniqExact(instance_id) AS ids, min(isValidJSON(raw_json)) AS json"
    asked = trawlnet("repos", "query", "-w", tmp_path, f"{sql} FROM pgcr_raw", "--json")
    assert asked.rows == [{"n": 25, "ids": 25, "json": 1}]


def test_an_empty_queue_is_drained_at_once(tmp_path: Path) -> None:
    ran = trawlnet("ids", "store", "-w", tmp_path / "new", "--drain")
    assert (ran.code, ran.out) == (0, "")
    assert "stored: 0 instances" in ran.err


def test_poison_is_put_aside_with_its_reason_and_the_exit_code_says_so(tmp_path: Path) -> None:
    publish(tmp_path, [*messages(raids(3)), {"instance": {}, "pgcr": {}}])
    ran = drain(tmp_path)
    assert ran.code == 3
    assert summary(ran) == {"exit_code": 3, "stored": 3, "repeated": 0, "put_aside": 1}
    poison = tmp_path / "spool" / "instance_store" / "instance_store.poison.jsonl"
    assert "instance_id" in orjson.loads(poison.read_bytes())["why"]
    assert drain(tmp_path).code == 0, "told once"
    publish(tmp_path, [{"instance": {}, "pgcr": {}}])
    assert f"they are in {poison}" in trawlnet("ids", "store", "-w", tmp_path, "--drain").err


def test_it_waits_for_more_until_it_is_told_to_stop(tmp_path: Path) -> None:
    with started("ids", "store", "-w", tmp_path, folder=tmp_path / "talk") as program:
        program.says("storing instance_store")
        publish(tmp_path, messages(raids(5)))
        program.until(
            lambda: rows(tmp_path, "SELECT COUNT(*) FROM instance") == [(5,)], "five instances"
        )
        busy = drain(tmp_path)
        assert busy.code == 11 and "in use" in busy.error["error"]
        program.tell(signal.SIGTERM)
        ran = program.ended()
    assert ran.code == 130
    assert "stopped, saved: 5 instances" in ran.err
    assert summary(drain(tmp_path)) == {"exit_code": 0, "stored": 0, "repeated": 0, "put_aside": 0}


@pytest.mark.parametrize(
    ("flag", "value"),
    [
        ("--postgres", "postgresql://someone:secret@127.0.0.1:{port}/ids"),
        ("--queue", "amqp://someone:secret@127.0.0.1:{port}/"),
        ("--clickhouse-address", "127.0.0.1:{port}"),
    ],
)
def test_a_server_that_is_not_there_is_named_without_its_password(
    tmp_path: Path, flag: str, value: str
) -> None:
    port = free_port()
    ran = drain(tmp_path, flag, value.format(port=port))
    assert ran.code == 12
    assert str(port) in ran.error["error"] and ran.error["hint"]
    assert "secret" not in ran.err + ran.out


def test_status_says_how_much_waits_and_since_when(tmp_path: Path) -> None:
    publish(tmp_path, messages(raids(5)))
    first = at_once("ids", "status", "-w", tmp_path, "--json").rows[0]
    assert (first["queue_depth"], first["seconds_behind"]) == (5, None), "nobody has stored yet"
    assert drain(tmp_path).code == 0
    stored = at_once("ids", "status", "-w", tmp_path, "--json").rows[0]
    assert (stored["queue_depth"], stored["seconds_behind"]) == (0, 0.0)
    publish(tmp_path, messages(raids(7)))
    time.sleep(0.2)  # It is told in tenths of a second.
    behind = at_once("ids", "status", "-w", tmp_path, "--json").rows[0]
    assert behind["queue_depth"] == 7
    assert 0.0 < behind["seconds_behind"] < 600.0


def test_storing_that_falls_behind_or_puts_aside_is_told(tmp_path: Path) -> None:
    async def run() -> list[str]:
        told = Told()
        queue = await open_queue(tmp_path / "spool", "instance_store")
        await queue.publish(messages(raids(3)))
        tally, clock = StoringCounts(), SimClock()
        backlog = Backlog(queue, tally, told, clock, tmp_path / "store.json")
        await backlog.look()
        await clock.sleep(601.0)
        await backlog.look()
        tally.put_aside = 1
        await backlog.look()
        await queue.close()
        empty = Backlog(
            await open_queue(tmp_path / "other", "instance_store"),
            tally,
            told,
            clock,
            tmp_path / "store.json",
            _behind=True,
            _put_aside=1,
        )
        assert empty.empty_at == 0.0, "the last run has left it"
        await empty.look()
        await empty.queue.close()
        return [alert.title for alert in told.alerts]

    assert run_sim(run()) == ["store behind", "messages put aside", "store behind: over"]


class Told:
    def __init__(self) -> None:
        self.alerts: list[Alert] = []

    def tell(self, alert: Alert) -> None:
        self.alerts.append(alert)

    async def close(self) -> None:
        """Nothing is left."""
