"""The parts of a fleet that decide: what a shard tells, whether it may act, whether all is done."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.worlds import ListSource
from trawlnet.crawlers.errors import NotReady
from trawlnet.crawlers.repos.config import ReposConfig
from trawlnet.crawlers.repos.shared import check_shareable, directory_part
from trawlnet.crawlers.share import Opened, Share, ShareSource
from trawlnet.engine.control import Control
from trawlnet.engine.crawl import Feed, Limits, Parts
from trawlnet.engine.gate import Gate
from trawlnet.engine.outcome import Outcome, Reason
from trawlnet.engine.ports import Counts, Page
from trawlnet.engine.rules import Manners
from trawlnet.engine.task import Task
from trawlnet.fleet.lease import ShardLease
from trawlnet.fleet.shard import ShardJob, _crawl, _Term
from trawlnet.fleet.supervise import Seen, _Watch, is_done
from trawlnet.sim.virtual import SimClock, run_sim
from trawlnet.stores.errors import Fenced
from trawlnet.stores.memory import MemoryStore
from trawlnet.stores.redis.fleet.shards import Beat, ClaimAnswer, FleetPlan, Word

PLAN = FleetPlan(version=4, run=2, shards=2, word=Word.RUN)
ALONE = FleetPlan(version=4, run=2, shards=1, word=Word.RUN)


@dataclass
class Told:
    """A source of three pages that notes where it was asked to begin."""

    asked: list[str | None] = field(default_factory=list)

    async def pages(self, after: str | None) -> AsyncIterator[Page]:
        self.asked.append(after)
        for name in "abc":
            if not after or name > after:
                yield Page([Task(f"{name}1", "ours"), Task(f"{name}2", "theirs")], name)


def told(after: str | None, run: int = 2) -> tuple[list[Page], list[str | None]]:
    source = Told()

    async def main() -> list[Page]:
        share = ShareSource(source, run, lambda lane: lane == "ours")
        return [page async for page in share.pages(after)]

    return asyncio.run(main()), source.asked


def test_a_shard_is_told_of_its_own_lanes_and_when_it_has_been_told_all() -> None:
    pages, _ = told(None)
    assert [[task.key for task in page.tasks] for page in pages] == [["a1"], ["b1"], ["c1"], []]
    cursors = [page.cursor for page in pages]
    assert cursors == sorted(cursors), "the lesser cursor has more left to tell"


def test_a_shard_goes_on_where_it_was() -> None:
    cursor = told(None)[0][0].cursor
    pages, asked = told(cursor)
    assert asked == ["a"] and [page.cursor[-1] for page in pages[:2]] == ["b", "c"]


def test_what_was_told_whole_is_told_again_only_in_another_run() -> None:
    cursor = told(None)[0][-1].cursor
    assert told(cursor) == ([], [])
    pages, asked = told(cursor, run=3)
    assert asked == [""] and len(pages) == 4


class Keys:
    """Answers as a store would."""

    token = "s000-1"

    def __init__(self, claims: Sequence[ClaimAnswer | None] = (), stands: bool = True) -> None:
        self.claims = list(claims)
        self.stands = stands

    async def claim(self, *_: Any) -> ClaimAnswer | None:
        return self.claims.pop(0)

    async def beat(self, *_: Any) -> Beat:
        return Beat(self.stands, PLAN)


def test_a_claim_waits_for_whoever_stands() -> None:
    async def main() -> None:
        waiting = ClaimAnswer(False, wait=0.6)
        keys = Keys([waiting, waiting, ClaimAnswer(True, before=["s000-0"])])
        tenure = ShardLease(keys, 0, 10.0, SimClock())  # type: ignore[arg-type]
        assert tenure.barred_until() > 0.0
        assert await tenure.claim(PLAN, []) == ["s000-0"]
        assert asyncio.get_running_loop().time() == pytest.approx(1.2)
        assert tenure.barred_until() == 0.0

    run_sim(main())


def test_a_claim_ends_with_its_plan() -> None:
    async def main() -> None:
        tenure = ShardLease(Keys([None]), 0, 10.0, SimClock())  # type: ignore[arg-type]
        assert await tenure.claim(PLAN, []) is None

    run_sim(main())


def test_whoever_slept_may_not_act_before_it_has_asked() -> None:
    async def main() -> None:
        keys = Keys([ClaimAnswer(True)])
        tenure = ShardLease(keys, 0, 10.0, SimClock())  # type: ignore[arg-type]
        await tenure.claim(PLAN, [])
        await asyncio.sleep(7.9)
        assert tenure.barred_until() == 0.0
        await asyncio.sleep(0.2)
        now = asyncio.get_running_loop().time()
        assert tenure.barred_until() == now + 10.0
        await tenure.may_put()
        assert tenure.barred_until() == 0.0, "it still stands, and knows it now"
        await asyncio.sleep(60.0)
        keys.stands = False
        with pytest.raises(Fenced):
            await tenure.may_put()

    run_sim(main())


def test_time_counts_from_before_the_question() -> None:
    """The server counts from when it heard it, and the answer may be long on its way."""

    class Slow(Keys):
        async def claim(self, *_: Any) -> ClaimAnswer | None:
            await asyncio.sleep(6.0)
            return await super().claim()

        async def beat(self, *_: Any) -> Beat:
            await asyncio.sleep(6.0)
            return await super().beat()

    async def main() -> None:
        tenure = ShardLease(Slow([ClaimAnswer(True)]), 0, 10.0, SimClock())  # type: ignore[arg-type]
        await tenure.claim(PLAN, [])
        for _ in range(2):
            assert tenure.barred_until() == 0.0
            await asyncio.sleep(2.1)
            assert tenure.barred_until() > 0.0, "eight seconds after it asked"
            await tenure.beat({})

    run_sim(main())


def seen(*shards: dict[str, Any], **counts: int) -> Seen:
    return Seen(PLAN, dict(enumerate(shards)), Counts(**counts))


DRY = {"dry": True, "version": 4}


def test_a_fleet_is_done_when_all_is_told_and_nothing_is_left() -> None:
    assert is_done(seen(DRY, DRY))
    assert is_done(seen(DRY, DRY, open=3, blocked=3))
    assert not is_done(seen(DRY, DRY, open=1))
    assert not is_done(seen(DRY)), "a shard is silent"
    assert not is_done(seen(DRY, DRY | {"dry": False}))
    assert not is_done(seen(DRY, DRY | {"version": 3})), "it speaks of an older share"


@dataclass
class Starts:
    """A runtime that notes who was started anew, and a clock that is set by hand."""

    replaced: list[int] = field(default_factory=list)
    time: float = 0.0
    stands: float = 1.0

    @property
    def clock(self) -> Any:
        return self

    @property
    def runtime(self) -> Any:
        return self

    def now(self) -> float:
        return self.time

    def ensure(self, shard: int) -> None:
        pass

    def replace(self, shard: int) -> None:
        self.replaced.append(shard)


def test_a_shard_that_only_begins_is_given_more_time_than_one_that_fell_silent() -> None:
    starts = Starts()
    watch = _Watch(starts)  # type: ignore[arg-type]

    def look(at: float, *standing: int) -> list[int]:
        starts.time = at
        watch._keep(Seen(PLAN, {shard: {} for shard in standing}, Counts()))
        return starts.replaced

    assert look(0.0) == []
    assert look(10.0, 0) == [], "the other has not stood yet"
    assert look(14.0) == [0], "it stood, and was silent"
    assert look(40.0) == [0], "it is on its way"
    assert look(61.0) == [0, 1]
    assert look(75.0) == [0, 1, 0]


def test_where_beginning_takes_long_each_next_one_has_longer() -> None:
    starts = Starts()
    watch = _Watch(starts)  # type: ignore[arg-type]
    times: list[float] = []
    for second in range(0, 6000, 10):
        starts.time = second
        before = len(starts.replaced)
        watch._keep(Seen(ALONE, {}, Counts()))
        times += [second] * (len(starts.replaced) - before)
    assert times[:5] == [70, 200, 450, 940, 1910], "60 s, 120, 240, ... from one look to the next"
    assert times[-1] - times[-2] <= 970, "and no more than 16 minutes"
    watch._keep(Seen(ALONE, {0: {}}, Counts()))
    starts.time += 4.0
    watch._keep(Seen(ALONE, {}, Counts()))
    starts.replaced.clear()
    starts.time += 61.0
    watch._keep(Seen(ALONE, {}, Counts()))
    assert starts.replaced == [0], "it stood: the next one begins as one did at first"


@pytest.mark.parametrize("shards", [1, 2, 5, 100])
def test_all_shards_together_ask_a_directory_no_more_than_one_would(shards: int) -> None:
    every = [directory_part(shards, owner=number == 0) for number in range(shards)]
    assert sum(every) == pytest.approx(1.0) and min(every) > 0.0


@pytest.mark.parametrize(
    "given, hint",
    [
        ({"archive": "x"}, "--store"),
        ({"store": "redis://r"}, "--archive"),
        ({"store": "redis://r", "archive": "x", "update": True}, "one machine"),
        ({"store": "redis://r", "archive": "x"}, "--clickhouse-address"),
    ],
)
def test_what_a_fleet_cannot_do_is_said_before_it_begins(given: dict[str, Any], hint: str) -> None:
    with pytest.raises(NotReady) as refused:
        check_shareable(ReposConfig(**given))
    assert hint in refused.value.hint


def test_a_job_shows_no_secret() -> None:
    job = ShardJob(
        0,
        "repos",
        config={"clickhouse_password": "hush"},
        store="redis://:hush@host/0",
        s3={"secret_access_key": "hush"},
        stands=1.0,
        manners_gap=1.0,
        scratch="/tmp",
    )
    assert "hush" not in repr(job) and "hush" not in str(job)


@pytest.mark.parametrize(("before", "first"), [((), 0.0), (("s000-0",), 3.0)])
def test_lanes_with_an_owner_before_us_have_their_gap_first(
    before: Sequence[str], first: float, tmp_path: Path
) -> None:
    """It may have sent a request an instant ago."""

    class Lease(ShardLease):
        async def release(self) -> None:
            pass

        async def woken(self, most: int) -> list[str]:
            return []

    async def quiet(gate: Gate, control: Control) -> None:
        await asyncio.Event().wait()

    async def main() -> float:
        clock, store, begun = SimClock(), MemoryStore(), []

        async def handler(task: Task) -> Outcome:
            begun.append(clock.now())
            return Outcome(Reason.OK)

        gate = Gate(clock, Manners(rate=10.0, concurrency=1))
        source = ListSource([Page([Task("key", "lane")], "1")])
        parts = Parts(Feed(source, store), store, handler, None, gate, clock)
        opened = Opened(parts, Limits(), 1, lambda: None, dict)

        @asynccontextmanager
        async def open_shard(share: Share) -> AsyncIterator[Opened]:
            yield opened

        lease = Lease(Keys([ClaimAnswer(True)]), 0, 10.0, clock)  # type: ignore[arg-type]
        await lease.claim(PLAN, [])
        job = ShardJob(0, "repos", {}, 10.0, str(tmp_path), manners_gap=3.0)
        term = _Term(job, PLAN, lease, before, clock, SimpleNamespace(run=quiet))  # type: ignore[arg-type]
        await _crawl(term, open_shard)
        (at,) = begun
        return at

    assert run_sim(main()) == pytest.approx(first)
