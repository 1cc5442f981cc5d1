"""Figures for all pages: bars, columns, lines and tables, each with its unit and its numbers.

What is drawn is worked out here, and written as HTML and inline SVG by `templates/figures.html`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from trawlnet.observe.reports import html
from trawlnet.observe.reports.numbers import number, short

Rows = Sequence[tuple[str, float]]
Cells = Sequence[Sequence[object]]

_WIDTH, _HEIGHT = 720, 260
_LEFT, _RIGHT, _TOP, _BOTTOM = 58, 10, 14, 28
_GROUND = _HEIGHT - _BOTTOM
_BAR = 200.0  # Length of the longest bar beside a name.
_LINES = 4
_WIDEST = 90.0  # Width of a column at most, even if there is only one.
_FILLED = 0.76  # Share of a column's space that the column fills.
LETTER = 7.5  # Approximate width of a letter in a name or a number beside a chart.
_WIDEST_LETTERS = frozenset("mwMW@%…")
_NAME = 16  # Letters of a name below a chart.
_BESIDE = 8  # Space between a number and its line.
_BETWEEN = 14.0  # Space between two names.
_THINNEST = 1.5  # Height of a value that is not 0, at least.
_TABLE = 500  # Rows of the table behind a chart.
_NARROW = 3  # Columns of a table that fits beside another.
_LEAST = 1e-9  # Smaller values count as 0.

_html = html.macros(__package__, "figures.html")


@dataclass(frozen=True, slots=True)
class ExtraColumn:
    """A further column of a chart's table."""

    name: str
    unit: str = ""


@dataclass(frozen=True, slots=True)
class Stack:
    """One part of stacked columns: its name, its colour, and a count for each column."""

    name: str
    kind: str  # good, wait, bad.
    counts: Sequence[int]


def bars(
    title: str, rows: Rows, column: ExtraColumn, *, first: str, note: str = "", whole: float = 0.0
) -> Markup:
    """A bar beside each name, in the order of the rows. Shares are of the sum of the rows, unless
    `whole` is set."""
    most = max((value for _, value in rows), default=0.0)
    total = whole or sum(value for _, value in rows)
    shown = [
        (name, _length(value, most), number(value), f"{value / total:.1%}" if total else "")
        for name, value in rows
    ]
    return _html.bars(title, note, first, _with_unit(column), shown)


def columns(
    title: str,
    rows: Rows,
    column: ExtraColumn,
    *,
    first: str,
    note: str = "",
    letter: float = LETTER,
) -> Markup:
    """Upright bars in the order of the rows: over time, or over sizes; `letter` is its width."""
    names = [name for name, _ in rows]
    labels = [
        f"{name}: {number(value)} {column.unit or column.name}".rstrip() for name, value in rows
    ]
    picture = _stacked(names, labels, [("good", [value for _, value in rows])], letter)
    cells = [(name, [value]) for name, value in rows]
    return _drawn(title, _noted(note, column), (), picture, [ExtraColumn(first), column], cells)


def stacked(title: str, names: Sequence[str], stacks: Sequence[Stack], *, first: str) -> Markup:
    """Columns that consist of parts."""
    counts = list(zip(*(stack.counts for stack in stacks), strict=True))
    labels = [
        f"{name}: " + ", ".join(f"{n:,} {one.name}" for one, n in zip(stacks, row, strict=True))
        for name, row in zip(names, counts, strict=True)
    ]
    any_at_all = any(map(any, counts))
    parts = [(stack.kind, stack.counts) for stack in stacks]
    picture = _stacked(names, labels, parts, LETTER) if any_at_all else None
    keys = [(stack.name, stack.kind) for stack in stacks]
    heads = [ExtraColumn(first), *(ExtraColumn(stack.name) for stack in stacks)]
    return _drawn(title, "", keys, picture, heads, list(zip(names, counts, strict=True)))


def lines(
    title: str,
    places: Sequence[str],
    series: Mapping[str, Sequence[float | None]],
    unit: str,
    *,
    first: str = "time",
    note: str = "",
    letter: float = LETTER,
) -> Markup:
    """One line for each series over the same points; None leaves a gap."""
    values = [value for line in series.values() for value in line if value is not None]
    if not places or not values:
        return _drawn(title, note, (), None, [], [])
    axis = _axis(values, letter)
    step = (_WIDTH - axis.left - _RIGHT) / max(1, len(places) - 1)
    if len(places) == 1:
        places, series = [*places, ""], {name: [*line, *line] for name, line in series.items()}
    paths = [(f"line{n}", _path(line, axis, step)) for n, line in enumerate(series.values())]
    picture = _picture(axis, names=_names(places, axis.left, step, letter), paths=paths)
    rows = list(zip(places, zip(*series.values(), strict=True), strict=True))[-_TABLE:]
    keys = [(name, f"line{n}") for n, name in enumerate(series)]
    heads = [ExtraColumn(first), *(ExtraColumn(name, unit) for name in series)]
    return _drawn(title, _noted(note, ExtraColumn("", unit)), keys, picture, heads, rows)


def table(title: str, heads: Sequence[str], rows: Cells, *, note: str = "") -> Markup:
    """A table without a chart, for values of different scales. Each row begins with its name."""
    sides = [_side(column) for column in zip(*rows, strict=True)] or [None] * len(heads)
    cells = [(_shown(name), [_shown(value) for value in values]) for name, *values in rows]
    named = list(zip(heads, sides, strict=True))
    wide = "wide" if len(heads) > _NARROW else None
    return _html.table(title, note, named, cells, wide)


def _side(column: Sequence[object]) -> str | None:
    """The alignment of a column: figures, and the signs for unknown ones, are right-aligned."""
    labels = [cell for cell in column if cell is not None and str(cell) not in ("", number(None))]
    return "number" if labels and all(map(_is_figure, labels)) else None


def _is_figure(cell: object) -> bool:
    return isinstance(cell, int | float) or str(cell)[:1].isdigit()


@dataclass(frozen=True, slots=True)
class _Picture:
    """An SVG in numbers that are rounded and written already."""

    left: str
    beside: str  # The x position at which the numbers of the axis end.
    grid: Sequence[tuple[str, str]]  # The position and the number of each line.
    names: Sequence[tuple[str, str]]
    bars: Sequence[tuple[str, Sequence[tuple[str, ...]]]]  # The tooltip and the parts of each.
    paths: Sequence[tuple[str, str]]
    right: int = _WIDTH - _RIGHT
    width: int = _WIDTH
    height: int = _HEIGHT


@dataclass(frozen=True, slots=True)
class _Axis:
    step: float
    count: int
    left: float  # The left edge of the chart, beside the widest number.

    def y(self, value: float) -> float:
        return _GROUND - value / (self.step * self.count) * (_GROUND - _TOP)


def _axis(values: Sequence[float], letter: float) -> _Axis:
    """About `_LINES` grid lines at round distances; for counts, at whole numbers."""
    most = max(values)
    rough = (most if most > _LEAST else 1.0) / _LINES
    if all(float(value).is_integer() for value in values):
        rough = max(rough, 1.0)
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * unit for unit in (1, 2, 2.5, 5, 10) if power * unit >= rough * 0.999)
    count = max(1, math.ceil(most / step - 1e-9))
    longest = max(len(short(n * step)) for n in range(count + 1))
    return _Axis(step, count, max(_LEFT, longest * letter + 2 * _BESIDE))


def _stacked(
    names: Sequence[str],
    labels: Sequence[str],
    parts: Sequence[tuple[str, Sequence[float]]],
    letter: float,
) -> _Picture | None:
    if not names:
        return None
    heights = list(zip(*(values for _, values in parts), strict=True))
    axis = _axis([sum(column) for column in heights], letter)
    wide = min((_WIDTH - axis.left - _RIGHT) / len(names), _WIDEST)
    kinds = [kind for kind, _ in parts]
    drawn = [
        (words, _column(zip(kinds, column, strict=True), axis, axis.left + n * wide, wide))
        for n, (words, column) in enumerate(zip(labels, heights, strict=True))
    ]
    return _picture(axis, names=_names(names, axis.left + wide / 2, wide, letter), bars=drawn)


def _column(
    parts: Iterable[tuple[str, float]], axis: _Axis, left: float, wide: float
) -> list[tuple[str, ...]]:
    """Its parts on top of each other, clipped to the chart."""
    x, width = _round(left + wide * (1 - _FILLED) / 2), _round(max(wide * _FILLED, 0.5))
    drawn: list[tuple[str, ...]] = []
    ground = float(_GROUND)
    for kind, value in parts:
        if value:
            tall = min(max(_GROUND - axis.y(value), _THINNEST), ground)
            ground -= tall
            drawn.append((kind, x, width, _round(ground), _round(tall)))
    return drawn


def _picture(
    axis: _Axis,
    *,
    names: Sequence[tuple[str, str]],
    bars: Sequence[tuple[str, Sequence[tuple[str, ...]]]] = (),
    paths: Sequence[tuple[str, str]] = (),
) -> _Picture:
    marks = [n * axis.step for n in range(axis.count + 1)]
    grid = [(_round(axis.y(mark)), short(mark)) for mark in marks]
    return _Picture(_round(axis.left), _round(axis.left - _BESIDE), grid, names, bars, paths)


def _names(names: Sequence[str], first: float, step: float, letter: float) -> list[tuple[str, str]]:
    """The names that fit below a chart, within its edges; the table has all of them."""
    cut = [name if len(name) <= _NAME else f"{name[: _NAME - 1]}…" for name in names]
    wide = max(_width(name, letter) for name in cut)
    every = max(1, math.ceil((wide + _BETWEEN) / step)) if step > 0.0 else 1
    made, free = [], 0.0
    for n in range(0, len(cut), every):
        half = _width(cut[n], letter) / 2
        x = min(max(first + n * step, half), _WIDTH - half)
        if cut[n] and x - half >= free:
            made.append((_round(x), cut[n]))
            free = x + half + _BETWEEN
    return made


def _width(name: str, letter: float) -> float:
    """The approximate width of a name, from three classes of letters."""
    widest = sum(one in _WIDEST_LETTERS for one in name)
    wider = sum(one.isupper() or one.isdigit() for one in name if one not in _WIDEST_LETTERS)
    return (len(name) + 0.6 * widest + 0.25 * wider) * letter


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


def _drawn(
    title: str,
    note: str,
    keys: Sequence[tuple[str, str]],
    picture: _Picture | None,
    heads: Sequence[ExtraColumn],
    rows: Sequence[tuple[str, Sequence[object]]],
) -> Markup:
    named = [(_with_unit(head), "number" if n else None) for n, head in enumerate(heads)]
    cells = [(name, [_shown(value) for value in values]) for name, values in rows]
    return _html.drawn(title, note, keys, picture, named, cells)


def _length(value: float, most: float) -> str:
    return _round(max(_BAR * value / most, 2.0 if value else 0.0) if most else 0.0)


def _shown(value: object) -> str:
    return number(value) if isinstance(value, int | float) or value is None else str(value)


def _noted(note: str, column: ExtraColumn) -> str:
    return note or (f"{column.name}, {column.unit}".strip(", ") if column.unit else column.name)


def _with_unit(column: ExtraColumn) -> str:
    return f"{column.name}, {column.unit}" if column.unit and column.name else column.name


def _round(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
