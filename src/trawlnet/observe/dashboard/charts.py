"""The charts of the page: the history over the time span that a viewer chooses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from itertools import pairwise

from markupsafe import Markup

from trawlnet.observe.dashboard.place import Draw, Panel
from trawlnet.observe.history import Sample
from trawlnet.observe.reports import chart

SPANS: Mapping[str, tuple[str, float]] = {
    "hour": ("last hour", 3600.0),
    "day": ("last day", 86_400.0),
    "season": ("all", 60 * 86_400.0),
}
POINTS = 120  # Points of one line; a laptop's screen cannot show more.
_GAP = 4  # Steps without a sample after which the line is interrupted.
_MB, _GB = 1e6, 1e9
_LETTER = 13.5  # The charts are small: letters are twice as wide in them as in a report.
_ATTEMPTS = ("keys done", "attempts", "failed attempts")
# A registry is shared: scans by all processes count as done, but only our own steps as attempts.
_STEPS = ("PDSes done, by all processes", "steps of scans here", "failed steps")

Line = Sequence[float | None]


def pictures(crawler: str, samples: Sequence[Sample], span: str) -> Mapping[str, Markup]:
    """The charts, by the name of their place on the page."""
    samples = _with_gaps(samples)
    named = _clock(samples, span)
    places = [f"{datetime.fromtimestamp(sample.at, UTC):{named}}" for sample in samples]

    def lines(title: str, unit: str, series: Mapping[str, Line], note: str = "") -> Markup:
        note = note or _capital(unit)
        return chart.lines(title, places, series, unit, note=note, letter=_LETTER)

    made = {
        "throughput": lines(
            "Throughput",
            "per second",
            dict(
                zip(
                    _STEPS if crawler == "pds" else _ATTEMPTS,
                    (_speed(samples, name) for name in ("done", "attempts", "errors")),
                    strict=True,
                )
            ),
        ),
        "queue": lines(
            "Queue", "keys", {"open": _line(samples, "open"), "blocked": _line(samples, "blocked")}
        ),
        "crew": lines(
            "Tasks in flight",
            "tasks",
            {
                "in flight": _line(samples, "in_flight"),
                "limit": _line(samples, "workers"),
            },
        ),
        "memory": lines("Memory", "MB", {"crawl process": _line(samples, "memory", _MB)}),
        "disk": lines("Free disk space", "GB", {"free": _line(samples, "disk_free", _GB)}),
    }
    if any("commits" in sample.values for sample in samples):
        speeds = {name: _speed(samples, name) for name in ("commits", "verified", "rejected")}
        made["commits"] = lines("Live commits", "per second", speeds)
        behind = {"furthest firehose": _line(samples, "seconds behind")}
        made["behind"] = lines("Seconds behind", "seconds", behind)
    if crawler == "ids":
        made["lag"] = lines("Lag", "seconds", {"20th percentile": _line(samples, "lag_p20_s")})
        made["missing"] = lines(
            "Requests that found no id",
            "percent",
            {
                "not found": _line(samples, "fraction_404", 0.01),
                "errors": _line(samples, "error_fraction", 0.01),
            },
        )
    return made


def drawn(panel: Panel) -> Markup:
    return _DRAWN[panel.draw](panel)


def _bars(panel: Panel) -> Markup:
    column = chart.ExtraColumn(panel.heads[1], panel.unit)
    rows, first = _pairs(panel), panel.heads[0]
    return chart.bars(panel.title, rows, column, first=first, note=panel.note)


def _columns(panel: Panel) -> Markup:
    column = chart.ExtraColumn(panel.heads[1], panel.unit)
    rows, first = _pairs(panel), panel.heads[0]
    note, title = panel.note, panel.title
    return chart.columns(title, rows, column, first=first, note=note, letter=_LETTER)


def _lines(panel: Panel) -> Markup:
    first, *names = panel.heads
    places = [str(row[0]) for row in panel.rows]
    series = {
        name: [_number(row[n]) for row in panel.rows] for n, name in enumerate(names, start=1)
    }
    return chart.lines(
        panel.title, places, series, panel.unit,
        first=first, note=panel.note, letter=_LETTER,
    )  # fmt: skip


def _pairs(panel: Panel) -> list[tuple[str, float]]:
    return [(str(row[0]), _number(row[1]) or 0.0) for row in panel.rows]


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) else None


def _table(panel: Panel) -> Markup:
    return chart.table(panel.title, panel.heads, panel.rows, note=panel.note)


_DRAWN = {Draw.BARS: _bars, Draw.COLUMNS: _columns, Draw.LINES: _lines, Draw.TABLE: _table}


def _with_gaps(samples: Sequence[Sample]) -> list[Sample]:
    """Insert gaps where there are no samples, because no crawl ran then."""
    if len(samples) < 3:
        return list(samples)
    steps = sorted(late.at - early.at for early, late in pairwise(samples))
    usual = max(steps[len(steps) // 2], 10.0)
    made = [samples[0]]
    for early, late in pairwise(samples):
        if late.at - early.at > _GAP * usual:
            made.append(Sample(early.at + usual, {}))
        made.append(late)
    return made


def _line(samples: Sequence[Sample], name: str, unit: float = 1.0) -> Line:
    return [_scaled(sample.values.get(name), unit) for sample in samples]


def _scaled(value: float | None, unit: float) -> float | None:
    return None if value is None else round(value / unit, 3)


def _speed(samples: Sequence[Sample], name: str) -> Line:
    """The growth per second of a counter; a new run starts again at 0."""
    speeds: list[float | None] = [None]
    for early, late in pairwise(samples):
        before, after, seconds = early.values.get(name), late.values.get(name), late.at - early.at
        if before is None or after is None or seconds <= 0.0 or after < before:
            speeds.append(None)
        else:
            speeds.append(round((after - before) / seconds, 3))
    # The first sample has no predecessor, and gets the speed of the second.
    return [*speeds[1:2], *speeds[1:]] if len(samples) > 1 else speeds[: len(samples)]


def _clock(samples: Sequence[Sample], span: str) -> str:
    """The format of times, precise enough that no two on the axis look the same."""
    if span == "season":
        return "%m-%d %H:%M"
    is_short = not samples or samples[-1].at - samples[0].at < _MINUTES
    return "%H:%M:%S" if is_short else "%H:%M"


_MINUTES = 600.0  # Seconds; over a longer span, times are shown without seconds.


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:] + "; times are in UTC."
