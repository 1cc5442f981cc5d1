"""Pictures as inline SVG: bars over time, and bars beside words; pure, with no style attribute."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from trawlnet.crawlers.pds.web.markup import Markup, fill, joined

_WIDTH, _HEIGHT = 720, 240
_LEFT, _RIGHT, _TOP, _BOTTOM = 44, 4, 12, 26
_GROUND = _HEIGHT - _BOTTOM
_BAR_WIDTH = 200  # Of a bar beside a word, at its fullest.
_FILLED = 0.72  # Of an hour's width.
_LINES = 4
_NAMED_EVERY = 12  # Hours from one that is named below the picture to the next.
_THINNEST = 1.5  # An hour that was not empty must not look so.


@dataclass(frozen=True, slots=True)
class Hour:
    """The scans that ended in one hour."""

    name: str  # `11-15 07:00`.
    ended: int
    put_off: int
    failed: int

    @property
    def total(self) -> int:
        return self.ended + self.put_off + self.failed


def bars_over_time(hours: Sequence[Hour]) -> Markup:
    """Stacked bars, one an hour; the same figures are to stand in a table beside it."""
    step = _step(max((hour.total for hour in hours), default=0))
    lines = max(1, math.ceil(max((hour.total for hour in hours), default=0) / step))
    scale = (_GROUND - _TOP) / (step * lines)
    wide = (_WIDTH - _LEFT - _RIGHT) / max(1, len(hours))
    return fill(
        "svg_hours",
        width=str(_WIDTH),
        height=str(_HEIGHT),
        grid=joined(_line(n * step, _GROUND - n * step * scale) for n in range(lines + 1)),
        bars=joined(_bar(hour, _LEFT + n * wide, wide, scale) for n, hour in enumerate(hours)),
        labels=joined(
            fill("svg_label", x=_figure(_LEFT + (n + 0.5) * wide), y=_HEIGHT - 6, text=hour.name)
            for n, hour in enumerate(hours)
            if n % _NAMED_EVERY == _NAMED_EVERY // 2
        ),
    )


def share_bar(count: int, most: int) -> Markup:
    """A bar as long as a count is large; the count itself stands beside it."""
    width = _BAR_WIDTH * count / most if most else 0.0
    return fill("svg_share", width=_figure(max(width, 2.0 if count else 0.0)), full=str(_BAR_WIDTH))


def _line(value: int, y: float) -> Markup:
    return fill("svg_line", y=_figure(y), left=_LEFT, right=_WIDTH - _RIGHT, label=value)


def _bar(hour: Hour, left: float, wide: float, scale: float) -> Markup:
    top = float(_GROUND)
    parts = []
    for kind, count in (("good", hour.ended), ("wait", hour.put_off), ("bad", hour.failed)):
        if not count:
            continue
        tall = max(count * scale, _THINNEST)
        top -= tall
        x, width = _figure(left + wide * (1 - _FILLED) / 2), _figure(wide * _FILLED)
        parts.append(
            fill("svg_bar", kind=kind, x=x, width=width, y=_figure(top), height=_figure(tall))
        )
    return fill(
        "svg_hour",
        name=hour.name,
        ended=hour.ended,
        put_off=hour.put_off,
        failed=hour.failed,
        bars=joined(parts),
    )


def _step(most: int) -> int:
    """A round distance between lines, of which about `_LINES` are needed."""
    rough = max(1.0, most / _LINES)
    power = 10 ** math.floor(math.log10(rough))
    return next(int(power * unit) for unit in (1, 2, 5, 10) if power * unit >= rough)


def _figure(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")
