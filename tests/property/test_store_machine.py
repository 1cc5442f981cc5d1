"""Any sequence of calls leaves a durable store and the memory store in the same state."""

from __future__ import annotations

import asyncio
import itertools
import math
import shutil
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from tests.support.servers import redis_server
from trawlnet.engine.outcome import Reason, Receipt
from trawlnet.engine.ports import Ledger, Page
from trawlnet.engine.task import Task
from trawlnet.stores.lmdb.store import LmdbStore
from trawlnet.stores.memory import MemoryStore
from trawlnet.stores.redis.work.store import RedisStore

T = TypeVar("T")
Opener = Callable[[str, bool], Awaitable[Ledger]]

TTL = 20.0
SMALL_MAP_BYTES = 1 << 16  # So that the map has to grow on the way.

# Few keys and lanes, so that they meet each other often.
keys = st.sampled_from(["a", "b", "c", "d", "e", "f", "g", "h", "k" * 600, "ключ\0"])
lanes = st.sampled_from(["x", "y", "long" * 200])
numbers = st.sampled_from([0.0, -1.0, 1.0, 2.5, 7.0])
dues = st.sampled_from([0.0, 0.0, 0.0, 5.0, 30.0, 60.0, 90.0])
tasks = st.builds(Task, keys, lanes, st.integers(0, 9), dues, numbers, st.integers(0, 3))
reasons = st.sampled_from(
    [Reason.OK, Reason.OK, Reason.NOT_MODIFIED, Reason.NOT_FOUND, Reason.TIMEOUT, Reason.BLOCKED]
)
next_dues = st.one_of(st.none(), dues)


@st.composite
def receipts(draw: st.DrawFn) -> Receipt:
    task = draw(tasks)
    due = draw(next_dues)
    again = None if due is None else Task(task.key, draw(lanes), task.payload, due, task.score, 1)
    found = draw(st.lists(tasks, max_size=3))
    return Receipt(task, draw(reasons), found, again, draw(st.sampled_from(["", "why"])), 3.0)


class StoreMachine(RuleBasedStateMachine):
    """Every call goes to both stores, and both must answer alike."""

    opener: Opener
    examples: Iterator[int]

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.now = 1.0

    @initialize(remember_done=st.booleans())
    def open(self, remember_done: bool) -> None:
        self.remember_done = remember_done
        self.model: Ledger = MemoryStore(remember_done)
        self.name = str(next(self.examples))
        self.store = self.loop.run_until_complete(self.opener(self.name, remember_done))

    def both(self, call: Callable[[Ledger], Awaitable[T]]) -> T:
        async def ask() -> tuple[T, T]:
            return await call(self.model), await call(self.store)

        expected, found = self.loop.run_until_complete(ask())
        assert found == expected
        return found

    @rule(page=st.lists(tasks, max_size=5), cursor=st.text(max_size=3))
    def feed(self, page: list[Task], cursor: str) -> None:
        self.both(lambda store: store.feed(Page(page, cursor)))
        self.both(lambda store: store.cursor())

    @rule(wants=st.dictionaries(lanes, st.integers(0, 3)), wait=st.sampled_from([0.0, 1.0, 9.0]))
    def lease(self, wants: dict[str, int], wait: float) -> None:
        self.now += wait
        self.both(lambda store: store.lease(wants, self.now, TTL))

    @rule(some=st.lists(keys, max_size=4))
    def renew(self, some: list[str]) -> None:
        self.both(lambda store: store.renew(some, self.now, TTL))

    @rule(batch=st.lists(receipts(), max_size=4))
    def settle(self, batch: list[Receipt]) -> None:
        self.both(lambda store: store.settle(batch))

    @rule(lane=lanes, until=st.sampled_from([0.0, 50.0, math.inf]))
    def hold(self, lane: str, until: float) -> None:
        self.both(lambda store: store.hold(lane, until))

    @rule(reason=st.one_of(st.none(), reasons))
    def retry(self, reason: Reason | None) -> None:
        self.both(lambda store: store.retry(reason))

    @rule()
    def open_again(self) -> None:
        async def reopen() -> None:
            await self.model.close()
            await self.store.close()
            self.store = await self.opener(self.name, self.remember_done)

        self.loop.run_until_complete(reopen())

    @invariant()
    def all_that_can_be_seen_is_alike(self) -> None:
        counts = self.both(lambda store: store.counts())
        pending = counts.open + counts.scheduled
        kept = (n for word, n in counts.settled.items() if self.remember_done or not word.success)
        assert counts.remembered == pending + sum(kept)
        self.both(lambda store: store.lanes(None, 9))
        self.both(_failures)

    def teardown(self) -> None:
        if hasattr(self, "store"):
            self.loop.run_until_complete(self.store.close())
        self.loop.close()


async def _failures(store: Ledger) -> list[Any]:
    found = [failure async for failure in store.failures()]
    return sorted(found, key=lambda failure: failure.key)


def check(opener: Opener, examples: int) -> None:
    parts = {"opener": staticmethod(opener), "examples": itertools.count()}
    machine = type("Machine", (StoreMachine,), parts)
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=30,
            deadline=None,
            database=None,
            derandomize=True,
            suppress_health_check=list(HealthCheck),
        ),
    )


@pytest.fixture
def folder() -> Iterator[Path]:
    # In memory where there is such a place: thousands of small syncs to a disk take minutes.
    shared_memory = Path("/dev/shm")
    base = tempfile.mkdtemp(dir=shared_memory if shared_memory.is_dir() else None)
    yield Path(base)
    shutil.rmtree(base)


@pytest.mark.slow
def test_lmdb_does_what_memory_does(folder: Path) -> None:
    async def opener(name: str, remember_done: bool) -> Ledger:
        path = folder / name
        return await LmdbStore.open(path, remember_done=remember_done, map_size=SMALL_MAP_BYTES)

    check(opener, examples=60)


def test_redis_does_what_memory_does() -> None:
    with redis_server() as server:

        async def opener(name: str, remember_done: bool) -> Ledger:
            prefix = f"{name}:"
            return await RedisStore.open(server.url, prefix=prefix, remember_done=remember_done)

        check(opener, examples=20)
