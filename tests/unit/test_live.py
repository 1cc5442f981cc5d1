"""What a crawl tells whoever looks, and what it does not do while nobody does."""

from __future__ import annotations

import asyncio
import json
import math
import os
from pathlib import Path
from typing import Any

import pytest

from trawlnet.engine.gate import Gate, LaneColumns
from trawlnet.engine.outcome import Outcome, Reason
from trawlnet.engine.rules import Manners
from trawlnet.observe.history import read_history
from trawlnet.observe.lane_table import LaneTable, read_table
from trawlnet.observe.lanes import LaneCondition
from trawlnet.observe.live import HISTORY, LANES, LIVE, ORDERS, WATCHED, Live, give_order
from trawlnet.observe.progress import Phase, Snapshot

NOW = 1_790_000_000.0


class SetClock:
    def __init__(self) -> None:
        self.time = NOW

    def now(self) -> float:
        return self.time

    async def sleep(self, seconds: float) -> None:
        self.time += seconds


class CountingGate(Gate):
    looks = 0

    def columns(self, most: int) -> LaneColumns:
        self.looks += 1
        return super().columns(most)


class Crawl:
    """A crawl that counts how often it is asked."""

    def __init__(self, folder: Path, lanes: int = 3) -> None:
        folder.mkdir(exist_ok=True)
        self.folder, self.clock = folder, SetClock()
        self.snapshots = 0
        self.retried: list[Reason | None] = []
        self.phase = Phase.RUNNING
        self.gate = CountingGate(self.clock, Manners(rate=1.0))
        for n in range(lanes):
            # With manners of its own, so that it is not forgotten.
            self.gate.treat(f"h{n}", Manners(rate=2.0))
        self.live = Live(folder, self.clock, self.take, self.gate, self.retry, dict)

    async def take(self) -> Snapshot:
        self.snapshots += 1
        return Snapshot(
            "web", self.phase, 1.0, 10, 10, 5, 0, 15, 12, 2.0, None, {Reason.TIMEOUT: 2}, 1, 8,
            {LaneCondition.HEALTHY: 3}, (), (), 1 << 20, {"pages": 10},
        )  # fmt: skip

    async def retry(self, reason: Reason | None) -> int:
        self.retried.append(reason)
        return 1

    def watch(self) -> None:
        (self.folder / WATCHED).touch()
        os.utime(self.folder / WATCHED, (self.clock.time, self.clock.time))

    def look(self, seconds: int = 1) -> None:
        for _ in range(seconds):
            asyncio.run(self.live.look())
            self.clock.time += 1.0

    @property
    def told(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.folder / LIVE).read_bytes())
        return found

    @property
    def table(self) -> LaneTable:
        return read_table((self.folder / LANES).read_bytes())


@pytest.fixture
def crawl(tmp_path: Path) -> Crawl:
    return Crawl(tmp_path / "web")


def test_while_nobody_looks_only_the_history_is_kept(crawl: Crawl) -> None:
    crawl.look(60)
    assert crawl.snapshots == 6
    assert crawl.gate.looks == 0
    assert not (crawl.folder / LIVE).exists()
    assert len(read_history(crawl.folder / HISTORY, 0.0)) == 6


def test_while_somebody_looks_everything_is_told_each_second(crawl: Crawl) -> None:
    crawl.look()
    crawl.watch()
    crawl.look(5)
    assert crawl.told["at"] == NOW + 5
    assert crawl.told["errors"] == {"timeout": 2}
    assert crawl.told["figures"]["pages"] == 10
    assert [row.lane for row in crawl.table.rows] == ["h0", "h1", "h2"]
    crawl.look(20)
    assert crawl.told["at"] < NOW + 12


def test_the_more_lanes_there_are_the_more_seldom_they_are_told(tmp_path: Path) -> None:
    crawl = Crawl(tmp_path / "web", lanes=6000)
    crawl.watch()
    crawl.look(8)
    assert crawl.gate.looks == 2
    assert len(crawl.table.rows) == 5000
    assert crawl.table.left_out == 1000


def test_a_lane_is_told_with_what_holds_it_up(tmp_path: Path) -> None:
    crawl = Crawl(tmp_path / "web", lanes=0)
    gate, names = crawl.gate, ["a", "b", "c\x1b[2J", "d\ud800"]
    for name in names:
        gate.park(name, 0.0)
    gate.treat("a", Manners(rate=math.inf))
    gate.observe("b", Outcome(Reason.RATE_LIMITED, wait=60.04))
    gate.observe("b", Outcome(Reason.TIMEOUT))
    for _ in range(10):
        gate.observe(names[2], Outcome(Reason.TIMEOUT))
    gate.observe("d\ud800", Outcome(Reason.TIMEOUT))
    crawl.watch()
    crawl.look()
    free, parked, blocked, slowed = crawl.table.rows
    assert free.rate is None
    assert (parked.condition, parked.parked_until, parked.why) == (
        "parked",
        NOW + 60.0,
        "rate_limited",
    )
    assert (blocked.condition, blocked.parked_until, blocked.lane) == ("blocked", None, "c?[2J")
    assert blocked.last_failure == "timeout"
    assert (slowed.condition, slowed.failures, slowed.lane) == ("slowed", 1, "d?")


def test_the_end_is_told_whether_somebody_looks_or_not(crawl: Crawl) -> None:
    crawl.phase = Phase.ENDED
    asyncio.run(crawl.live.look(last=True))
    assert crawl.told["state"] == "ended"
    assert crawl.told["pid"] == os.getpid()


def test_orders_are_obeyed_once_and_nonsense_is_thrown_away(crawl: Crawl) -> None:
    give_order(crawl.folder, "b", Reason.TIMEOUT)
    give_order(crawl.folder, "c", None)
    for name, text in (("a", "{torn"), ("d", '{"order": "erase", "reason": null}'), ("e", "[]")):
        (crawl.folder / ORDERS / f"{name}.json").write_text(text)
    (crawl.folder / ORDERS / "f.json").write_text('{"order": "retry", "reason": "whim"}')
    crawl.look(3)
    assert crawl.retried == [Reason.TIMEOUT, None]
    assert list((crawl.folder / ORDERS).iterdir()) == []


def test_a_disk_that_takes_nothing_does_not_end_the_telling(crawl: Crawl) -> None:
    (crawl.folder / LIVE).mkdir()
    crawl.watch()

    async def run() -> None:
        async with asyncio.timeout(60):
            task = asyncio.create_task(crawl.live.run())
            while crawl.snapshots < 3:
                await asyncio.sleep(0)
                crawl.watch()
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    asyncio.run(run())
    assert crawl.snapshots >= 3
