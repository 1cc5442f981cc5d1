"""The report kit: escaped, whole, and true to its figures."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jinja2 import UndefinedError
from markupsafe import Markup

from trawlnet.observe.reports.chart import ExtraColumn, bars, columns, lines, table
from trawlnet.observe.reports.html import breakable, macros
from trawlnet.observe.reports.html import render as render_template
from trawlnet.observe.reports.numbers import number, short
from trawlnet.observe.reports.page import Report, Tile, render

SHARED = "trawlnet.observe.reports"

EVIL = "<script>alert('x')</script>\" onload=\"boom"


def test_whatever_a_stranger_calls_himself_is_text():
    page = render(
        Report(
            EVIL,
            EVIL,
            [Tile(EVIL, EVIL)],
            [
                bars(EVIL, [(EVIL, 3)], ExtraColumn(EVIL, EVIL), first=EVIL, note=EVIL),
                columns(EVIL, [(EVIL, 3)], ExtraColumn(EVIL), first=EVIL),
                lines(EVIL, [EVIL, "b"], {EVIL: [1, 2], "c": [None, 3]}, EVIL),
                table(EVIL, [EVIL, "b"], [(EVIL, EVIL)], note=EVIL),
            ],
        )
    )
    assert "<script" not in page and 'onload="' not in page
    assert "&lt;script&gt;" in page


def test_a_page_loads_nothing_from_anywhere():
    page = render(Report("t", "l", [], [bars("b", [("x", 1)], ExtraColumn("n"), first="f")]))
    assert not re.search(r"(?:src|href)=|url\(|@import", page)
    assert "default-src 'none'" in page and page.startswith("<!doctype html>")


def test_every_figure_of_a_picture_is_in_its_table():
    made = columns("c", [("jan", 12345), ("feb", 0.125)], ExtraColumn("size", "MB"), first="month")
    table = made[made.index("<table") :]
    assert "12,345" in table and "0.125" in table and "jan" in table and "size, MB" in table


def test_nothing_is_said_to_be_nothing():
    for made in (
        bars("b", [], ExtraColumn("n"), first="f"),
        columns("c", [], ExtraColumn("n"), first="f"),
        lines("l", [], {}, "s"),
        lines("l", ["a"], {"x": [None]}, "s"),
        table("t", ["a", "b"], []),
    ):
        assert "Nothing to show" in made


@given(st.lists(st.floats(0, 1e15), min_size=1, max_size=40))
def test_no_bar_leaves_the_picture(values: list[float]):
    made = columns("c", [(str(n), v) for n, v in enumerate(values)], ExtraColumn("n"), first="f")
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


def test_a_macro_returns_markup_and_escapes_what_it_is_given():
    made = macros(SHARED, "figures.html").tile(Tile('a & "b"', "<c>"))
    assert isinstance(made, Markup)
    assert "a &amp; &#34;b&#34;" in made and "&lt;c&gt;" in made


def test_a_name_is_broken_where_its_parts_end_and_stays_text():
    assert breakable("a.b/<c>") == Markup("a.<wbr>b/<wbr>&lt;c&gt;")


def test_a_template_that_is_not_told_a_value_is_a_mistake():
    with pytest.raises(UndefinedError):
        render_template(SHARED, "report.html", style="")


def test_figures_of_a_table_stand_below_each_other_and_words_do_not():
    made = table("t", ["law", "lag", "state"], [("a", 1.5, "alive"), ("b", None, "dead")])
    assert '<td class="number">1.5</td><td>alive</td>' in made
    assert '<td class="number">–</td>' in made  # noqa: RUF001 - not known.
