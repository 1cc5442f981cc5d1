"""What a rehearsal is judged by, on journals written by hand."""

from __future__ import annotations

from trawlnet.crawlers.ids.measures import Moments, measure
from trawlnet.crawlers.ids.rehearsal import Journal

FIRST, OPENED = 1_000, 600.0


def journal(fetched: dict[int, float]) -> Journal:
    return Journal(0.0, fetched=fetched, withheld={FIRST, FIRST + 1, FIRST + 2})


def release(written: Journal, opened: float | None = OPENED) -> float | None:
    return measure(written, Moments(2_000.0, 0.0, released_at=opened)).m8_release_s


def test_a_release_takes_until_the_last_id_that_was_withheld_is_there() -> None:
    there = {FIRST: 601.0, FIRST + 1: 690.25, FIRST + 2: 612.0, FIRST + 9: 1_900.0}
    assert release(journal(there)) == 90.2


def test_a_release_is_not_over_while_one_is_missing() -> None:
    assert release(journal({FIRST: 601.0, FIRST + 2: 612.0})) is None


def test_where_nothing_was_withheld_nothing_is_released() -> None:
    assert release(Journal(0.0, fetched={FIRST: 601.0})) is None
    assert release(journal({FIRST + n: 601.0 for n in range(3)}), opened=None) is None
