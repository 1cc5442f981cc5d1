"""The report kit: escaped, whole, and true to its figures."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from trawlnet.observe.report.chart import Column, bars, columns, lines, number, short
from trawlnet.observe.report.html import Html, tag
from trawlnet.observe.report.page import Report, Tile, render

EVIL = "<script>alert('x')</script>\" onload=\"boom"


def test_whatever_a_stranger_calls_himself_is_text():
    page = render(
        Report(
            EVIL,
            EVIL,
            [Tile(EVIL, EVIL)],
            [
                bars(EVIL, [(EVIL, 3)], Column(EVIL, EVIL), first=EVIL, note=EVIL),
                columns(EVIL, [(EVIL, 3)], Column(EVIL), first=EVIL),
                lines(EVIL, [EVIL, "b"], {EVIL: [1, 2], "c": [None, 3]}, EVIL),
            ],
        )
    )
    assert "<script" not in page and 'onload="' not in page
    assert "&lt;script&gt;" in page


def test_a_page_loads_nothing_from_anywhere():
    page = render(Report("t", "l", [], [bars("b", [("x", 1)], Column("n"), first="f")]))
    assert not re.search(r"(?:src|href)=|url\(|@import", page)
    assert "default-src &#x27;none&#x27;" in page and page.startswith("<!doctype html>")


def test_every_figure_of_a_picture_is_in_its_table():
    made = columns("c", [("jan", 12345), ("feb", 0.125)], Column("size", "MB"), first="month")
    table = made[made.index("<table") :]
    assert "12,345" in table and "0.125" in table and "jan" in table and "size, MB" in table


def test_nothing_is_said_to_be_nothing():
    for made in (
        bars("b", [], Column("n"), first="f"),
        columns("c", [], Column("n"), first="f"),
        lines("l", [], {}, "s"),
        lines("l", ["a"], {"x": [None]}, "s"),
    ):
        assert "Nothing to show" in made


@given(st.lists(st.floats(0, 1e15), min_size=1, max_size=40))
def test_no_bar_leaves_the_picture(values: list[float]):
    made = columns("c", [(str(n), v) for n, v in enumerate(values)], Column("n"), first="f")
    for y, height in re.findall(r'y="([-\d.]+)" height="([-\d.]+)"', made):
        assert float(y) >= 0 and float(height) >= 0 and float(y) + float(height) <= 260


@given(st.lists(st.one_of(st.none(), st.floats(0, 1e9)), min_size=1, max_size=30))
def test_no_line_leaves_the_picture(values: list[float | None]):
    made = lines("l", [str(n) for n in range(len(values))], {"a": values}, "s")
    for x, y in re.findall(r"[ML]([-\d.]+) ([-\d.]+)", made):
        assert 0 <= float(x) <= 720 and 0 <= float(y) <= 260


def test_numbers_are_written_for_people():
    assert [number(v) for v in (1234567, 0.1234, 12345.6, 7.0)] == [
        "1,234,567",
        "0.123",
        "12,346",
        "7",
    ]
    assert [short(v) for v in (0, 1500, 2_000_000, 0.25)] == ["0", "1.5 k", "2 M", "0.25"]


def test_attributes_are_named_as_html_names_them():
    assert tag("td", "a & b", class_="x", aria_label='"') == Html(
        '<td class="x" aria-label="&quot;">a &amp; b</td>'
    )
