"""The pure parts behind the registry's page: buckets, pictures, markup, manners."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from selectolax.lexbor import LexborHTMLParser

from trawlnet.crawlers.pds.site.buckets import Buckets, neighbourhood
from trawlnet.crawlers.pds.site.description import description
from trawlnet.crawlers.pds.site.page import (
    Notice,
    PageFigures,
    Search,
    overview,
    scans_by_hour,
    single,
)
from trawlnet.crawlers.pds.site.register import domain_of
from trawlnet.crawlers.pds.site.serving import PromptBooks, service_manners
from trawlnet.engine.rules import Manners
from trawlnet.observe.reports import chart
from trawlnet.tables.errors import TablesUnreachable
from trawlnet.tables.registry.browse import BrowsePage, BrowseQuery
from trawlnet.tables.registry.rules import PdsRow, PdsSource, PdsStatus
from trawlnet.tables.registry.stats import HourlyScans, Stats

NOW = 1_800_000_000.0
NO_STATS = Stats(0, 0, 0, 0, 0, 0, {}, {}, {}, {}, [], {})


@given(st.integers(1, 20), st.lists(st.floats(0.0, 30.0), max_size=80))
def test_no_minute_has_more_takes_than_a_bucket_and_its_refill(
    size: int, gaps: list[float]
) -> None:
    buckets, now, taken = Buckets(size, 60.0), NOW, []
    for gap in gaps:
        now += gap
        if buckets.take("somebody", now) == 0.0:
            taken.append(now)
    for begin in taken:
        assert sum(begin <= one < begin + 60.0 for one in taken) <= 2 * size


def test_a_bucket_says_truly_when_to_come_back() -> None:
    buckets = Buckets(3, 60.0)
    assert [buckets.take("a", NOW) for _ in range(3)] == [0.0, 0.0, 0.0]
    wait = buckets.take("a", NOW)
    assert wait == pytest.approx(20.0)
    assert buckets.take("a", NOW + wait - 0.1) > 0.0
    assert buckets.take("a", NOW + wait) == 0.0
    assert buckets.take("b", NOW) == 0.0


def test_a_crowd_does_not_fill_the_memory() -> None:
    buckets = Buckets(2, 60.0, most=100)
    for number in range(5000):
        buckets.take(str(number), NOW)
    assert len(buckets._full_at) <= 100


def test_full_buckets_are_forgotten_first() -> None:
    buckets = Buckets(1, 60.0, most=100)
    for number in range(99):
        buckets.take(str(number), NOW)
    buckets.take("busy", NOW + 59.0)
    buckets.take("one more", NOW + 61.0)
    assert buckets.take("busy", NOW + 61.0) > 0.0


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("192.0.2.1", "192.0.2.2", False),
        ("2001:db8::1", "2001:db8::ffff:1", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("192.0.2.1", "::ffff:192.0.2.1", True),
        ("unix", "", True),
    ],
)
def test_addresses_of_one_customer_count_together(one: str, other: str, same: bool) -> None:
    assert (neighbourhood(one) == neighbourhood(other)) is same


@pytest.mark.parametrize(
    ("url", "domain"),
    [
        ("https://pds.atproto.garden", "atproto.garden"),
        ("https://a.b.example.co.uk", "example.co.uk"),
        ("http://127.0.0.1:3000", "127.0.0.1"),
        ("http://[::1]:3000", "::1"),
    ],
)
def test_hosts_count_for_whom_they_belong_to(url: str, domain: str) -> None:
    assert domain_of(url) == domain


def pending_row(url: str, error: str | None = None) -> PdsRow:
    return PdsRow(
        pds_url=url, discovered_at=NOW, discovery_source=PdsSource.USER,
        status=PdsStatus.PENDING, last_scan_at=None, next_scan_at=None, has_chive_records=None,
        chive_record_count=0, consecutive_failures=0, scan_priority=1, last_error=error,
        is_relay_connected=False, account_count=None, indexed_record_count=0, last_try_at=None,
        last_reason=None, updated_at=NOW, lease_owner=None, lease_until=None,
    )  # fmt: skip


def test_headings_are_words_and_no_names_of_the_code() -> None:
    page = single(pending_row("https://pds.example"), NOW)
    headings = [cell.text() for cell in LexborHTMLParser(page).css("th, dt")]
    assert "Status" in headings
    figures = PageFigures(replace(NO_STATS, by_source={PdsSource.PLC: 3}), [], NOW)
    whole = overview(figures, Search(), None)
    assert "By source" in whole and "PdsSource" not in whole
    assert "Pds" not in "".join(headings)


@given(st.text("<>&\"'a= ", min_size=1, max_size=20))
def test_whatever_a_stranger_writes_stays_text(text: str) -> None:
    row = pending_row(f"https://{text}", text)
    search = Search(BrowseQuery(contains=text), BrowsePage([row], 1, 0, 0))
    page = overview(PageFigures(NO_STATS, [], NOW), search, Notice(text, good=False, value=text))
    read = LexborHTMLParser(page)
    assert read.css_first("#q").attributes["value"] == text
    assert read.css_first("#pds_url").attributes["value"] == text
    assert read.css_first("#told").text() == text
    assert read.css_first(".hosts .error").text() == text
    assert read.css_first(".hosts .host").text() == text
    assert len(read.css("script, img, a.x")) == 0


@given(st.lists(st.tuples(*[st.integers(0, 10**9)] * 3), min_size=1, max_size=48))
def test_a_picture_is_sound_whatever_the_figures(figures: list[tuple[int, int, int]]) -> None:
    kinds = ("good", "wait", "bad")
    stacks = [chart.Stack(kind, kind, [row[n] for row in figures]) for n, kind in enumerate(kinds)]
    made = chart.stacked("Scans", ["01-02 03:00"] * len(figures), stacks, first="Hour")
    drawn = LexborHTMLParser(made).css("svg .fill rect")
    assert len(drawn) == sum(1 for row in figures for count in row if count)
    for bar in drawn:
        top, tall = float(bar.attributes["y"] or 0), float(bar.attributes["height"] or 0)
        assert tall >= 1.0 and top >= 0.0 and top + tall <= 232.1


@given(st.lists(st.integers(0, 10**9), min_size=1, max_size=9))
def test_a_bar_is_never_longer_than_the_longest(counts: list[int]) -> None:
    made = chart.bars("b", [(str(n), n) for n in counts], chart.ExtraColumn("n"), first="f")
    bars = LexborHTMLParser(made).css("td.bar rect")
    assert all(0.0 <= float(bar.attributes["width"] or -1) <= 200.0 for bar in bars)


def test_hours_without_a_scan_are_there_too() -> None:
    hour = NOW // 3600 * 3600
    scans = [HourlyScans(hour, {"completed": 2, "partial": 1, "failed": 4, "put_off": 8})]
    rows = LexborHTMLParser(scans_by_hour(scans, NOW)).css("tbody tr")
    counts = [[int(cell.text()) for cell in row.css("td")] for row in rows]
    assert len(counts) == 48
    assert counts[-1] == [3, 8, 4]
    assert sum(map(sum, counts[:-1])) == 0


@pytest.mark.parametrize("per_minute", [0.5, 1.0, 1.9, 10.0, 60.0, 6000.0])
def test_the_desk_asks_no_more_often_than_it_may(per_minute: float) -> None:
    service = service_manners(Manners(rate=per_minute / 60.0))
    assert 0.0 < service.rate <= per_minute / 60.0
    assert service.burst == 1 or service.burst + service.rate * 60.0 <= per_minute + 1e-6


def test_the_description_shows_each_operation() -> None:
    page = description()
    assert page.count('class="verb"') == 5
    assert "$" not in page


class SlowBooks:
    """A registry that answers when it is told to."""

    def __init__(self) -> None:
        self.now = asyncio.Event()
        self.asked = 0

    async def get(self, url: str) -> PdsRow | None:
        self.asked += 1
        await self.now.wait()
        return None


def test_a_registry_that_hangs_is_given_up_on_and_not_asked_without_end() -> None:
    async def whole() -> tuple[int, int]:
        slow = SlowBooks()
        books = PromptBooks(slow, 0.05)  # type: ignore[arg-type]
        answers = await asyncio.gather(
            *(books.get("x") for _ in range(100)), return_exceptions=True
        )
        assert all(isinstance(one, TablesUnreachable) for one in answers)
        slow.now.set()
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert await books.get("x") is None
        return slow.asked, len(books._waiting)

    asked, waiting = asyncio.run(whole())
    assert asked == 65
    assert waiting == 0
