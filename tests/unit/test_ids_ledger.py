"""The ledger of ids: what it remembers, and where it says that a crawl stands."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trawlnet.crawlers.ids.askers import Asked, Askers
from trawlnet.crawlers.ids.ledger import IdsLedger
from trawlnet.crawlers.ids.marks import Miss
from trawlnet.crawlers.ids.notes import DecisionFile, HeadFile, MissedLog
from trawlnet.crawlers.ids.second import ChancePolicy, SecondChances
from trawlnet.crawlers.ids.words import Answer, Ask, Decision, Entry, Mark, Purpose, Verdict
from trawlnet.engine.outcome import Reason, Receipt
from trawlnet.engine.task import Task

T = TypeVar("T")


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

    def answered(self, now: float, answer: Answer) -> Sequence[Entry]:
        self.heard.append(answer)
        mark = Mark.DONE if answer.verdict.exists else Mark.MISSED
        return [Entry(answer.ask.id, answer.ask.id + 1, mark, "failed")]

    def decide(self, now: float) -> Decision | None:
        return None


def use(folder: Path, work: Callable[[IdsLedger], Awaitable[T]], readonly: bool = False) -> T:
    async def main() -> T:
        ledger = await IdsLedger.open(folder, "api", readonly=readonly)
        try:
            return await work(ledger)
        finally:
            await ledger.close()

    return asyncio.run(main())


def receipt(
    entries: Sequence[Entry] | None, reason: Reason = Reason.OK, number: int = 0
) -> Receipt:
    asked = Asked(Ask(number, Purpose.FIRST), Counting(0))
    return Receipt(Task(str(number), "api", asked), reason, at=100.0, detail="why", news=entries)


def laid(folder: Path, *entries: Entry, first: int = 10) -> None:
    async def work(ledger: IdsLedger) -> None:
        if ledger.first is None:
            await ledger.begin(first)
        await ledger.settle([receipt([entry]) for entry in entries])

    use(folder, work)


async def whereabouts(ledger: IdsLedger) -> tuple[int, int, list[tuple[int, int]]]:
    position = ledger.position()
    return position.watermark, position.beyond, list(position.pending)


def test_what_is_not_settled_below_the_newest_settled_id_is_pending(tmp_path: Path) -> None:
    laid(tmp_path, Entry(10, 13, Mark.DONE), Entry(15, 16, Mark.HOLE), Entry(20, 30, Mark.GAP))
    assert use(tmp_path, whereabouts) == (13, 30, [(13, 15), (16, 20)])
    laid(
        tmp_path, Entry(13, 15, Mark.DONE), Entry(16, 19, Mark.EMBARGOED), Entry(19, 20, Mark.DONE)
    )
    assert use(tmp_path, whereabouts) == (30, 30, [])


def test_an_id_that_is_done_stays_done(tmp_path: Path) -> None:
    laid(tmp_path, Entry(10, 12, Mark.DONE), Entry(10, 14, Mark.PENDING), Entry(11, 13, Mark.HOLE))

    async def lengths(ledger: IdsLedger) -> dict[str, int]:
        return {mark: count for mark, count in ledger.lengths.items() if count}

    assert use(tmp_path, lengths) == {"done": 2, "hole": 1, "pending": 1}
    assert use(tmp_path, whereabouts) == (13, 14, [(13, 14)])


@given(
    st.lists(
        st.tuples(st.integers(0, 40), st.integers(1, 9), st.sampled_from(list(Mark))), max_size=25
    )
)
@settings(max_examples=25, deadline=None)
def test_opening_again_finds_what_was_there(rows: list[tuple[int, int, Mark]]) -> None:
    from tempfile import TemporaryDirectory

    async def state(ledger: IdsLedger) -> object:
        return (ledger.watermark, ledger.beyond, +ledger.lengths, ledger.position())

    with TemporaryDirectory() as name:

        async def work(ledger: IdsLedger) -> object:
            await ledger.begin(0)
            for start, length, mark in rows:
                await ledger.settle([receipt([Entry(start, start + length, mark)])])
            return await state(ledger)

        assert use(Path(name), work) == use(Path(name), state)


def test_size_follows_intervals_and_not_ids(tmp_path: Path) -> None:
    async def work(ledger: IdsLedger) -> int:
        await ledger.begin(0)
        for start in range(0, 40_000, 1000):
            done = [receipt([Entry(n, n + 1, Mark.DONE)]) for n in range(start, start + 1000)]
            await ledger.settle(done)
        return await ledger.intervals()

    assert use(tmp_path, work) == 1


def test_a_request_that_was_never_sent_is_asked_again_and_one_that_broke_counts(
    tmp_path: Path,
) -> None:
    async def work(ledger: IdsLedger) -> tuple[list[str], list[Verdict]]:
        await ledger.begin(10)
        pilot = Counting(10)
        ledger.askers = Askers(pilot, SecondChances(ChancePolicy()))
        first = (await ledger.lease({"api": 2}, 0.0, 60.0)).tasks
        await ledger.settle(
            [Receipt(first[0], Reason.PARKED), Receipt(first[1], Reason.UNKNOWN, at=1.0)]
        )
        again = (await ledger.lease({"api": 2}, 0.0, 60.0)).tasks
        return [task.key for task in again], [answer.verdict for answer in pilot.heard]

    assert use(tmp_path, work) == (["10", "12"], [Verdict.FAILED])


def test_missed_ids_are_in_the_log_until_they_are_settled(tmp_path: Path) -> None:
    file = tmp_path / "logs" / "missed.log"

    async def work(ledger: IdsLedger) -> list[str]:
        await ledger.begin(10)
        log = MissedLog(file, ledger.misses)
        ledger.told.append(log.changed)
        seen = []
        for entry in (
            Entry(10, 12, Mark.MISSED, "failed"),
            Entry(11, 12, Mark.MISSED, "failed again"),
            Entry(20, 21, Mark.MISSED, "failed"),
            Entry(10, 11, Mark.DONE),
            Entry(11, 12, Mark.HOLE),
        ):
            await ledger.settle([receipt([entry], number=entry.start)])
            seen.append(file.read_text())
        return seen

    seen = use(tmp_path / "ledger", work)
    assert seen == ["10\n11\n", "10\n11\n", "10\n11\n20\n", "11\n20\n", "20\n"]

    async def misses(ledger: IdsLedger) -> dict[int, Miss]:
        return ledger.misses

    assert use(tmp_path / "ledger", misses) == {20: Miss(0, 100.0, 0, "why")}


def test_failures_are_listed_and_put_back_by_reason(tmp_path: Path) -> None:
    laid(
        tmp_path,
        Entry(10, 20, Mark.DONE),
        Entry(12, 14, Mark.MISSED, "failed"),
        Entry(20, 21, Mark.MISSED, "failed"),
        Entry(21, 22, Mark.HOLE),
        Entry(22, 23, Mark.EMBARGOED),
        Entry(23, 99, Mark.GAP),
    )

    async def listed(ledger: IdsLedger) -> list[tuple[str, Reason]]:
        return [(f.key, f.reason) async for f in ledger.failures()]

    assert use(tmp_path, listed) == [
        ("20", Reason.HTTP_ERROR),
        ("21", Reason.NOT_FOUND),
        ("22", Reason.EMBARGOED),
    ]
    assert use(tmp_path, lambda ledger: ledger.retry()) == 1
    assert use(tmp_path, whereabouts) == (20, 99, [(20, 21)])
    assert use(tmp_path, lambda ledger: ledger.retry(Reason.NOT_FOUND)) == 1
    assert use(tmp_path, whereabouts) == (20, 99, [(20, 22)])
    assert use(tmp_path, lambda ledger: ledger.retry(Reason.TIMEOUT)) == 0


# --- Second chances ---


def chances(**policy: float) -> SecondChances:
    return SecondChances(ChancePolicy(**policy))  # type: ignore[arg-type]


def test_a_missed_id_gets_some_rounds_each_later_than_the_last() -> None:
    second = chances(after=10.0, rounds=3)
    second.noted(0.0, [Entry(7, 8, Mark.MISSED, "errors")])
    asked = []
    now = 0.0
    while (due := second.wake_at(now)) < float("inf"):
        assert second.asks(due - 0.01, 5) == []
        now = due
        (ask,) = second.asks(now, 5)
        asked.append((now, ask.id))
        entries = second.answered(now, Answer(ask, Verdict.FAILED, 0.1))
        second.noted(now, entries)
        assert [entry.mark for entry in entries] == [Mark.MISSED]
    assert asked == [(10.0, 7), (30.0, 7), (70.0, 7)]


@pytest.mark.parametrize(
    ("verdict", "mark"),
    [
        (Verdict.STORED, Mark.DONE),
        (Verdict.FILTERED, Mark.DONE),
        (Verdict.NOT_FOUND, Mark.HOLE),
        (Verdict.EMBARGOED, Mark.EMBARGOED),
    ],
)
def test_an_answer_ends_the_second_chances(verdict: Verdict, mark: Mark) -> None:
    second = chances()
    second.remember(0.0, {7: Miss(at=0.0)})
    (ask,) = second.asks(900.0, 1)
    assert [entry.mark for entry in second.answered(901.0, Answer(ask, verdict, 0.1))] == [mark]
    assert len(second) == 0


def test_an_outage_uses_up_no_round_and_stops_them_all() -> None:
    second = chances(after=10.0, pause=60.0)
    second.remember(0.0, {7: Miss(), 8: Miss()})
    (ask,) = second.asks(10.0, 1)
    second.heard(11.0, Verdict.DISABLED)
    assert second.answered(11.0, Answer(ask, Verdict.DISABLED, 0.1)) == ()
    assert second.wake_at(11.0) == 71.0
    assert len(second) == 2


def test_second_chances_keep_to_their_share_of_the_budget() -> None:
    second = chances(after=0.0, per_second=2.0)
    second.remember(0.0, {n: Miss() for n in range(100)})
    asked = sum(len(second.asks(tick / 10, 50)) for tick in range(100))
    assert asked <= 21


# --- Small files ---


def test_decisions_are_kept_and_bounded(tmp_path: Path) -> None:
    file = DecisionFile(tmp_path / "d.jsonl")
    for at in range(2500):
        file.keep(Decision(float(at), "adaptive", 5, 25.0, 20.0, None, "steady"))
    lines = (tmp_path / "d.jsonl").read_text().splitlines()
    assert 1000 <= len(lines) < 2000
    assert '"at": 2499.0' in lines[-1]


def test_the_head_is_remembered_and_a_torn_file_is_none(tmp_path: Path) -> None:
    file = HeadFile(tmp_path / "head.json")
    file.saw(5, 1.5)
    file.keep()
    assert HeadFile(tmp_path / "head.json").read() == [(5, 1.5)]
    (tmp_path / "head.json").write_text("[[5,")
    assert HeadFile(tmp_path / "head.json").read() == []
