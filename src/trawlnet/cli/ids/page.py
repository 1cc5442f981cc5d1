"""A simulation as an HTML page: its measures, and charts over time."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from markupsafe import Markup

from trawlnet.cli.ids.trials import Result
from trawlnet.observe.reports.chart import lines, table
from trawlnet.observe.reports.numbers import number
from trawlnet.observe.reports.page import Report, Tile

_POINTS = 400  # Of one line.
_MINUTE = 60.0
_LINES = (
    ("lag", "Lag", "s", "Seconds, the median of each ten."),
    ("workers", "Requests that may be in flight", "requests", ""),
    ("rate", "Requests per second", "requests/s", ""),
    (
        "not_found",
        "Requests for ids that were not found",
        "requests/s",
        "404 answers per second.",
    ),
)
_MEASURES = (
    ("m1_catch_up_s", "Time to catch up", "s"),
    ("m2_lag_p50_s", "Lag, median", "s"),
    ("m2_lag_p95_s", "Lag, 95th percentile", "s"),
    ("m3_requests_per_id", "Requests for each id", "requests"),
    ("m3_fraction_404", "Share of requests answered by 404", ""),
    ("m4_worker_changes", "Changes of concurrency", "changes"),
    ("m4_reversals", "Changes that reversed the previous one", "changes"),
    ("m5_gap_cross_s", "Time to cross the gap", "s"),
    ("m5_gap_requests", "Requests to cross the gap", "requests"),
    ("m5_survey_requests", "Requests to survey gaps for ids", "requests"),
    ("m6_lost", "Ids lost", "ids"),
    ("m7_throttled", "Requests that were throttled", "requests"),
    ("m8_release_s", "Time to fetch withheld ids", "s"),
)


def simulation_report(results: Sequence[Result]) -> Report:
    """A page about at least one run; the charts show the first world."""
    plan = results[0].plan
    seeds = sorted({one.plan.seed for one in results})
    worlds = f"{len(seeds)} worlds" if len(seeds) > 1 else "one world"
    lead = (
        f"{plan.scenario}: {worlds} from seed {seeds[0]} on, {plan.rate:g} ids a second,"
        f" at most {plan.cap:g} requests a second. Time is virtual."
    )
    lost = sum(one.measures.m6_lost for one in results)
    tiles = [
        Tile("runs", number(len(results))),
        Tile("ids lost", number(lost), "bad" if lost else "good"),
        *(
            Tile(f"lag, {law}", _shown(_middle(results, law, "m2_lag_p50_s")))
            for law in _laws(results)
        ),
    ]
    first = [one for one in results if one.plan.seed == seeds[0]]
    return Report(
        "Adaptive and classic law compared", lead, tiles, [*_over_time(first), _measured(results)]
    )


def _over_time(results: Sequence[Result]) -> list[Markup]:
    shortest = min(len(one.series.at) for one in results)
    picked = range(0, shortest, -(-shortest // _POINTS) or 1)
    began = results[0].series.at[0] if shortest else 0.0
    at = [f"{(results[0].series.at[n] - began) / _MINUTE:.0f} min" for n in picked]
    return [
        lines(
            title,
            at,
            {one.plan.scaling: [getattr(one.series, name)[n] for n in picked] for one in results},
            unit,
            note=note,
        )
        for name, title, unit, note in _LINES
    ]


def _measured(results: Sequence[Result]) -> Markup:
    laws = _laws(results)
    rows = [
        (f"{title}, {unit}".strip(", "), *(_middle(results, law, name) for law in laws))
        for name, title, unit in _MEASURES
    ]
    measured = [row for row in rows if any(value is not None for value in row[1:])]
    return table("Measures", ["measure", *laws], measured, note="Medians over all worlds.")


def _middle(results: Sequence[Result], law: str, name: str) -> float | None:
    values = [getattr(one.measures, name) for one in results if one.plan.scaling == law]
    known = [value for value in values if value is not None]
    return median(known) if known else None


def _laws(results: Sequence[Result]) -> list[str]:
    return list(dict.fromkeys(one.plan.scaling for one in results))


def _shown(lag: float | None) -> str:
    return "unknown" if lag is None else f"{number(lag)} s"
