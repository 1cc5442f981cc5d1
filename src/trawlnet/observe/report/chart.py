"""Pictures as inline SVG, each a figure with its unit and the table of what it shows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from trawlnet.observe.report.html import Html, breakable, joined, tag, text

Rows = Sequence[tuple[str, float]]

_WIDTH, _HEIGHT = 720, 260
_LEFT, _RIGHT, _TOP, _BOTTOM = 58, 10, 14, 28
_GROUND = _HEIGHT - _BOTTOM
_LINES = 4
_WIDEST = 90.0  # A single column is no wall.
LETTER = 7.5  # Width of one, about, in a name or a number beside a picture.
_NAME = 16  # Letters of a name below a picture.
_BESIDE = 8  # Between a number and its line.
_BETWEEN = 14.0  # Two names.
_THINNEST = 1.5  # What is not nothing must not look so.


@dataclass(frozen=True, slots=True)
class Column:
    """One table column that can stand beside a chart's own."""

    name: str
    unit: str = ""


def bars(
    title: str, rows: Rows, column: Column, *, first: str, note: str = "", whole: float = 0.0
) -> Html:
    """A bar beside each word, longest first as given. Shares are of the rows together, unless
    there is a whole that they are parts of."""
    most = max((value for _, value in rows), default=0.0)
    total = whole or sum(value for _, value in rows)
    body = [
        tag(
            "tr",
            tag("th", breakable(name), scope="row"),
            tag("td", _bar(value, most), class_="bar"),
            tag("td", number(value), class_="number"),
            tag("td", f"{value / total:.1%}" if total else "", class_="number soft"),
        )
        for name, value in rows
    ]
    head = tag(
        "tr",
        tag("th", first, scope="col"),
        tag("th", tag("span", "as a bar", class_="hidden"), scope="col"),
        tag("th", _with_unit(column), scope="col", class_="number"),
        tag("th", "share", scope="col", class_="number"),
    )
    table = tag("table", tag("thead", head), tag("tbody", *body), class_="bars")
    return _figure(title, note, tag("div", table, class_="scroll") if rows else _nothing())


def columns(
    title: str, rows: Rows, column: Column, *, first: str, note: str = "", letter: float = LETTER
) -> Html:
    """Upright bars in their given order: over time, or over sizes. `letter` is how wide one is."""
    if not rows:
        return _figure(title, note, _nothing())
    axis = _axis([value for _, value in rows], letter)
    wide = min((_WIDTH - axis.left - _RIGHT) / len(rows), _WIDEST)
    drawn = [
        tag(
            "rect",
            tag("title", f"{name}: {number(value)}{_suffix(column)}"),
            x=_round(axis.left + n * wide + wide * 0.12),
            width=_round(max(wide * 0.76, 0.5)),
            y=_round(axis.y(value) if not value else min(axis.y(value), _GROUND - _THINNEST)),
            height=_round(max(_GROUND - axis.y(value), _THINNEST if value else 0.0)),
        )
        for n, (name, value) in enumerate(rows)
    ]
    names = _names([name for name, _ in rows], axis.left + wide / 2, wide, letter)
    picture = _svg(title, joined(axis.grid(), tag("g", *drawn, class_="fill"), *names))
    return _figure(title, _noted(note, column), picture, _table(first, [column], _cells(rows)))


def lines(
    title: str,
    places: Sequence[str],
    series: Mapping[str, Sequence[float | None]],
    unit: str,
    *,
    first: str = "time",
    note: str = "",
    letter: float = LETTER,
) -> Html:
    """One line for each series over the same places; None leaves a gap."""
    values = [value for line in series.values() for value in line if value is not None]
    if not places or not values:
        return _figure(title, note, _nothing())
    axis = _axis(values, letter)
    step = (_WIDTH - axis.left - _RIGHT) / max(1, len(places) - 1)
    if len(places) == 1:
        places, series = [*places, ""], {name: [*line, *line] for name, line in series.items()}
    drawn = [
        tag("path", d=_path(line, axis, step), class_=f"line line{n}")
        for n, line in enumerate(series.values())
    ]
    names = _names(places, axis.left, step, letter)
    picture = _svg(title, joined(axis.grid(), *drawn, *names))
    cells = [
        (places[n], *(line[n] for line in series.values()))
        for n in range(max(0, len(places) - _TABLE), len(places))
    ]
    table = _table(first, [Column(name, unit) for name in series], cells)
    return _figure(title, _noted(note, Column("", unit)), _legend(series), picture, table)


def figures(
    title: str,
    heads: Sequence[Column],
    rows: Sequence[tuple[object, ...]],
    *,
    first: str,
    note: str = "",
) -> Html:
    """A table by itself, for what no picture can show at one scale."""
    return _figure(title, note, tag("div", _plain(first, heads, rows), class_="scroll"))


def number(value: float | None) -> str:
    """Whole with commas; a fraction with three figures."""
    if value is None:
        return "–"  # noqa: RUF001 - a dash for "not known" is wider than a hyphen.
    if float(value).is_integer():
        return f"{int(value):,}"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


_TABLE = 500  # Rows of a table behind a picture.
_LEAST = 1e-9  # Less than this is nothing.


@dataclass(frozen=True, slots=True)
class _Axis:
    step: float
    count: int
    letter: float

    @property
    def left(self) -> float:
        """Where the picture begins: beside the widest number."""
        longest = max(len(short(n * self.step)) for n in range(self.count + 1))
        return max(_LEFT, longest * self.letter + 2 * _BESIDE)

    def y(self, value: float) -> float:
        return _GROUND - value / (self.step * self.count) * (_GROUND - _TOP)

    def grid(self) -> Html:
        marks = []
        for n in range(self.count + 1):
            y = _round(self.y(n * self.step))
            left = self.left
            marks.append(tag("line", x1=_round(left), x2=_WIDTH - _RIGHT, y1=y, y2=y))
            where = _round(left - _BESIDE)
            marks.append(tag("text", short(n * self.step), x=where, y=y, dy="0.32em"))
        return tag("g", *marks, class_="grid")


def _axis(values: Sequence[float], letter: float) -> _Axis:
    """Round distances between lines, of which about `_LINES` are needed; of things that are
    counted, there are no halves."""
    most = max(values)
    rough = (most if most > _LEAST else 1.0) / _LINES
    if all(float(value).is_integer() for value in values):
        rough = max(rough, 1.0)
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * unit for unit in (1, 2, 2.5, 5, 10) if power * unit >= rough * 0.999)
    return _Axis(step, max(1, math.ceil(most / step - 1e-9)), letter)


def _names(names: Sequence[str], first: float, step: float, letter: float) -> list[Html]:
    """Those names below a picture that have room, none beyond its edges; the table has them all."""
    told = [name if len(name) <= _NAME else f"{name[: _NAME - 1]}…" for name in names]
    wide = max(map(len, told)) * letter
    every = max(1, math.ceil((wide + _BETWEEN) / step)) if step > 0.0 else 1
    made, free = [], 0.0
    for n in range(0, len(told), every):
        half = len(told[n]) * letter / 2
        x = min(max(first + n * step, half), _WIDTH - half)
        if told[n] and x - half >= free:
            made.append(tag("text", told[n], x=_round(x), y=_HEIGHT - 8, class_="name"))
            free = x + half + _BETWEEN
    return made


def short(value: float) -> str:
    """A number for an axis: 1.5 M, 20 k, 0.25."""
    for size, letter in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if abs(value) >= size:
            return f"{value / size:g}{letter}"
    return f"{value:g}"


def _bar(value: float, most: float) -> Html:
    wide = max(200.0 * value / most, 2.0 if value else 0.0) if most else 0.0
    inner = tag("rect", width=_round(wide), height=10, rx=2)
    return tag(
        "svg",
        inner,
        viewBox="0 0 200 10",
        class_="fill",
        aria_hidden="true",
        preserveAspectRatio="none",
    )


def _path(line: Sequence[float | None], axis: _Axis, step: float) -> str:
    parts, pen_up = [], True
    for n, value in enumerate(line):
        if value is None:
            pen_up = True
            continue
        x = _round(axis.left + n * step)
        parts.append(f"{'M' if pen_up else 'L'}{x} {_round(axis.y(value))}")
        pen_up = False
    return "".join(parts)


def _svg(title: str, inner: Html) -> Html:
    size = f"0 0 {_WIDTH} {_HEIGHT}"
    picture = tag("svg", inner, viewBox=size, role="img", aria_label=title)
    # Too wide for a telephone, it is moved rather than made too small to read.
    return tag("div", picture, class_="scroll picture")


def _legend(series: Mapping[str, Sequence[float | None]]) -> Html:
    if len(series) < 2:
        return Html("")
    keys = [tag("li", tag("span", class_=f"key line{n}"), name) for n, name in enumerate(series)]
    return tag("ul", *keys, class_="legend")


def _table(first: str, heads: Sequence[Column], rows: Sequence[tuple[object, ...]]) -> Html:
    summary = tag("summary", "The figures as a table")
    return tag("details", summary, tag("div", _plain(first, heads, rows), class_="scroll"))


def _plain(first: str, heads: Sequence[Column], rows: Sequence[tuple[object, ...]]) -> Html:
    head = tag(
        "tr",
        tag("th", first, scope="col"),
        *(tag("th", _with_unit(column), scope="col", class_="number") for column in heads),
    )
    return tag("table", tag("thead", head), tag("tbody", *map(_row, rows)))


def _row(row: tuple[object, ...]) -> Html:
    values = (tag("td", _shown(value), class_="number") for value in row[1:])
    first = breakable(row[0]) if isinstance(row[0], str) else row[0]
    return tag("tr", tag("th", first, scope="row"), *values)


def _cells(rows: Rows) -> list[tuple[object, ...]]:
    return [(name, value) for name, value in rows]


def _shown(value: object) -> str:
    return number(value) if isinstance(value, int | float) or value is None else str(value)


def _figure(title: str, note: str, *parts: Html) -> Html:
    caption = tag("figcaption", tag("h2", title), tag("p", note) if note else "")
    return tag("figure", caption, *parts)


def _nothing() -> Html:
    return tag("p", "Nothing to show.", class_="soft")


def _noted(note: str, column: Column) -> str:
    return note or (f"{column.name}, {column.unit}".strip(", ") if column.unit else column.name)


def _with_unit(column: Column) -> Html:
    return text(f"{column.name}, {column.unit}" if column.unit and column.name else column.name)


def _suffix(column: Column) -> str:
    return f" {column.unit or column.name}".rstrip()


def _round(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
