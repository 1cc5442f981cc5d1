"""`trawlnet ids simulate` and `law`: try a law out before it touches a live API."""

from __future__ import annotations

import json as jsonlib
import sys
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from statistics import median
from typing import Annotated, Any

from trawlnet.cli.common.errors import UsageTrouble
from trawlnet.cli.common.flags import Json, flag
from trawlnet.cli.common.output import emit, say
from trawlnet.cli.common.report import save_report
from trawlnet.cli.common.verb import Verb
from trawlnet.cli.common.world_events import Gaps, Outages, Pauses, events_of
from trawlnet.cli.ids.page import simulation_report
from trawlnet.cli.ids.plot import check_plotting, save_plot
from trawlnet.cli.ids.trials import Result, TrialPlan, run_all
from trawlnet.cli.ids.worlds import trial
from trawlnet.crawlers.ids.classic.law import PeriodReading, classic_law


class Laws(StrEnum):
    ADAPTIVE = "adaptive"
    CLASSIC = "classic"
    BOTH = "both"


Scenario = Annotated[
    str,
    flag(
        "--scenario NAME",
        "steady, backlog, gap:N (as gap:1m), pause, pause:N, maintenance:N, leaps, outage, "
        "stall, throttle, embargo or crash.",
    ),
]
Which = Annotated[Laws, flag("--scaling", "Law to run.")]
Seeds = Annotated[int, flag("--seeds N", "Number of worlds for each law.", min=1)]
FirstSeed = Annotated[int, flag("--first-seed N", "Seed of the first world.", min=0)]
Plot = Annotated[Path | None, flag("--plot FILE.png", "Save a picture of the first world.")]
Page = Annotated[Path | None, flag("--output, -o FILE.html", "Write a page about the results.")]
Hours = Annotated[
    float | None, flag("--hours H", "Hours of virtual time [by scenario].", min=0.1, max=48)
]
Rate = Annotated[float, flag("--rate R", "New ids per second, on average.", min=0.1, max=5000)]
CapRate = Annotated[
    float, flag("--cap R", "Requests per second, as ids crawl --max-rps.", min=1, max=100_000)
]
Freshness = Annotated[
    float,
    flag("--freshness F", "Share of early requests, as ids crawl --freshness.", min=0.001, max=0.5),
]
WithAnchor = Annotated[bool, flag("--anchor", "The API reports its newest id.")]


def simulate(
    scenario: Scenario = "steady",
    which: Which = Laws.BOTH,
    seeds: Seeds = 10,
    first_seed: FirstSeed = 1,
    hours: Hours = None,
    rate: Rate = 50.0,
    cap: CapRate = 400.0,
    freshness: Freshness = 0.02,
    anchor: WithAnchor = False,
    gap: Gaps = None,
    pause: Pauses = None,
    outage: Outages = None,
    plot: Plot = None,
    output: Page = None,
    json: Json = False,
) -> int:
    """Run the scaling laws against a model of an API, in virtual time, and measure them."""
    events = events_of(gap, pause, outage)
    # Report a wrong name, or a time that is too short, before anything runs.
    one = trial(scenario, first_seed, rate, hours, events)
    for line in one.too_short_for():
        say(f"{(one.end - one.start) / 3600:.2g} hours are too short for all measures: {line}")
    if plot is not None:
        check_plotting(plot)
    if output is not None and not output.parent.is_dir():
        raise UsageTrouble(f"--output: there is no directory {output.parent}", "make it first")
    laws = [Laws.ADAPTIVE, Laws.CLASSIC] if which is Laws.BOTH else [which]
    plans = [
        TrialPlan(scenario, law, seed, rate, cap, hours, freshness, anchor, events)
        for seed in range(first_seed, first_seed + seeds)
        for law in laws
    ]
    results = []
    for done, result in enumerate(run_all(plans), 1):
        results.append(result)
        say(f"{done}/{len(plans)} {_about(result.plan)}")
        if json:
            emit(result.row())
    if plot is not None:
        save_plot(plot, [one for one in results if one.plan.seed == first_seed])
        say(f"saved {plot}")
    if output is not None:
        save_report(simulation_report(results), output)
        say(f"saved {output}")
    if not json:
        print(table(results))
    return 0


def _about(plan: TrialPlan) -> str:
    return f"{plan.scenario}, {plan.scaling}, seed {plan.seed}"


def table(results: Sequence[Result]) -> str:
    """Median and worst of every measure, one column for each law."""
    laws = list(dict.fromkeys(one.plan.scaling for one in results))
    lines = [f"{'median (worst)':<22}" + "".join(f"{law:>24}" for law in laws)]
    rows = [one.row() for one in results]
    for name in [key for key in rows[0] if key.startswith("m")]:
        cells = [_cell([row[name] for row in rows if row["scaling"] == law]) for law in laws]
        if any(cell != "-" for cell in cells):
            lines.append(f"{name:<22}" + "".join(f"{cell:>24}" for cell in cells))
    return "\n".join(lines)


def _cell(values: list[Any]) -> str:
    known = [value for value in values if value is not None]
    if not known:
        return "-"
    never = f", {len(values) - len(known)} never" if len(known) < len(values) else ""
    return f"{median(known):g} ({max(known):g}{never})"


def law(json: Json = False) -> int:
    """Apply the classic law to each reading on stdin, one JSON object per line."""
    for line in sys.stdin:
        if not line.strip():
            continue
        answer = _apply(line)
        if json:
            emit(answer)
        else:
            print(
                "{strategy}: {workers} workers, next decision after {period} ids".format(**answer)
            )
    return 0


def _apply(line: str) -> dict[str, Any]:
    try:
        reading = jsonlib.loads(line)
        fraction, lag, rate = (_number(reading, name) for name in _READING)
        crew = [int(_number(reading, name)) for name in _CREW]
    except (ValueError, TypeError) as error:
        raise UsageTrouble(f"not a reading: {error}", _LAW_HINT) from None
    setting = classic_law(PeriodReading(fraction, lag, rate), *crew)
    return {"strategy": setting.strategy, "workers": setting.workers, "period": setting.period}


def _number(reading: Any, name: str) -> float:
    value = reading.get(name, _OTHERWISE.get(name)) if isinstance(reading, dict) else None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e12:
        raise ValueError(f"{name}: expected a number, got {jsonlib.dumps(value)}")
    return value


_READING = ("fraction_404", "p20_lag", "pgcr_rate")
_CREW = ("workers", "min_workers", "max_workers")
_OTHERWISE = {"p20_lag": 900, "min_workers": 5, "max_workers": 250}
_LAW_HINT = (
    "one object per line, like "
    '{"fraction_404": 0.05, "p20_lag": 40, "pgcr_rate": 50, "workers": 100}'
)


SIMULATE = Verb(simulate, "ids simulate --scenario gap:1m --seeds 3", crawler="ids")
LAW = Verb(law, "ids law --json < readings.jsonl", crawler="ids")
