"""One run of `ids simulate`: a law in a world, and its result."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from multiprocessing import get_context
from typing import Any

from trawlnet.cli.ids.worlds import NO_EVENTS, SimulatedApi, Trial, opened_at, trial
from trawlnet.crawlers.ids.controls import Controls
from trawlnet.crawlers.ids.measures import Measures, Moments, PlotSeries, measure, series
from trawlnet.crawlers.ids.model import LedgerMark, PilotStart
from trawlnet.crawlers.ids.pilot_factory import make_pilot, pilot_at
from trawlnet.crawlers.ids.rehearsal import Journal, Rehearsal
from trawlnet.sim.ids.events import WorldEvents
from trawlnet.sim.ids.model import Traffic

_DOWN = 60.0  # Seconds from a crash to the next start.
_SEEN_LONG_AGO = 120.0  # Seconds; an id that appeared later may still be in flight at the end.
_PROCESSES = 2


@dataclass(frozen=True, slots=True)
class TrialPlan:
    scenario: str
    scaling: str
    seed: int
    rate: float = 50.0
    cap: float = 400.0
    hours: float | None = None
    freshness: float = 0.02
    anchor: bool = False
    events: WorldEvents = NO_EVENTS


@dataclass(frozen=True, slots=True)
class Result:
    plan: TrialPlan
    measures: Measures
    series: PlotSeries

    def row(self) -> dict[str, Any]:
        plan = self.plan
        about = {"scenario": plan.scenario, "scaling": plan.scaling, "seed": plan.seed}
        return about | asdict(self.measures)


def run_plan(plan: TrialPlan) -> Result:
    one = trial(plan.scenario, plan.seed, plan.rate, plan.hours, plan.events)
    controls = Controls(max_rps=plan.cap, freshness=plan.freshness)
    anchor = one.traffic.newest_visible if plan.anchor else None
    rehearsal = Rehearsal(SimulatedApi(one.traffic).reply, plan.cap, one.start, anchor)
    opened = released = None
    if one.traffic.gaps:
        opened = opened_at(one.traffic)
        rehearsal.journal.behind = one.traffic.gap_ranges()[-1][1]
    if one.traffic.embargoes:
        released = max(embargo.opens for embargo in one.traffic.embargoes)
    _run(one, plan.scaling, controls, rehearsal)
    journal = rehearsal.journal
    measured = measure(journal, Moments(one.end, one.since, opened, released))
    measured = replace(measured, m6_lost=len(lost(one, journal)))
    return Result(plan, measured, series(journal, one.end))


def _run(one: Trial, scaling: str, controls: Controls, rehearsal: Rehearsal) -> None:
    first = one.first
    pilot = make_pilot(scaling, controls, first)
    rehearsal.run(pilot, one.start, one.end if one.crash_at is None else one.crash_at)
    if one.crash_at is not None:
        left, beyond = rehearsal.left_over(), rehearsal.resume_at()
        pilot = pilot_at(scaling, controls, PilotStart(first, beyond, left))
        rehearsal.run(pilot, one.crash_at + _DOWN, one.end)


def lost(one: Trial, journal: Journal) -> list[int]:
    """Ids that existed for a while, were passed, and are neither fetched nor remembered.

    To be remembered as a hole or as part of a gap is to be lost; to be in the missed log, under
    an embargo or in the delay queue is not.
    """
    traffic, end = one.traffic, one.end
    known = journal.asked | set(journal.embargoed)
    known |= {i for i, mark in journal.marks.items() if mark is LedgerMark.MISSED}
    return [
        i
        for i in _handed_out(traffic, one.first, min(journal.beyond, traffic.head(end) + 1))
        if i not in journal.fetched and i not in known and _was_there(traffic, i, end)
    ]


def _handed_out(traffic: Traffic, start: int, beyond: int) -> Iterator[int]:
    for gap_start, gap_end in traffic.gap_ranges():
        yield from range(start, min(gap_start, beyond))
        start = gap_end
    yield from range(start, beyond)


def _was_there(traffic: Traffic, i: int, end: float) -> bool:
    shown = traffic.visible_at(i)
    return shown is not None and shown < end - _SEEN_LONG_AGO


def run_all(plans: list[TrialPlan]) -> Iterator[Result]:
    """In the order of the plans, two at a time."""
    if len(plans) == 1:
        yield run_plan(plans[0])
        return
    # A run makes millions of objects and no cycles: garbage collection would find nothing.
    pool = ProcessPoolExecutor(_PROCESSES, get_context("spawn"), initializer=gc.disable)
    with pool:
        yield from pool.map(run_plan, plans)
