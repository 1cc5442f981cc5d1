"""The ledger of ids, in a file and in Redis: what it remembers, and where a crawl stands."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TypeVar

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.servers import RedisServer
from trawlnet.crawlers.errors import NotReady
from trawlnet.crawlers.ids.config import IdsConfig
from trawlnet.crawlers.ids.ledger import open_ledger
from trawlnet.crawlers.ids.ledger.askers import Askers, PendingRequest
from trawlnet.crawlers.ids.ledger.ledger import IdsLedger
from trawlnet.crawlers.ids.ledger.notes import MissedLog
from trawlnet.crawlers.ids.ledger.second_chances import ChancePolicy, SecondChances
from trawlnet.crawlers.ids.ledger.span_codec import Miss
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
from trawlnet.engine.outcome import Reason, Receipt
from trawlnet.engine.partition import BUCKETS
from trawlnet.engine.task import Task
from trawlnet.stores.redis.fleet.shards import FleetKeys, FleetPlan, Word
from trawlnet.stores.redis.spans import SpanKeys

T = TypeVar("T")

TOKEN = "s000-00000001"
NUMBERS = itertools.count()


class Counting:
    """The least pilot: one id after the other, twice when it was told so."""

    workers = 4

    def __init__(self, first: int) -> None:
        self.next = first
        self.heard: list[Answer] = []

    def asks(self, now: float, room: int) -> Sequence[Ask]:
        asks = [Ask(self.next + k, Purpose.FIRST) for k in range(room)]
        self.next += room
        return asks

    def wake_at(self, now: float) -> float:
        return now

    def answered(self, now: float, answer: Answer) -> Sequence[LedgerEntry]:
        self.heard.append(answer)
        mark = LedgerMark.DONE if answer.verdict.exists else LedgerMark.MISSED
        return [LedgerEntry(answer.ask.id, answer.ask.id + 1, mark, "failed")]

    def decide(self, now: float) -> Decision | None:
        return None


class Idle(Counting):
    """Has nothing to ask for, and wants to be asked at once."""

    def asks(self, now: float, room: int) -> Sequence[Ask]:
        return ()


async def owned(url: str, prefix: str) -> None:
    """Everything under the prefix belongs to the first token."""
    keys = await FleetKeys.open(url, prefix=prefix)
    try:
        if await keys.plan() == FleetPlan():
            plan = await keys.change(run=1, shards=1, word=Word.RUN)
            first = await FleetKeys.open(url, shard=0, prefix=prefix)
            claim = await first.claim(plan, range(BUCKETS), (), 60.0)
            assert first.token == TOKEN and claim and claim.granted
            await first.close()
    finally:
        await keys.close()


class Place:
    """Where ledgers are kept: a new one under each name."""

    def __init__(self, folder: Path, redis: str) -> None:
        self.folder = folder
        self.redis = redis
        self.name = ""

    async def open(self) -> IdsLedger:
        if not self.redis:
            return await IdsLedger.open(self.folder / f"ledger{self.name}", "api")
        prefix = f"{self.folder.name}{self.name}:"
        await owned(self.redis, prefix)
        keys = partial(SpanKeys, self.redis, prefix, lane="api", token=TOKEN)
        return await IdsLedger.over(keys, "api")


@pytest.fixture(params=["lmdb", "redis"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    is_redis = request.param == "redis"
    return Place(tmp_path, request.getfixturevalue("redis").url if is_redis else "")


def use(place: Place, work: Callable[[IdsLedger], Awaitable[T]]) -> T:
    async def main() -> T:
        ledger = await place.open()
        try:
            return await work(ledger)
        finally:
            await ledger.close()

    return asyncio.run(main())


def told(
    entries: Sequence[LedgerEntry], reason: Reason = Reason.OK, number: int = 0
) -> tuple[Receipt, Sequence[LedgerEntry]]:
    asked = PendingRequest(1, "pilot", Ask(number, Purpose.FIRST))
    task = Task(str(number), "api", asked.payload())
    return Receipt(task, reason, at=100.0, detail="why"), entries


def laid(place: Place, *entries: LedgerEntry, first: int = 10) -> None:
    async def work(ledger: IdsLedger) -> None:
        if ledger.first is None:
            await ledger.begin(first)
        await ledger.record([told([entry]) for entry in entries])

    use(place, work)


async def position(ledger: IdsLedger) -> tuple[int, int, list[tuple[int, int]]]:
    position = await ledger.position()
    return position.watermark, position.beyond, list(position.pending)


def test_what_is_not_settled_below_the_newest_settled_id_is_pending(place: Place) -> None:
    laid(
        place,
        LedgerEntry(10, 13, LedgerMark.DONE),
        LedgerEntry(15, 16, LedgerMark.HOLE),
        LedgerEntry(20, 30, LedgerMark.GAP),
    )
    assert use(place, position) == (13, 30, [(13, 15), (16, 20)])
    laid(
        place,
        LedgerEntry(13, 15, LedgerMark.DONE),
        LedgerEntry(16, 19, LedgerMark.EMBARGOED),
        LedgerEntry(19, 20, LedgerMark.DONE),
    )
    assert use(place, position) == (30, 30, [])


def test_an_id_that_is_done_stays_done(place: Place) -> None:
    laid(
        place,
        LedgerEntry(10, 12, LedgerMark.DONE),
        LedgerEntry(10, 14, LedgerMark.PENDING),
        LedgerEntry(11, 13, LedgerMark.HOLE),
    )

    async def lengths(ledger: IdsLedger) -> dict[str, int]:
        return {mark: count for mark, count in ledger.lengths.items() if count}

    assert use(place, lengths) == {"done": 2, "hole": 1, "pending": 1}
    assert use(place, position) == (13, 14, [(13, 14)])


@given(
    st.lists(
        st.tuples(st.integers(0, 40), st.integers(1, 9), st.sampled_from(list(LedgerMark))),
        max_size=25,
    )
)
@settings(
    max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_opening_again_finds_what_was_there(
    place: Place, rows: list[tuple[int, int, LedgerMark]]
) -> None:
    async def state(ledger: IdsLedger) -> object:
        return (ledger.watermark, ledger.beyond, +ledger.lengths, await ledger.position())

    async def work(ledger: IdsLedger) -> object:
        await ledger.begin(0)
        for start, length, mark in rows:
            await ledger.record([told([LedgerEntry(start, start + length, mark)])])
        return await state(ledger)

    place.name = f"-{next(NUMBERS)}"  # Each example has a ledger of its own.
    assert use(place, work) == use(place, state)


def test_size_follows_intervals_and_not_ids(place: Place) -> None:
    async def work(ledger: IdsLedger) -> int:
        await ledger.begin(0)
        for start in range(0, 40_000, 1000):
            done = [
                told([LedgerEntry(n, n + 1, LedgerMark.DONE)]) for n in range(start, start + 1000)
            ]
            await ledger.record(done)
        return await ledger.intervals()

    assert use(place, work) == 1


def test_a_request_that_was_never_sent_is_asked_again_and_one_that_broke_counts(
    place: Place,
) -> None:
    async def work(ledger: IdsLedger) -> tuple[list[str], list[AnswerVerdict]]:
        await ledger.begin(10)
        pilot = Counting(10)
        work = IdsWork(ledger, Askers(pilot, SecondChances(ChancePolicy())))
        first = (await work.lease({"api": 2}, 0.0, 60.0)).tasks
        await work.settle(
            [Receipt(first[0], Reason.PARKED), Receipt(first[1], Reason.UNKNOWN, at=1.0)]
        )
        again = (await work.lease({"api": 2}, 0.0, 60.0)).tasks
        return [task.key for task in again], [answer.verdict for answer in pilot.heard]

    assert use(place, work) == (["10", "12"], [AnswerVerdict.FAILED])


def test_whoever_has_nothing_to_ask_for_is_asked_again_later(place: Place) -> None:
    """A pilot that says "now" all the same would stop the clock of a crawl in virtual time."""

    async def work(ledger: IdsLedger) -> float:
        await ledger.begin(10)
        work = IdsWork(ledger, Askers(Idle(10), SecondChances(ChancePolicy())))
        lease = await work.lease({"api": 2}, 5.0, 60.0)
        assert not lease.tasks
        return lease.dues["api"]

    assert 5.0 < use(place, work) < 5.1


def test_missed_ids_are_in_the_log_until_they_are_settled(place: Place) -> None:
    file = place.folder / "logs" / "missed.log"

    async def work(ledger: IdsLedger) -> list[str]:
        await ledger.begin(10)
        log = MissedLog(file, ledger.misses)
        ledger.on_change.append(log.changed)
        seen = []
        for entry in (
            LedgerEntry(10, 12, LedgerMark.MISSED, "failed"),
            LedgerEntry(11, 12, LedgerMark.MISSED, "failed again"),
            LedgerEntry(20, 21, LedgerMark.MISSED, "failed"),
            LedgerEntry(10, 11, LedgerMark.DONE),
            LedgerEntry(11, 12, LedgerMark.HOLE),
        ):
            await ledger.record([told([entry], number=entry.start)])
            seen.append(file.read_text())
        return seen

    seen = use(place, work)
    assert seen == ["10\n11\n", "10\n11\n", "10\n11\n20\n", "11\n20\n", "20\n"]

    async def misses(ledger: IdsLedger) -> dict[int, Miss]:
        return ledger.misses

    assert use(place, misses) == {20: Miss(0, 100.0, 0, "why", "ok")}


def test_failures_are_listed_and_put_back_by_reason(place: Place) -> None:
    laid(
        place,
        LedgerEntry(10, 20, LedgerMark.DONE),
        LedgerEntry(12, 14, LedgerMark.MISSED, "failed"),
        LedgerEntry(20, 21, LedgerMark.MISSED, "failed"),
        LedgerEntry(21, 22, LedgerMark.HOLE),
        LedgerEntry(22, 23, LedgerMark.EMBARGOED),
        LedgerEntry(23, 99, LedgerMark.GAP),
    )

    async def listed(ledger: IdsLedger) -> list[tuple[str, Reason]]:
        return [(f.key, f.reason) async for f in ledger.failures()]

    assert use(place, listed) == [
        ("20", Reason.HTTP_ERROR),
        ("21", Reason.NOT_FOUND),
        ("22", Reason.EMBARGOED),
    ]
    assert use(place, lambda ledger: ledger.retry()) == 1
    assert use(place, position) == (20, 99, [(20, 21)])
    assert use(place, lambda ledger: ledger.retry(Reason.NOT_FOUND)) == 1
    assert use(place, position) == (20, 99, [(20, 22)])
    assert use(place, lambda ledger: ledger.retry(Reason.TIMEOUT)) == 0


def test_ids_that_never_parse_are_filed_as_such(place: Place) -> None:
    async def work(ledger: IdsLedger) -> Mapping[Reason, int]:
        await ledger.begin(10)
        entries = [
            LedgerEntry(n, n + 1, LedgerMark.MISSED, "errors used up its attempts")
            for n in (10, 11, 12)
        ]
        reasons = (Reason.PARSE_ERROR, Reason.TIMEOUT, Reason.PARSE_ERROR)
        rows = zip(entries, reasons, strict=True)
        await ledger.record([told([entry], reason) for entry, reason in rows])
        return (await ledger.counts()).settled

    assert use(place, work) == {Reason.HTTP_ERROR: 1, Reason.PARSE_ERROR: 2}

    async def unread(ledger: IdsLedger) -> list[str]:
        return [f.key async for f in ledger.failures(Reason.PARSE_ERROR)]

    assert use(place, unread) == ["10", "12"]
    assert use(place, lambda ledger: ledger.retry(Reason.PARSE_ERROR)) == 2
    assert use(place, lambda ledger: ledger.retry()) == 1


def test_a_workspace_with_a_ledger_of_its_own_does_not_begin_anew_in_redis(
    redis: RedisServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(open_ledger, "KEYS", f"{tmp_path.name}:")
    config = IdsConfig(store=redis.url, queue="amqp://rabbit.example/")

    async def main() -> None:
        alone = await open_ledger.ledger_to_write(IdsConfig(), tmp_path, "api")
        await alone.begin(7)
        await alone.close()
        await owned(redis.url, f"{tmp_path.name}:")
        with pytest.raises(NotReady, match="ledger of its own"):
            await open_ledger.ledger_to_write(config, tmp_path, "api", TOKEN)
        shared = await open_ledger.ledger_to_write(config, tmp_path / "other", "api", TOKEN)
        await shared.begin(9)
        await shared.close()
        async with open_ledger.looked_at(config, tmp_path) as seen:
            assert seen is not None and seen.first == 9

    asyncio.run(main())
