"""The report of an ids crawl: charts for people, and figures for programs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from trawlnet.crawlers.ids.ledger.span_codec import mark_of
from trawlnet.crawlers.ids.report_survey import IdsFacts
from trawlnet.observe.history import Sample
from trawlnet.observe.reports.chart import ExtraColumn, bars, columns, lines
from trawlnet.observe.reports.numbers import number
from trawlnet.observe.reports.page import Report, Tile
from trawlnet.observe.reports.rows import grown, minute, over_time, span, top
from trawlnet.stores.spans import Span
from trawlnet.tables.instances.report import InstanceFigures

_IDS = ExtraColumn("ids")
_POINTS = 400  # Of one line.
_HOUR = 3600


def as_report(facts: IdsFacts, place: str, now: float) -> Report:
    marks, lag = facts.marks, _last(facts.history, "lag_p20_s")
    missed = marks.get("missed", 0)
    tiles = [
        Tile("done", number(marks.get("done", 0)), "good"),
        Tile("settled up to", str(facts.watermark)),
        Tile("behind", "unknown" if lag is None else f"{number(lag)} s"),
        Tile("in gaps", number(marks.get("gap", 0))),
        Tile("not surveyed", number(marks.get("unsurveyed", 0))),
        Tile("holes", number(marks.get("hole", 0))),
        Tile("withheld", number(marks.get("embargoed", 0))),
        Tile("missed", number(missed), "bad" if missed else ""),
        Tile("pending", number(marks.get("pending", 0)), "wait" if marks.get("pending") else ""),
    ]
    times = [sample.at for sample in facts.history] or [0.0]
    lead = (
        f"{place}: ids {facts.first} to {facts.beyond}, crawled {span(times[0], times[-1])};"
        f" read {minute(now)} UTC."
    )
    return Report("Ids crawl report", lead, tiles, _figures(facts))


def _figures(facts: IdsFacts) -> list[Markup]:
    word, stored = over_time(grown(facts.history, "stored"))
    history = _thinned(facts.history)
    at = [minute(sample.at) for sample in history]
    attempts = {str(reason): n for reason, n in facts.counts.attempts.items() if n}
    return [
        columns(f"Results published by the {word}", stored, _IDS, first=word,
                note="Ids that exist and are wanted, as far as the history goes."),
        lines("Lag", at, {"lag, 20th percentile": _line(history, "lag_p20_s")}, "s",
              note="Lag: seconds from the end of an activity to the answer about it."),
        *_decided(facts.decisions),
        lines("Requests that may be in flight", at, {"workers": _line(history, "workers")},
              "requests"),
        bars("Ids by state", top(facts.marks), _IDS, first="state"),
        bars("Attempts by result", top(attempts), ExtraColumn("attempts"), first="result"),
        bars("Largest ranges without an answer", _ranges(facts.largest), _IDS, first="range",
             note="gap: skipped by the counter, and surveyed. unsurveyed: between two known ids,"
                  " and still searched for ids. hole: asked for until patience was used up."
                  " The end is not part of a range."),
        columns("Gaps by length", _lengths(facts.gap_lengths), ExtraColumn("gaps"),
                first="ids, at least"),
        bars("Missed ids by reason", top(facts.missed), _IDS, first="reason",
             note="Errors used up their attempts; the crawl asks for these ids again later."),
        *(_stored(facts.instances) if facts.instances else ()),
    ]  # fmt: skip


def _decided(decisions: Sequence[Mapping[str, Any]]) -> list[Markup]:
    """The decisions, with their predictions and results."""
    chosen = decisions[-_POINTS:]
    at = [minute(decision["at"]) for decision in chosen]
    rates = {
        "predicted": [_number(decision, "predicted_rate") for decision in chosen],
        "measured": [_number(decision, "measured_rate") for decision in chosen],
    }
    whys = Counter(str(decision.get("reason", "")) for decision in decisions)
    return [
        lines("Ids per second: predicted by a decision, and measured after it", at, rates, "ids/s",
              note="The latest decisions of the pilot."),
        bars("Decisions by reason", top(whys), ExtraColumn("decisions"), first="reason"),
    ]  # fmt: skip


def _stored(figures: InstanceFigures) -> list[Markup]:
    word, ended = over_time(figures.hours)
    count, column = figures.instances, ExtraColumn("instances")
    known = [
        ("completed", figures.completed),
        ("not completed", count - figures.completed),
        ("fresh", figures.fresh),
        ("fresh: not known", count - figures.fresh_known),
        ("flawless", figures.flawless),
        ("flawless: not known", count - figures.flawless_known),
    ]
    return [
        bars("Instances by activity", top(figures.activities), column, first="activity",
             note="From the tables that ids store has filled."),
        columns(f"Instances by the {word} in which they ended", ended, column, first=word),
        bars(f"Of {count:,} instances", known, column, first="kind", whole=count),
    ]  # fmt: skip


def as_json(facts: IdsFacts) -> dict[str, Any]:
    figures = facts.instances
    return {
        "first": facts.first,
        "watermark": facts.watermark,
        "beyond": facts.beyond,
        "marks": dict(facts.marks),
        "ranges": dict(facts.ranges),
        "largest": [_range(one) for one in facts.largest],
        "missed": dict(facts.missed),
        "attempts": {str(reason): n for reason, n in facts.counts.attempts.items() if n},
        "lag_p20_s": _last(facts.history, "lag_p20_s"),
        "stored_by_hour": {
            minute(hour * _HOUR): n for hour, n in grown(facts.history, "stored").items()
        },
        "decisions": list(facts.decisions),
        "instances": None if figures is None else _instances(figures),
    }


def _instances(figures: InstanceFigures) -> dict[str, Any]:
    return {
        "instances": figures.instances,
        "completed": figures.completed,
        "fresh": figures.fresh,
        "fresh_known": figures.fresh_known,
        "flawless": figures.flawless,
        "flawless_known": figures.flawless_known,
        "players": figures.players,
        "activities": dict(figures.activities),
    }


def _range(one: Span) -> dict[str, Any]:
    return {"start": one.start, "end": one.end, "reason": str(mark_of(one.word))}


def _ranges(spans: Sequence[Span]) -> list[tuple[str, float]]:
    return [(f"{one.start} to {one.end}, {mark_of(one.word)}", one.end - one.start)
            for one in spans]  # fmt: skip


def _lengths(counts: Mapping[int, int]) -> list[tuple[str, float]]:
    if not counts:
        return []
    return [(f"{1 << n:,}", counts.get(n, 0)) for n in range(min(counts), max(counts) + 1)]


def _thinned(history: Sequence[Sample]) -> Sequence[Sample]:
    every = -(-len(history) // _POINTS) or 1
    return history[::-1][::every][::-1]


def _line(history: Sequence[Sample], name: str) -> list[float | None]:
    return [sample.values.get(name) for sample in history]


def _last(history: Sequence[Sample], name: str) -> float | None:
    return next((s.values[name] for s in reversed(history) if name in s.values), None)


def _number(decision: Mapping[str, Any], name: str) -> float | None:
    value = decision.get(name)
    return value if isinstance(value, int | float) else None
