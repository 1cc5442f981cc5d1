"""Second chances for missed ids, and the small files beside the ledger."""

from __future__ import annotations

from pathlib import Path

import pytest

from trawlnet.crawlers.ids.ledger.notes import DecisionFile, head_file
from trawlnet.crawlers.ids.ledger.second_chances import ChancePolicy, SecondChances
from trawlnet.crawlers.ids.ledger.span_codec import Miss
from trawlnet.crawlers.ids.model import Answer, AnswerVerdict, Decision, LedgerEntry, LedgerMark


def chances(**policy: float) -> SecondChances:
    return SecondChances(ChancePolicy(**policy))  # type: ignore[arg-type]


def test_a_missed_id_gets_some_rounds_each_later_than_the_last() -> None:
    second = chances(after=10.0, rounds=3)
    second.noted(0.0, [LedgerEntry(7, 8, LedgerMark.MISSED, "errors")])
    asked = []
    now = 0.0
    while (due := second.wake_at(now)) < float("inf"):
        assert second.asks(due - 0.01, 5) == []
        now = due
        (ask,) = second.asks(now, 5)
        asked.append((now, ask.id))
        entries = second.answered(now, Answer(ask, AnswerVerdict.FAILED, 0.1))
        second.noted(now, entries)
        assert [entry.mark for entry in entries] == [LedgerMark.MISSED]
        assert len(asked) <= 3, "rounds without end"
    assert asked == [(10.0, 7), (30.0, 7), (70.0, 7)]


@pytest.mark.parametrize(
    ("verdict", "mark"),
    [
        (AnswerVerdict.STORED, LedgerMark.DONE),
        (AnswerVerdict.FILTERED, LedgerMark.DONE),
        (AnswerVerdict.NOT_FOUND, LedgerMark.HOLE),
        (AnswerVerdict.EMBARGOED, LedgerMark.EMBARGOED),
    ],
)
def test_an_answer_ends_the_second_chances(verdict: AnswerVerdict, mark: LedgerMark) -> None:
    second = chances()
    second.remember(0.0, {7: Miss(at=0.0)})
    (ask,) = second.asks(900.0, 1)
    assert [entry.mark for entry in second.answered(901.0, Answer(ask, verdict, 0.1))] == [mark]
    assert len(second) == 0


def test_an_outage_uses_up_no_round_and_stops_them_all() -> None:
    second = chances(after=10.0, pause=60.0)
    second.remember(0.0, {7: Miss(), 8: Miss()})
    (ask,) = second.asks(10.0, 1)
    second.heard(11.0, AnswerVerdict.DISABLED)
    assert second.answered(11.0, Answer(ask, AnswerVerdict.DISABLED, 0.1)) == ()
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
    file = head_file(tmp_path / "head.json")
    file.saw(5, 1.5)
    file.keep()
    assert head_file(tmp_path / "head.json").before == [(5, 1.5)]
    (tmp_path / "head.json").write_text("[[5,")
    assert head_file(tmp_path / "head.json").before == []
