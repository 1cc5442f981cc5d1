"""Formats numbers for pages and for axes."""

from __future__ import annotations


def number(value: float | None) -> str:
    """A whole number with commas; a fraction with three significant digits."""
    if value is None:
        return "–"  # noqa: RUF001 - a dash for "not known" is wider than a hyphen.
    if float(value).is_integer():
        return f"{int(value):,}"
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def short(value: float) -> str:
    """A number for an axis: 1.5 M, 20 k, 0.25."""
    for size, letter in ((1e9, " G"), (1e6, " M"), (1e3, " k")):
        if abs(value) >= size:
            return f"{value / size:g}{letter}"
    return f"{value:g}"
