"""A snapshot tells the truth, a line of it reads well, and no lane name gets out of its box."""

from __future__ import annotations

import asyncio
import io
import json
import math
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from trawlnet.engine.control import Control, Ending
from trawlnet.engine.crawl import Feed, Limits, Parts, crawl
from trawlnet.engine.gate import Gate
from trawlnet.engine.outcome import Outcome, Reason
from trawlnet.engine.ports import Page
from trawlnet.engine.rules import Manners, RetryPolicy
from trawlnet.engine.task import Task
from trawlnet.net.clock import SystemClock
from trawlnet.observe.lanes import LaneCondition, shown
from trawlnet.observe.metrics.crawl import CrawlMetrics
from trawlnet.observe.progress import LaneLook, Phase, ProgressMeter, Snapshot
from trawlnet.observe.terminal.block import block
from trawlnet.observe.terminal.render import duration, json_line, plain_line, size
from trawlnet.observe.terminal.view import Style, showing
from trawlnet.sim.virtual import SimClock, run_sim
from trawlnet.stores.memory import MemoryStore

HOSTILE = "\x1b]0;owned\x07\x1b[2J[bold red]x[/]\r\n\u202egro.live\u0301\ud800" + "a" * 5000

SNAP = Snapshot(
    crawler="repos",
    phase=Phase.RUNNING,
    elapsed=65.4,
    done=1200,
    done_this_run=900,
    open=300,
    blocked=7,
    known=1500,
    attempts=960,
    rate=18.46,
    eta=16.2,
    errors={Reason.NOT_FOUND: 20, Reason.TIMEOUT: 3},
    in_flight=12,
    workers=50,
    lanes={
        LaneCondition.HEALTHY: 40,
        LaneCondition.SLOWED: 0,
        LaneCondition.PARKED: 2,
        LaneCondition.BLOCKED: 1,
    },
    held=[
        LaneLook("dead.example", LaneCondition.BLOCKED, "timeout", math.inf, 0.5, 10, 0.0),
        LaneLook("busy.example", LaneCondition.PARKED, "rate_limited", 12.3, 5.0, 0, 0.0),
    ],
    slow=[LaneLook("slow.example", LaneCondition.HEALTHY, "", 0.0, 5.0, 0, 75.0)],
    memory=48 << 20,
)


def test_the_plain_line_is_this_one() -> None:
    assert plain_line(SNAP) == (
        "repos running 1m05s: 1,200 done, 300 open, 18.5/s, eta 16s; 12/50 workers; "
        "errors: not_found 20, timeout 3; hosts: 2 parked, 1 blocked; 48 MB"
    )


def test_what_a_run_brings_in_is_shown() -> None:
    snap = replace(SNAP, yields={"repos": 1200, "records": 3, "bytes": 5 << 20, "segments": 1})
    words = "1,200 repos, 3 records, 5 MB, 1 segments"
    assert words in plain_line(snap)
    assert words in rendered(snap)
    assert json.loads(json_line(snap))["yields"]["bytes"] == 5 << 20


def test_a_quiet_crawl_has_a_short_line() -> None:
    quiet = replace(SNAP, errors={}, lanes={LaneCondition.HEALTHY: 3}, eta=None, memory=0)
    assert plain_line(quiet) == ("repos running 1m05s: 1,200 done, 300 open, 18.5/s; 12/50 workers")


def test_the_json_line_is_valid_json_even_where_a_wait_has_no_end() -> None:
    told = json.loads(json_line(replace(SNAP, eta=None)))
    assert told["eta_s"] is None
    assert told["held"][0] == {
        "lane": "dead.example",
        "state": "blocked",
        "why": "timeout",
        "wait_s": None,
        "rate_per_s": 0.5,
        "failures": 10,
        "longest_s": 0.0,
    }
    assert told["errors"] == {"not_found": 20, "timeout": 3}


def test_the_block_tells_lanes_and_why() -> None:
    text = rendered(SNAP)
    assert "dead.example  blocked  10 failures in a row; waits for a retry" in squeezed(text)
    assert "busy.example  parked  rate_limited, for another 12s" in squeezed(text)
    assert "slow.example  healthy  one task takes 1m15s so far" in squeezed(text)


def squeezed(text: str) -> str:
    return "\n".join("  ".join(part.strip() for part in row.split("  ") if part.strip())
                     for row in text.splitlines())  # fmt: skip


def rendered(snap: Snapshot) -> str:
    out = io.StringIO()
    Console(file=out, width=120, force_terminal=False).print(block(snap))
    return out.getvalue()


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.4, "0s"),
        (59.9, "59s"),
        (60, "1m00s"),
        (3725, "1h02m"),
        (90_000, "1d01h"),
        (8_640_000, "100d"),
        (2e9, "63y"),
        (1e15, "9999y"),
    ],
)
def test_durations_have_two_units_at_most(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_sizes_are_short() -> None:
    assert [size(n) for n in (0, 2048, 5 << 20, 3 << 30)] == ["0 B", "2 KB", "5 MB", "3 GB"]


@given(st.text(max_size=300))
def test_what_a_stranger_wrote_is_short_and_printable(text: str) -> None:
    safe = shown(text, 60)
    assert len(safe) <= 60
    assert safe.isprintable() or not safe
    assert shown(safe, 60) == safe


def test_a_hostile_lane_name_reaches_no_renderer_whole() -> None:
    async def main() -> Snapshot:
        clock = SystemClock()
        gate = Gate(clock, Manners(block_at=1))
        gate.observe(HOSTILE, Outcome(Reason.TIMEOUT))
        return await ProgressMeter("toy", parts(gate, clock), Control(1)).snapshot()

    snap = asyncio.run(main())
    assert [look.condition for look in snap.held] == [LaneCondition.BLOCKED]
    for text in (rendered(snap), plain_line(snap), json_line(snap)):
        assert not {"\x1b", "\x07", "\r", "\u202e", "\u0301"} & set(text)
        text.encode()
    assert "[bold red]x[/]" in rendered(snap)  # As text: it was not read as markup.


class Tasks:
    def __init__(self, tasks: Sequence[Task]) -> None:
        self.tasks = tasks

    async def pages(self, after: str | None) -> AsyncIterator[Page]:
        yield Page(self.tasks, "end")


class Nowhere:
    async def write(self, batch: Sequence[tuple[Task, Sequence[Any]]]) -> None:
        return None


async def fine(task: Task) -> Outcome:
    return Outcome(Reason.OK)


def parts(gate: Gate, clock: Any, handler: Any = fine, tasks: Sequence[Task] = ()) -> Parts:
    store = MemoryStore()
    return Parts(Feed(Tasks(tasks), store), store, handler, Nowhere(), gate, clock)


def test_speed_and_eta_come_from_the_last_minute() -> None:
    async def main() -> list[Snapshot]:
        clock = SimClock()
        gate = Gate(clock, Manners(rate=10.0, concurrency=4))
        control = Control(workers=4)
        whole = parts(gate, clock, Paced(gate), [Task(f"k{n}", "a") for n in range(3000)])
        progress = ProgressMeter("toy", whole, control)
        running = asyncio.create_task(crawl(whole, Limits(), control))
        snaps = []
        for _ in range(100):
            await clock.sleep(1.0)
            snaps.append(await progress.snapshot())
        control.drain()
        await running
        return snaps

    last = run_sim(main())[-1]
    assert last.rate == pytest.approx(10.0, rel=0.05)
    assert last.eta == pytest.approx((3000 - 1000) / 10.0, rel=0.05)
    assert last.done + last.open == last.known == 3000
    assert last.elapsed == pytest.approx(100.0)


class Paced:
    def __init__(self, gate: Gate) -> None:
        self.gate = gate

    async def __call__(self, task: Task) -> Outcome:
        async with self.gate.turn(task.lane):
            return Outcome(Reason.OK)


class Slowly:
    """Names a hundred keys, one each second, and knows how many it will."""

    named = 0

    async def pages(self, after: str | None) -> AsyncIterator[Page]:
        for n in range(100):
            await asyncio.sleep(1.0)
            self.named = n + 1
            yield Page([Task(f"k{n}", "a")], f"{n:03}")


def test_a_source_that_knows_its_share_gives_a_time_left_before_it_is_dry() -> None:
    async def main() -> Snapshot:
        clock, control, source = SimClock(), Control(4), Slowly()
        whole = parts(Gate(clock, Manners(rate=math.inf)), clock)
        assert whole.feed is not None
        whole = replace(
            whole,
            feed=replace(whole.feed, source=source),
            share_named=lambda: source.named / 100 if source.named else None,
        )
        return await _after(40, whole, control)

    snap = run_sim(main())
    assert snap.eta == pytest.approx(60.0, rel=0.1)


def test_the_time_left_is_that_of_the_longest_lane() -> None:
    async def main() -> Snapshot:
        clock, control = SimClock(), Control(20)
        gate = Gate(clock, Manners(rate=1.0))
        tasks = [Task(f"k{n}", f"l{n % 10}") for n in range(100)]
        tasks += [Task(f"one{n}", "one") for n in range(500)]
        return await _after(10, parts(gate, clock, Paced(gate), tasks), control)

    snap = run_sim(main())
    assert snap.eta == pytest.approx(490.0, rel=0.05)


async def _after(seconds: int, whole: Parts, control: Control) -> Snapshot:
    progress = ProgressMeter("toy", whole, control)
    running = asyncio.create_task(crawl(whole, Limits(), control))
    for _ in range(seconds):
        await whole.clock.sleep(1.0)
        snap = await progress.snapshot()
    control.drain()
    await running
    return snap


def test_there_is_no_eta_while_more_is_found_than_done() -> None:
    async def endless(task: Task) -> Outcome:
        await asyncio.sleep(1.0)
        return Outcome(Reason.OK, found=[Task(f"{task.key}{n}", "a") for n in "ab"])

    async def main() -> Snapshot:
        clock, control = SimClock(), Control(2)
        gate = Gate(clock, Manners(rate=math.inf))
        whole = parts(gate, clock, endless, [Task("k", "a")])
        progress = ProgressMeter("toy", whole, control)
        running = asyncio.create_task(crawl(whole, Limits(), control))
        for _ in range(20):
            await clock.sleep(1.0)
            snap = await progress.snapshot()
        control.drain()
        await running
        return snap

    snap = run_sim(main())
    assert snap.rate > 1.0
    assert snap.eta is None


def test_parked_blocked_and_slow_lanes_are_named_with_why() -> None:
    async def stuck(task: Task) -> Outcome:
        if task.lane == "hang":
            await asyncio.sleep(1000.0)
        if task.lane == "busy":
            return Outcome(Reason.RATE_LIMITED, wait=60.0)
        return Outcome(Reason.CONNECTION_ERROR)

    async def main() -> Snapshot:
        clock, control = SimClock(), Control(8)
        gate = Gate(clock, Manners(rate=math.inf, block_at=2))
        tasks = [Task(f"{lane}{n}", lane) for lane in ("hang", "busy", "dead") for n in range(3)]
        figures = CrawlMetrics("toy", clock)
        whole = parts(gate, clock, figures.timed(stuck), tasks)
        progress = ProgressMeter("toy", whole, control)
        retry = RetryPolicy(attempts=9, base=0.1)
        running = asyncio.create_task(crawl(whole, Limits(retry=retry), control))
        await clock.sleep(30.0)
        snap = await progress.snapshot()
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        return snap

    snap = run_sim(main())
    assert [(look.lane, look.condition) for look in snap.held] == [
        ("dead", LaneCondition.BLOCKED),
        ("busy", LaneCondition.PARKED),
    ]
    assert snap.held[1].why == Reason.RATE_LIMITED
    assert 29.0 < snap.held[1].wait < 31.0
    assert [(look.lane, round(look.longest)) for look in snap.slow] == [("hang", 30)]
    assert snap.lanes[LaneCondition.BLOCKED] == snap.lanes[LaneCondition.PARKED] == 1
    assert sum(snap.errors.values()) == snap.attempts
    assert snap.in_flight == 3


def test_phases_follow_the_control() -> None:
    async def main() -> list[Phase]:
        clock, control = SystemClock(), Control(1)
        progress = ProgressMeter("toy", parts(Gate(clock, Manners()), clock), control)
        phases = [(await progress.snapshot()).phase]
        control.pause()
        phases.append((await progress.snapshot()).phase)
        control.drain(Ending.LIMIT)
        phases.append((await progress.snapshot()).phase)
        progress.ended = True
        return [*phases, (await progress.snapshot()).phase]

    assert asyncio.run(main()) == [Phase.RUNNING, Phase.PAUSED, Phase.DRAINING, Phase.ENDED]


@pytest.mark.parametrize("style", [Style.PLAIN, Style.JSON, Style.LIVE])
def test_a_view_shows_the_start_the_middle_and_the_end(style: Style) -> None:
    out = io.StringIO()

    async def main() -> None:
        clock, control = SimClock(), Control(1)
        gate = Gate(clock, Manners(rate=1.0))
        whole = parts(gate, clock, Paced(gate), [Task(f"k{n}", "a") for n in range(61)])
        async with showing(ProgressMeter("toy", whole, control), style, out):
            await crawl(whole, Limits(), control)

    run_sim(main())
    lines = out.getvalue().splitlines()
    if style is Style.LIVE:
        assert "toy ended 1m00s" in out.getvalue()
    elif style is Style.PLAIN:
        assert [line.split(":")[0] for line in lines][:1] == ["toy running 0s"]
        assert lines[-1].startswith("toy ended 1m00s: 61 done, 0 open, 1.0/s in this run")
        assert len(lines) in (3, 4)  # The last of the half-minute lines may meet the end.
    else:
        assert [json.loads(line)["state"] for line in lines][-1] == "ended"


class GonePipe(io.StringIO):
    def write(self, text: str) -> int:
        raise BrokenPipeError


def test_a_reader_that_goes_away_does_not_end_the_crawl() -> None:
    async def main() -> Ending:
        clock, control = SystemClock(), Control(1)
        whole = parts(Gate(clock, Manners()), clock, fine, [Task("k", "a")])
        async with showing(
            ProgressMeter("toy", whole, control), Style.PLAIN, GonePipe(), every=0.001
        ):
            return await crawl(whole, Limits(), control)

    assert asyncio.run(main()) is Ending.DONE


def test_trouble_in_the_crawl_passes_through_the_view() -> None:
    async def main() -> None:
        clock = SystemClock()
        whole = parts(Gate(clock, Manners()), clock)
        async with showing(ProgressMeter("toy", whole, Control(1)), Style.PLAIN, io.StringIO()):
            raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        asyncio.run(main())


def test_many_lanes_are_looked_at_seldom() -> None:
    async def main() -> int:
        clock = SimClock()
        gate = CountingGate(clock, Manners())
        for n in range(20_000):
            gate.park(f"lane{n}", 1e9)
        progress = ProgressMeter("toy", parts(gate, clock), Control(1))
        for _ in range(40):  # Ten seconds of a live view.
            await progress.snapshot()
            await clock.sleep(0.25)
        return gate.looks

    assert run_sim(main()) <= 6


class CountingGate(Gate):
    looks = 0

    def states(self) -> Any:
        self.looks += 1
        return super().states()
