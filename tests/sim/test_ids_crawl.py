"""A crawl of ids over real sockets: its budget, its crew, and what people put back."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.ids.world import FIRST, busiest_second, config, marks, published
from tests.support.program import at_once
from trawlnet.crawlers.ids.build import open_parts
from trawlnet.crawlers.ids.config import IdsConfig, limits
from trawlnet.crawlers.ids.ledger.askers import PendingRequest
from trawlnet.crawlers.ids.ledger.open_ledger import ledger_to_write
from trawlnet.crawlers.ids.model import Ask, LedgerEntry, LedgerMark, Purpose
from trawlnet.engine.control import Control, Ending
from trawlnet.engine.crawl import crawl
from trawlnet.engine.outcome import Reason, Receipt
from trawlnet.engine.task import Task
from trawlnet.net.clock import SystemClock
from trawlnet.observe.metrics.crawl import CrawlMetrics
from trawlnet.sim.ids import Cap, IdState, TimeSpan, Traffic, serve_ids

CALM = Traffic(
    seed=2,
    rate=50.0,
    wave=0.0,
    delay=0.2,
    delay_spread=0.1,
    late_share=0.0,
    raid_share=0.5,
    hole_share=0.01,
    blemish_share=0.02,
)


async def run(
    tmp_path: Path, traffic: Traffic, age: float, **more: object
) -> tuple[Ending, Control, Path]:
    """Crawl a served world until a limit; the server's log is whole when this returns."""
    clock, log = SystemClock(), tmp_path / "server.log"
    world = await serve_ids(
        1, manifest=tmp_path / "m.json", clock=clock, traffic=traffic, age=age, log=log
    )
    given = IdsConfig(**config(world.base_url, **more))
    control = Control(given.first_workers)
    try:
        async with open_parts(given, tmp_path / "w", clock, CrawlMetrics("ids", clock)) as parts:
            ending = await crawl(parts, limits(given), control)
    finally:
        await world.close()
    return ending, control, log


@pytest.mark.slow
@pytest.mark.parametrize("scaling", ["adaptive", "classic"])
def test_no_second_sees_more_requests_than_the_budget(scaling: str, tmp_path: Path) -> None:
    ending, control, log = asyncio.run(
        run(tmp_path, CALM, 500.0, max_rps=60.0, max_seconds=4.0, scaling=scaling, max_workers=30)
    )
    assert ending is Ending.LIMIT
    assert control.shown_workers <= 30, "those that run beside the crew are not counted"
    assert len(log.read_text().splitlines()) >= 10
    assert busiest_second(log) <= 60


@pytest.mark.slow
def test_every_id_of_a_backlog_is_stored_once(tmp_path: Path) -> None:
    last = FIRST + 300
    asyncio.run(run(tmp_path, CALM, 30.0, max_rps=400.0, max_tasks=400))
    known, stored = marks(tmp_path / "w"), Counter(published(tmp_path / "w"))
    seen = [n for n in range(FIRST, last) if known.get(n) is LedgerMark.DONE]
    assert len(seen) > 250
    for number in range(FIRST, last):
        exists = CALM.state(number, 100.0) is IdState.VISIBLE
        if known.get(number) is LedgerMark.DONE:
            assert exists
            assert stored[number] == CALM.is_raid(number)
        else:
            assert stored[number] == 0


def test_a_throttled_crawl_slows_down_and_loses_nothing(tmp_path: Path) -> None:
    # So few a second that a busy machine asks for more, too.
    tight = replace(CALM, caps=(Cap(TimeSpan(0.0, 1e9), 15.0),))
    asyncio.run(run(tmp_path, tight, 30.0, max_rps=200.0, max_seconds=100.0, max_tasks=80))
    rows = [json.loads(line) for line in (tmp_path / "server.log").read_text().splitlines()]
    refused = sum(row["status"] in (429, 503) for row in rows)
    assert 0 < refused < 0.5 * len(rows)
    known, stored = marks(tmp_path / "w"), set(published(tmp_path / "w"))
    done = [number for number, mark in known.items() if mark is LedgerMark.DONE]
    assert len(done) > 20
    assert all(number in stored for number in done if tight.is_raid(number))


def test_the_crew_is_what_the_pilot_says(tmp_path: Path) -> None:
    # So few ids a second that some dozen of them tell the pilot how fast the head moves.
    slow = replace(CALM, rate=5.0)
    crew = {"workers": 60, "max_workers": 60}
    _, control, _ = asyncio.run(run(tmp_path, slow, 500.0, max_rps=20.0, max_seconds=6.0, **crew))
    assert control.workers < 60, "20 a second need no 60 workers, were each a second late"


def test_a_crawl_waits_when_nobody_stores_and_can_still_be_ended(tmp_path: Path) -> None:
    most = 30_000
    ending, _, _ = asyncio.run(
        run(tmp_path, CALM, 500.0, max_rps=100.0, max_seconds=5.0, max_spool=most)
    )
    assert ending is Ending.LIMIT
    spooled = sum(f.stat().st_size for f in (tmp_path / "w/spool/instance_store").glob("*.jsonl"))
    assert most <= spooled < 20 * most
    assert json.loads((tmp_path / "w/state/ids/now.json").read_bytes())["waits_for_room"]


def test_a_missed_id_can_be_put_back_from_the_command_line(tmp_path: Path) -> None:
    state = tmp_path / "w" / "state" / "ids"

    async def prepare() -> None:
        ledger = await ledger_to_write(IdsConfig(), state, "api.example")
        await ledger.begin(FIRST)
        asked = PendingRequest(1, "pilot", Ask(FIRST, Purpose.FIRST, 3))
        task = Task(str(FIRST), "api.example", asked.payload())
        entries = [
            LedgerEntry(FIRST, FIRST + 9, LedgerMark.DONE),
            LedgerEntry(FIRST + 9, FIRST + 10, LedgerMark.MISSED),
        ]
        await ledger.record([(Receipt(task, Reason.UNAVAILABLE, detail="why"), entries)])
        await ledger.close()

    asyncio.run(prepare())
    missed = at_once("ids", "missed", "-w", tmp_path / "w", "--json").rows
    assert [(row["id"], row["detail"]) for row in missed] == [(FIRST + 9, "why")]
    failures = at_once("ids", "failures", "-w", tmp_path / "w", "--json").rows
    assert [(row["key"], row["lane"]) for row in failures] == [(str(FIRST + 9), "api.example")]
    assert at_once("ids", "retry", "-w", tmp_path / "w", "--json").rows == [{"put_back": 1}]
    assert at_once("ids", "missed", "-w", tmp_path / "w", "--json").rows == []
    gaps = at_once("ids", "gaps", "-w", tmp_path / "w", "--json").rows
    assert [(row["start"], row["end"], row["reason"]) for row in gaps] == [
        (FIRST + 9, FIRST + 10, "pending")
    ]
