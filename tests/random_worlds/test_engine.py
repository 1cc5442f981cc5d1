"""The engine in worlds drawn at random: whatever the hosts do and wherever it is killed, hosts are
treated as the config says, and every key ends as what the hosts answered."""

from __future__ import annotations

import asyncio
import contextlib
import math
import tempfile
from dataclasses import replace
from pathlib import Path

from hypothesis import given, note

from tests.random_worlds.budget import worlds as budget
from tests.random_worlds.engine_draws import Config, Run, configs, worlds
from tests.random_worlds.engine_idle import Idleness
from tests.random_worlds.engine_law import Fates, LaneLaw, RunLaw, by_word, open_on_lanes
from tests.random_worlds.engine_views import Views
from tests.random_worlds.engine_world import (
    Doom,
    Habit,
    Host,
    Spell,
    Stage,
    StageHandler,
    StageSink,
    StageSource,
    StageStore,
    World,
)
from trawlnet.engine.control import Control, Ending
from trawlnet.engine.crawl import Feed, Limits, Parts, crawl
from trawlnet.engine.gate import Gate
from trawlnet.engine.outcome import Reason
from trawlnet.engine.ports import Ledger
from trawlnet.engine.rules import Manners, RetryPolicy
from trawlnet.engine.task import Task
from trawlnet.sim.virtual import SimClock, run_sim
from trawlnet.stores.lmdb.store import LmdbStore
from trawlnet.stores.memory import MemoryStore

MOST_SECONDS = 3e6  # Of virtual time; a run that takes longer does not end.


@given(world=worlds(), config=configs())
@budget(120)
def test_any_world_is_crawled_politely_and_to_its_end(world: World, config: Config) -> None:
    note(f"world = {world!r}\nconfig = {config!r}")
    crawled(world, config)


def test_a_late_answer_of_a_host_that_was_given_up_does_not_keep_a_crawl_from_its_end() -> None:
    """Its store was told that the host will be asked again, and its gate was not."""
    spells = (Spell(Habit.DOWN, 1, 1.0), Spell(Habit.CUT, 1, 2.0), Spell(Habit.DOWN, 1, 3.0, 1.0))
    manners = Manners(rate=math.inf, concurrency=3, block_at=1)
    keys = tuple(Task(f"k{number}", "host", {"n": number}) for number in range(4))
    world = World((Host("host", spells, (0.0,)),), (keys,), (), 0.1, 0.1, (0.0,))
    limits = Limits(retry=RetryPolicy(attempts=1))
    crawled(world, Config(limits, manners, 1.0, True, False, (Run(workers=4),)))


def crawled(world: World, config: Config) -> None:
    with tempfile.TemporaryDirectory(dir=_quick_disk()) as folder:
        run_sim(_Crawling(world, config, Path(folder)).all_runs())


def _quick_disk() -> str | None:
    memory = Path("/dev/shm")  # Syncing is what LMDB's own tests are about.
    return str(memory) if memory.is_dir() else None


class _Crawling:
    """The runs of one world over one store; must be used inside the loop."""

    def __init__(self, world: World, config: Config, folder: Path) -> None:
        self.world = world
        self.config = config
        self.folder = folder
        self.clock = SimClock()
        self.stage = Stage(world, self.clock)
        self.fates = Fates(config.limits.retry, config.remember_done)
        self.parked: dict[str, float] = {}
        self.leased_until = 0.0  # What a killed run had leased is another's after this.
        self.orphans = False  # Somebody died with leases that outlive him.
        self.memory = MemoryStore(config.remember_done)

    async def all_runs(self) -> None:
        store: Ledger = await self._opened()
        for run in self.config.runs:
            if run.retry:
                await self._retry(store)
            await self._one_run(run, store)
            if self.config.embedded:
                await store.close()
                store = await self._opened()
            self._raise_wrongs()
            await self._compare(store)
        await store.close()

    async def _opened(self) -> Ledger:
        if not self.config.embedded:
            return self.memory
        return await LmdbStore.open(self.folder, remember_done=self.config.remember_done)

    async def _retry(self, store: Ledger) -> None:
        await store.retry()
        holds = self.stage.holds
        self.fates.reopen(holds, self.clock.now())
        self.stage.holds = {lane: until for lane, until in holds.items() if until < math.inf}

    async def _one_run(self, run: Run, store: Ledger) -> None:
        config, stage, begun = self.config, self.stage, self.clock.now()
        gate = Gate(self.clock, config.manners, patience=config.patience)
        doom = Doom(run.kill_at)
        control = Control(run.workers)
        law = self._law(run)
        if config.limits.lanes >= len(self.world.hosts):
            # What a dead process had leased is looked for when all its leases must be over.
            since = begun + config.limits.lease if begun < self.leased_until else begun
            holds = {lane: until for lane, until in stage.holds.items() if until < math.inf}
            law.before.append(Idleness(law, self._soon(), since, holds).read)
        stage.judge = law.read
        for host in self.world.hosts:
            if host.manners is not None:
                gate.treat(host.name, host.manners)
        staged = StageStore(store, stage, doom)
        parts = Parts(
            Feed(StageSource(stage, doom), staged),
            staged,
            StageHandler(stage, gate, doom),
            StageSink(stage, doom),
            gate,
            self.clock,
        )
        limits = _limited(config, run)
        crawling = doom.victim = asyncio.ensure_future(crawl(parts, limits, control))
        operator = asyncio.ensure_future(self._operate(run, parts, control))
        done, _ = await asyncio.wait([crawling], timeout=MOST_SECONDS)
        operator.cancel()
        await asyncio.wait([operator])
        if not done:
            crawling.cancel()
            raise AssertionError(f"the run of {begun} s does not end")
        if doom.dead:
            with contextlib.suppress(asyncio.CancelledError):
                crawling.result()
            self.parked = {}
            if not config.embedded:
                self.leased_until = self.clock.now() + config.limits.lease
                self.orphans = True
            return
        self._raise_wrongs()
        self._judge_end(run, crawling.result(), control, law)
        # Whoever was given up gets another chance at once, whatever he said last.
        lanes = law.lanes.items()
        self.parked = {name: lane.parked_until for name, lane in lanes if not lane.blocked}

    def _law(self, run: Run) -> RunLaw:
        now = self.clock.now()
        times = [run.most_seconds, run.drain_at]
        return RunLaw(
            lanes={
                host.name: LaneLaw(
                    host.name,
                    host.manners or self.config.manners,
                    self.parked.get(host.name, 0.0),
                )
                for host in self.world.hosts
            },
            fates=self.fates,
            workers=run.workers,
            most_tasks=run.most_tasks,
            deadline=now + min([one for one in times if one is not None], default=math.inf),
            reaction=2 * max(self.world.call_seconds),
            rows=self.stage.rows,
            still=[] if run.pause is None else [(now + run.pause[0], now + sum(run.pause))],
        )

    def _soon(self) -> float:
        limits = self.config.limits
        return 1.0 + 30 * max(self.world.call_seconds) + limits.ahead + limits.gather

    async def _operate(self, run: Run, parts: Parts, control: Control) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._look(run, parts, control))
            if run.drain_at is not None:
                group.create_task(self._later(run.drain_at, control.drain))
            if run.pause is not None:
                group.create_task(self._later(run.pause[0], control.pause))
                group.create_task(self._later(sum(run.pause), control.resume))

    async def _look(self, run: Run, parts: Parts, control: Control) -> None:
        """Every view, again and again, against what has been written down by then."""
        views = Views(parts, control)
        seconds = run.first_look
        while True:
            await self.clock.sleep(seconds)
            seconds *= 2
            try:
                await views.agree(self.fates)
            except AssertionError as wrong:
                self.stage.wrongs.append(wrong)

    async def _later(self, seconds: float, act) -> None:
        await self.clock.sleep(seconds)
        act()

    def _judge_end(self, run: Run, ending: Ending, control: Control, law: RunLaw) -> None:
        assert not law.running and not law.answers, "something was left unsettled"
        assert +control.figures.tally == law.tally
        limited = run.most_tasks is not None or run.most_seconds is not None
        if ending is not Ending.DONE:
            assert limited or run.drain_at is not None, ending
            return
        for lane, count in open_on_lanes(self.fates).items():
            assert law.lanes[lane].blocked, f"done, and {count} left on {lane}"

    async def _compare(self, store: Ledger) -> None:
        counts, fates = await store.counts(), self.fates
        states = fates.keys.values()
        assert counts.attempts == {r: n for r, n in fates.attempts.items() if n}
        assert counts.settled == by_word(fates)
        scheduled = sum(one.scheduled for one in states)
        pending = sum(one.word is None for one in states)
        assert counts.open + counts.scheduled == pending
        if not self.orphans:
            assert (counts.scheduled, counts.leased) == (scheduled, 0)
        assert counts.remembered == len(states)
        assert counts.known == counts.open + counts.scheduled + sum(counts.settled.values())
        for key, state in fates.keys.items():
            if state.word is Reason.OK:
                assert key in self.stage.rows
        failed = {failure.key async for failure in store.failures()}
        given_up = {key for key, one in fates.keys.items() if one.word not in (None, Reason.OK)}
        assert given_up <= failed

    def _raise_wrongs(self) -> None:
        if self.stage.wrongs:
            raise self.stage.wrongs[0]


def _limited(config: Config, run: Run):
    return replace(config.limits, most_tasks=run.most_tasks, most_seconds=run.most_seconds)
