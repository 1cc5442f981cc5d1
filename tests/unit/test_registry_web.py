"""The pure parts behind the registry's page: buckets, pictures, markup, manners."""

from __future__ import annotations

import asyncio
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trawlnet.crawlers.pds.web.buckets import Buckets, neighbourhood
from trawlnet.crawlers.pds.web.chart import Hour, bars_over_time, share_bar
from trawlnet.crawlers.pds.web.description import description
from trawlnet.crawlers.pds.web.markup import Markup, fill
from trawlnet.crawlers.pds.web.page import Notice, _form, hours_of
from trawlnet.crawlers.pds.web.prompt import PromptBooks
from trawlnet.crawlers.pds.web.register import domain_of
from trawlnet.crawlers.pds.web.serving import desk_manners
from trawlnet.engine.rules import Manners
from trawlnet.tables.errors import TablesUnreachable
from trawlnet.tables.registry_rules import PdsRow
from trawlnet.tables.registry_stats import HourlyScans

NOW = 1_800_000_000.0


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


@given(st.text(max_size=40))
def test_whatever_is_put_into_a_template_stays_text(text: str) -> None:
    for markup in (
        fill("told", kind="bad", role="alert", text=text),
        _form(Notice(text, good=False, value=text)),
    ):
        assert "<script" not in markup
        assert markup.count("<p ") <= 1
        assert isinstance(markup, Markup)
    shown = fill("host_error", text=text)
    assert shown.count("<") == 2


def test_a_template_with_a_hole_in_it_is_a_mistake() -> None:
    with pytest.raises(KeyError):
        fill("told", kind="bad")


@given(st.lists(st.tuples(*[st.integers(0, 10**9)] * 3), max_size=48))
def test_a_picture_is_sound_whatever_the_figures(figures: list[tuple[int, int, int]]) -> None:
    hours = [Hour("01-02 03:00", *counts) for counts in figures]
    root = ElementTree.fromstring(bars_over_time(hours))
    bars = root.findall(".//rect")
    assert len(bars) == sum(1 for counts in figures for count in counts if count)
    for bar in bars:
        assert float(bar.attrib["height"]) >= 1.0
        assert -4.5 <= float(bar.attrib["y"]) <= 240.0


@given(st.integers(0, 10**9), st.integers(0, 10**9))
def test_a_share_is_never_longer_than_the_whole(one: int, other: int) -> None:
    bar = ElementTree.fromstring(share_bar(one, max(one, other)))[1]
    assert 0.0 <= float(bar.attrib["width"]) <= 200.0


def test_hours_without_a_scan_are_there_too() -> None:
    hour = NOW // 3600 * 3600
    scans = [HourlyScans(hour, {"completed": 2, "partial": 1, "failed": 4, "put_off": 8})]
    hours = hours_of(scans, NOW)
    assert len(hours) == 48
    last = hours[-1]
    assert (last.ended, last.put_off, last.failed) == (3, 8, 4)
    assert sum(one.total for one in hours[:-1]) == 0


@pytest.mark.parametrize("per_minute", [0.5, 1.0, 1.9, 10.0, 60.0, 6000.0])
def test_the_desk_asks_no_more_often_than_it_may(per_minute: float) -> None:
    desk = desk_manners(Manners(rate=per_minute / 60.0))
    assert 0.0 < desk.rate <= per_minute / 60.0
    assert desk.burst == 1 or desk.burst + desk.rate * 60.0 <= per_minute + 1e-6


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
