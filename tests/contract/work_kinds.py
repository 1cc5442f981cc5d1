"""Everything that keeps the work of a crawl, made the same way for one suite, and what each kind
cannot do, with the reason."""

from __future__ import annotations

import itertools
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Protocol

import pytest

from tests.contract.conftest import STORES, StoreMaker, make
from tests.contract.test_ids_ledger import TOKEN, owned
from tests.support.pds.slices import SimSlice
from trawlnet.crawlers.ids.ledger.askers import Askers, PendingRequest
from trawlnet.crawlers.ids.ledger.ledger import IdsLedger
from trawlnet.crawlers.ids.ledger.second_chances import ChancePolicy, SecondChances
from trawlnet.crawlers.ids.ledger.work import IdsWork
from trawlnet.crawlers.ids.model import (
    Answer,
    AnswerVerdict,
    Ask,
    Decision,
    LedgerEntry,
    LedgerMark,
    Purpose,
)
from trawlnet.crawlers.pds.scanning.ending import SliceEnd
from trawlnet.crawlers.pds.scanning.parts import ScanResult, ScanVerdict
from trawlnet.crawlers.pds.schedule import ClaimRules, RegistryStore
from trawlnet.engine.outcome import Reason, Receipt
from trawlnet.engine.ports import Page, Work
from trawlnet.engine.task import Task
from trawlnet.stores.redis.spans import SpanKeys
from trawlnet.tables.registry.entry import Terms
from trawlnet.tables.registry.registry import open_registry
from trawlnet.tables.registry.rules import FoundPds, PdsSource, Which

NOW = 1_700_000_000.125
_NUMBERS = itertools.count()


class Can(StrEnum):
    """Sentences of the contract that not every kind can keep to."""

    EMPTY = "be empty"
    LEASES_END = "leases end"
    HOLDS_LAST = "holds last"
    RETRIES = "retries"
    OPEN_AHEAD = "count what is leased as open"


IDS_LACKS: Mapping[Can, str] = {
    Can.EMPTY: "there is always a next id, so its lane always has work",
    Can.RETRIES: "the pilot says when an id is asked for again, not the receipt",
    Can.OPEN_AHEAD: "an id ahead of all that is known is in no interval before it is answered",
}
PDS_LACKS: Mapping[Can, str] = {
    Can.LEASES_END: "the claim of a row ends in the registry, for other processes to take over",
    Can.HOLDS_LAST: "each row has a due time, which outlives the process; its lane has none",
    Can.RETRIES: "the registry's own rule says when a row is due again, not the receipt",
}


class Harness(Protocol):
    """One kind, with a way to put work into it and to say that it was done."""

    async def open(self) -> Work: ...

    async def close(self) -> None: ...

    async def add(self, count: int) -> list[Task]:
        """So many new tasks, as `lease` will give them."""

    def done(self, task: Task, reason: Reason, at: float) -> Receipt: ...


@dataclass
class Fed:
    """Memory, LMDB and Redis."""

    maker: StoreMaker

    async def open(self) -> Work:
        self.store = await self.maker.open()
        return self.store

    async def close(self) -> None:
        await self.store.close()

    async def add(self, count: int) -> list[Task]:
        tasks = [Task(f"k{next(_NUMBERS)}", "host", {"n": n}) for n in range(count)]
        await self.store.feed(Page(tasks, "c"))
        return tasks

    def done(self, task: Task, reason: Reason, at: float) -> Receipt:
        return Receipt(task, reason, at=at)


class Listed:
    """A pilot that asks for what a test has named, once each."""

    workers = crew = 4

    def __init__(self) -> None:
        self.wanted: list[int] = []

    def asks(self, now: float, room: int) -> Sequence[Ask]:
        some, self.wanted = self.wanted[:room], self.wanted[room:]
        return [Ask(number, Purpose.FIRST) for number in some]

    def wake_at(self, now: float) -> float:
        return float("inf")

    def answered(self, now: float, answer: Answer) -> Sequence[LedgerEntry]:
        mark = LedgerMark.DONE if answer.verdict.exists else LedgerMark.MISSED
        return [LedgerEntry(answer.ask.id, answer.ask.id + 1, mark, "failed")]

    def decide(self, now: float) -> Decision | None:
        return None

    def allow(self, now: float, max_rps: float) -> None:
        raise AssertionError("no budget changes here")


@dataclass
class Ids:
    open_ledger: Callable[[], Awaitable[IdsLedger]]

    async def open(self) -> Work:
        self._ledger = await self.open_ledger()
        if self._ledger.first is None:
            await self._ledger.begin(10)
        self._next = (await self._ledger.position()).beyond
        self._pilot = Listed()
        self._askers = Askers(self._pilot, SecondChances(ChancePolicy()))
        self._sent = 0
        return IdsWork(self._ledger, self._askers)

    async def close(self) -> None:
        await self._ledger.close()

    async def add(self, count: int) -> list[Task]:
        numbers = range(self._next, self._next + count)
        self._next += count
        self._pilot.wanted += numbers
        tasks = []
        for number in numbers:
            self._sent += 1
            asked = PendingRequest(self._sent, "pilot", Ask(number, Purpose.FIRST))
            tasks.append(Task(str(number), "api", asked.payload()))
        return tasks

    def done(self, task: Task, reason: Reason, at: float) -> Receipt:
        asked = PendingRequest.of(task.payload)
        verdict = AnswerVerdict.STORED if reason.success else AnswerVerdict.FAILED
        entries = self._askers.answered(at, asked, Answer(asked.ask, verdict, 0.1))
        return Receipt(task, reason, at=at, news=entries)


class Still:
    """A clock that stands."""

    def now(self) -> float:
        return NOW

    async def sleep(self, seconds: float) -> None:
        raise AssertionError("nobody waits here")


@dataclass
class Pds:
    where: Path | str
    clock: Still = field(default_factory=Still)

    async def open(self) -> Work:
        self._registry = await open_registry(self.where, Terms(allow_private=True))
        await self._registry.forget()
        owner = f"o{next(_NUMBERS)}"
        self._store = RegistryStore(
            self._registry, self.clock, ClaimRules(owner, 600.0), self._opened
        )
        return self._store

    def _opened(self, url: str, owner: str) -> SimSlice:
        async def scan() -> ScanResult:
            raise AssertionError("no handler runs here")

        return SimSlice(scan)

    async def close(self) -> None:
        await self._store.close()
        await self._registry.close()

    async def add(self, count: int) -> list[Task]:
        urls = [f"http://127.0.0.1:{9000 + next(_NUMBERS)}" for _ in range(count)]
        founds = [FoundPds(url, PdsSource.PLC) for url in urls]
        await self._registry.register_many(founds, self.clock.now())
        tasks = await self._store.claim(count, Which())
        return [replace(task, payload={"step": "list"}) for task in tasks]

    def done(self, task: Task, reason: Reason, at: float) -> Receipt:
        verdict = ScanVerdict.COMPLETE if reason.success else ScanVerdict.FAILED
        return Receipt(task, reason, at=at, news=SliceEnd(verdict, reason, "why"))


# What each kind cannot do, and why.
LACKS: Mapping[str, Mapping[Can, str]] = {
    **{kind: {} for kind in STORES},
    "memory": {Can.HOLDS_LAST: "it forgets everything with its process"},
    "ids-lmdb": IDS_LACKS,
    "ids-redis": IDS_LACKS,
    "pds-sqlite": PDS_LACKS,
    "pds-postgresql": PDS_LACKS,
}


def harness(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> Harness:
    match kind:
        case "ids-lmdb":
            return Ids(lambda: IdsLedger.open(tmp_path / "ledger", "api"))
        case "ids-redis":
            url, prefix = request.getfixturevalue("redis").url, f"{tmp_path.name}:"

            async def opened() -> IdsLedger:
                await owned(url, prefix)
                keys = partial(SpanKeys, url, prefix, lane="api", token=TOKEN)
                return await IdsLedger.over(keys, "api")

            return Ids(opened)
        case "pds-sqlite":
            return Pds(tmp_path / "registry.db")
        case "pds-postgresql":
            return Pds(request.getfixturevalue("postgres").url)
        case _:
            return Fed(make(kind, request, tmp_path))
