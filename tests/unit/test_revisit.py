"""When to come back to a page."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trawlnet.crawlers.web.revisit import LastLook, RevisitRule, due_by_sitemap, next_interval

RULE = RevisitRule(first=1_000.0, shortest=100.0, longest=10_000.0)
SEEN = LastLook(at=50_000.0, interval=2_000.0, sha256="old")


def test_a_new_page_waits_the_first_interval() -> None:
    assert next_interval(RULE, None, "any") == 1_000.0


def test_sooner_when_changed_later_when_not() -> None:
    assert next_interval(RULE, SEEN, "new") == 1_000.0
    assert next_interval(RULE, SEEN, "old") == 3_000.0


def test_a_page_without_an_interval_starts_from_the_first() -> None:
    assert next_interval(RULE, LastLook(0.0, None, "old"), "old") == 1_500.0


def test_a_sitemap_that_says_the_page_rests_is_believed() -> None:
    assert next_interval(RULE, SEEN, "old", lastmod=50_000.0 - 9_000.0) == 4_500.0
    assert next_interval(RULE, SEEN, "new", lastmod=0.0) == 1_000.0, "we saw otherwise"


def test_a_sitemap_brings_new_and_changed_pages_forward() -> None:
    assert due_by_sitemap(None, None)
    assert due_by_sitemap(SEEN, 50_001.0)
    assert not due_by_sitemap(SEEN, 50_000.0)
    assert not due_by_sitemap(SEEN, None)


@given(
    st.floats(0, 1e9),
    st.none() | st.floats(0, 1e9),
    st.sampled_from(["old", "new"]),
    st.none() | st.floats(-1e9, 1e9),
)
def test_the_bounds_hold(
    at: float, interval: float | None, sha256: str, lastmod: float | None
) -> None:
    found = next_interval(RULE, LastLook(at, interval, "old"), sha256, lastmod)
    assert RULE.shortest <= found <= RULE.longest


@pytest.mark.parametrize("rhythm", [400.0, 1_500.0, 6_000.0])
def test_a_page_is_visited_about_as_often_as_it_changes(rhythm: float) -> None:
    now, interval, before, intervals = 0.0, RULE.first, "0", []
    for _ in range(200):
        now += interval
        sha256 = str(int(now // rhythm))
        interval = next_interval(RULE, LastLook(now - interval, interval, before), sha256)
        before = sha256
        intervals.append(interval)
    settled = intervals[100:]
    assert rhythm / 3 < sum(settled) / len(settled) < rhythm * 1.5


@pytest.mark.parametrize(
    "wrong", [{"shortest": 0.0}, {"first": 1.0}, {"longest": 1.0}, {"when_changed": 2.0}]
)
def test_rules_that_make_no_sense_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="expected"):
        RevisitRule(**wrong)
