"""Both laws in virtual time: nothing is lost, gaps are crossed, and the commands say so."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from dataclasses import fields, replace
from itertools import pairwise
from pathlib import Path

import pytest

from tests.support.program import Ran, at_once, trawlnet
from trawlnet.cli.common.world_events import events_of
from trawlnet.cli.ids.trials import TrialPlan, lost, run_plan
from trawlnet.cli.ids.worlds import SimulatedApi, Trial, trial
from trawlnet.crawlers.ids.controls import Controls
from trawlnet.crawlers.ids.measures import Measures
from trawlnet.crawlers.ids.model import Answer, AnswerVerdict, Ask, LedgerMark, PilotStart, Purpose
from trawlnet.crawlers.ids.pilot_factory import make_pilot, pilot_at
from trawlnet.crawlers.ids.rehearsal import Journal, Rehearsal
from trawlnet.sim.ids import Cap, CounterLeap, SimEmbargo, TimeSpan, Traffic

LAWS = ("adaptive", "classic")
CAP = 100.0
ALL_SORTS = {
    "gap": Traffic(seed=3, rate=6.0, gaps=(CounterLeap(300.0, 20_000),)),
    "gaps": Traffic(
        seed=3,
        rate=6.0,
        gaps=(CounterLeap(300.0, 3000), CounterLeap(420.0, 40), CounterLeap(600.0, 9000)),
    ),
    "stall": Traffic(seed=4, rate=6.0, stalls=(TimeSpan(300.0, 600.0),)),
    "outage": Traffic(seed=5, rate=6.0, outages=(TimeSpan(300.0, 500.0),)),
    "throttle": Traffic(seed=6, rate=6.0, caps=(Cap(TimeSpan(300.0, 600.0), 8.0),)),
    "embargo": Traffic(seed=7, rate=6.0, embargoes=(SimEmbargo(TimeSpan(200.0, 400.0), 600.0),)),
    "both": Traffic(
        seed=8,
        rate=6.0,
        gaps=(CounterLeap(310.0, 5000),),
        outages=(TimeSpan(300.0, 400.0),),
        hole_share=0.01,
    ),
}


def rehearse(traffic: Traffic, law: str, end: float, **more: object) -> Rehearsal:
    anchor = more.get("anchor")
    assert anchor is None or callable(anchor)
    rehearsal = Rehearsal(SimulatedApi(traffic).reply, CAP, 0.0, anchor)
    rehearsal.run(make_pilot(law, Controls(max_rps=CAP), traffic.first_id), 0.0, end)
    return rehearsal


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("name", ALL_SORTS)
def test_no_trouble_costs_an_id(name: str, law: str) -> None:
    one = Trial(name, ALL_SORTS[name], 0.0, 1000.0, 0.0)
    journal = rehearse(one.traffic, law, one.end).journal
    assert lost(one, journal) == []
    assert len(journal.fetched) > 1500
    for start, end in journal.gaps:
        assert any(a <= start and end <= b for a, b in one.traffic.gap_ranges())


def test_the_classic_law_crosses_a_gap_and_fetches_the_first_id_behind_it() -> None:
    traffic = Traffic(seed=3, rate=2.0, gaps=(CounterLeap(300.0, 200_000),))
    one = Trial("gap", traffic, 0.0, 1800.0, 0.0)
    rehearsal = Rehearsal(SimulatedApi(traffic).reply, 400.0, 0.0)
    rehearsal.run(make_pilot("classic", Controls(max_rps=400.0), traffic.first_id), 0.0, one.end)
    _, behind = traffic.gap_ranges()[0]
    there = [i for i in range(behind, behind + 50) if not traffic.is_hole(i)]
    assert set(there) <= set(rehearsal.journal.fetched)
    assert lost(one, rehearsal.journal) == []


def test_the_same_seed_is_the_same_run() -> None:
    plan = TrialPlan("gap:20k", "adaptive", 5, rate=5.0, hours=0.28)
    assert run_plan(plan).row() == run_plan(plan).row()


def test_a_pilot_killed_while_it_crosses_a_gap_loses_nothing() -> None:
    traffic = ALL_SORTS["gap"]
    one = Trial("gap", traffic, 0.0, 900.0, 0.0)
    hit = _first_hit(traffic)
    for crash_at in (hit + 0.05, hit + 1.0, hit + 30.0):
        rehearsal = Rehearsal(SimulatedApi(traffic).reply, CAP, 0.0)
        controls = Controls(max_rps=CAP)
        rehearsal.run(make_pilot("adaptive", controls, traffic.first_id), 0.0, crash_at)
        spans = _unsettled(rehearsal, traffic.first_id)
        beyond = rehearsal.resume_at()
        pilot = pilot_at("adaptive", controls, PilotStart(traffic.first_id, beyond, spans))
        rehearsal.run(pilot, crash_at + 5.0, one.end)
        assert lost(one, rehearsal.journal) == []
        # What lies in the gap is not walked through: that would be twenty thousand requests.
        assert len(rehearsal.journal.requests) < 12_500


def _first_hit(traffic: Traffic) -> float:
    """When a probe first finds something behind the gap."""
    requests = rehearse(traffic, "adaptive", 700.0).journal.requests
    found = (AnswerVerdict.STORED, AnswerVerdict.FILTERED)
    return next(at for at, purpose, v in requests if purpose is Purpose.PROBE and v in found)


def _unsettled(rehearsal: Rehearsal, first: int) -> list[tuple[int, int]]:
    """The pending ranges of a ledger that knows what was fetched, and nothing else."""
    journal = rehearsal.journal
    settled = sorted({*journal.fetched, *journal.marks, first - 1})
    return [(a + 1, b) for a, b in pairwise(settled) if a + 1 < b]


def test_an_anchor_crosses_a_gap_with_few_probes() -> None:
    traffic = ALL_SORTS["gap"]
    anchor: Callable[[float], int | None] = traffic.newest_visible
    journal = rehearse(traffic, "adaptive", 1300.0, anchor=anchor).journal
    probes = sum(p is Purpose.PROBE for at, p, _ in journal.requests if at > 300.0)
    assert probes <= (20_000).bit_length() + 25
    assert journal.gaps


def test_an_anchor_that_knows_of_nothing_new_spares_a_stall_its_probes() -> None:
    traffic = ALL_SORTS["stall"]
    anchor: Callable[[float], int | None] = traffic.newest_visible
    journal = rehearse(traffic, "adaptive", 600.0, anchor=anchor).journal
    during = [purpose for at, purpose, _ in journal.requests if at > 300.0]
    assert Purpose.PROBE not in during


def test_an_anchor_that_never_moves_does_not_keep_a_crawl_before_a_gap() -> None:
    traffic = ALL_SORTS["gap"]
    stale = traffic.gap_ranges()[0][0] - 1
    journal = rehearse(traffic, "adaptive", 1200.0, anchor=lambda now: stale).journal
    assert max(journal.fetched) >= traffic.gap_ranges()[0][1]


@pytest.mark.parametrize("law", LAWS)
def test_withheld_ids_are_let_go_by_a_crawl_that_never_catches_up(law: str) -> None:
    traffic = Traffic(seed=7, rate=5.0, embargoes=(SimEmbargo(TimeSpan(0.0, 200.0), 3600.0),))
    start, cap = 3500.0, 4.5
    rehearsal = Rehearsal(SimulatedApi(traffic).reply, cap, start)
    rehearsal.run(make_pilot(law, Controls(max_rps=cap), traffic.first_id), start, start + 1500.0)
    journal = rehearsal.journal
    held = [i for i in range(traffic.first_id, traffic.head(200.0)) if traffic.opens_at(i) > 0.0]
    seen = [i for i in held if not traffic.is_hole(i)]
    assert set(seen) <= set(journal.fetched)
    assert max(journal.fetched) < traffic.head(start)


def test_holes_of_a_backlog_are_known_before_its_late_ids_could_come() -> None:
    traffic = Traffic(seed=2, rate=10.0, hole_share=0.01)
    start, end = 7200.0, 7320.0
    journal = _begun_late(traffic, start, end)
    reached = max(journal.fetched) - 3000  # What was asked for half a minute ago.
    holes = [i for i in range(traffic.first_id, reached) if traffic.is_hole(i)]
    assert len(holes) > 50
    assert all(journal.marks.get(i) is LedgerMark.HOLE for i in holes)


def test_an_id_that_is_late_in_a_backlog_is_waited_for() -> None:
    traffic = Traffic(seed=2, rate=2.0, late_share=0.1, late_spread=300.0)
    start, end = 1200.0, 3600.0
    journal = _begun_late(traffic, start, end)
    one = Trial("late", traffic, start, end, start)
    patience = (
        0.75 * Controls().patience
    )  # Waits are up to a fifth shorter than they are said to be.
    assert all(_lateness(traffic, i) > patience for i in lost(one, journal))
    assert any(_lateness(traffic, i) > 900.0 for i in journal.fetched)


def test_nothing_becomes_a_hole_while_publishing_has_stopped() -> None:
    stall = TimeSpan(300.0, 4000.0)
    traffic = Traffic(seed=4, rate=3.0, late_share=0.1, hole_share=0.0, stalls=(stall,))
    one = Trial("stall", traffic, 0.0, 4600.0, 0.0)
    journal = rehearse(traffic, "adaptive", one.end).journal
    assert lost(one, journal) == []
    assert LedgerMark.HOLE not in journal.marks.values()


def _begun_late(traffic: Traffic, start: float, end: float) -> Journal:
    rehearsal = Rehearsal(SimulatedApi(traffic).reply, CAP, start)
    rehearsal.run(make_pilot("adaptive", Controls(max_rps=CAP), traffic.first_id), start, end)
    return rehearsal.journal


def _lateness(traffic: Traffic, i: int) -> float:
    shown, born = traffic.visible_at(i), traffic.allocated_at(i)
    return 0.0 if shown is None or born is None else shown - born


def test_a_gap_is_crossed_within_the_time_that_was_promised() -> None:
    measures = run_plan(TrialPlan("gap:1m", "adaptive", 1, hours=0.3)).measures
    assert measures.m5_gap_cross_s is not None
    assert measures.m5_gap_cross_s <= 240.0


def test_during_an_outage_hardly_anything_is_asked() -> None:
    journal = rehearse(ALL_SORTS["outage"], "adaptive", 500.0).journal
    during = [purpose for at, purpose, _ in journal.requests if at > 302.0]
    assert 15 <= len(during) <= 25
    assert set(during) == {Purpose.CANARY}


def test_throttling_is_answered_by_going_slower() -> None:
    refused = {
        law: sum(
            v is AnswerVerdict.THROTTLED
            for _, _, v in rehearse(ALL_SORTS["throttle"], law, 900.0).journal.requests
        )
        for law in LAWS
    }
    assert refused["adaptive"] <= refused["classic"] / 5


def test_ids_without_times_are_kept_up_with_too() -> None:
    traffic = Traffic(seed=9, rate=10.0, gaps=(CounterLeap(400.0, 2000),))
    world = SimulatedApi(traffic)
    rehearsal = Rehearsal(lambda ask, at: _untimed(world, ask, at), CAP, 0.0)
    rehearsal.run(make_pilot("adaptive", Controls(max_rps=CAP), traffic.first_id), 0.0, 900.0)
    one = Trial("gap", traffic, 0.0, 900.0, 0.0)
    assert lost(one, rehearsal.journal) == []
    newest = max(rehearsal.journal.fetched)
    assert traffic.head(900.0) - newest < 10.0 * 90.0


def _untimed(world: SimulatedApi, ask: Ask, at: float) -> Answer:
    return replace(world.reply(ask, at), happened_at=None)


# --- The commands ---


def test_simulate_prints_one_object_for_each_run() -> None:
    ran = trawlnet(
        "ids",
        "simulate",
        "--scenario",
        "steady",
        "--hours",
        0.26,
        "--rate",
        3,
        "--seeds",
        2,
        "--first-seed",
        7,
        "--json",
    )
    assert ran.code == 0, ran.err
    names = ["scenario", "scaling", "seed", *(field.name for field in fields(Measures))]
    assert [list(row) for row in ran.rows] == [names] * 4
    assert [(row["scaling"], row["seed"]) for row in ran.rows] == [
        ("adaptive", 7), ("classic", 7), ("adaptive", 8), ("classic", 8),
    ]  # fmt: skip
    assert all(row["m6_lost"] == 0 for row in ran.rows)
    assert "4/4 steady, classic, seed 8" in ran.err


def test_a_world_has_the_pauses_leaps_and_outages_that_flags_name() -> None:
    events = events_of(["1m@20m", "30m@25m"], ["10m@10m", "90s@0.5h"], ["10m@10m"])
    one = trial("outage", 3, 5.0, None, events)
    plain = trial("outage", 3, 5.0)
    assert [gap.size for gap in one.traffic.gaps] == [1_000_000, 30_000_000]
    assert [gap.at - one.start for gap in one.traffic.gaps] == [1200.0, 1500.0]
    assert one.traffic.pauses == (TimeSpan(1500.0, 2100.0), TimeSpan(2700.0, 2790.0))
    assert one.traffic.outages == (*plain.traffic.outages, TimeSpan(1500.0, 2100.0))
    assert one.since >= plain.since and one.end >= one.over + 1800.0
    assert trial("outage", 3, 5.0, 0.5, events).end == one.start + 1800.0


def test_a_pause_a_leap_and_another_leap_chosen_by_flags_are_crossed() -> None:
    events = events_of(["40k@20m", "9k@22m"], ["5m@15m"], ["5m@15m"])
    measures = run_plan(TrialPlan("steady", "adaptive", 4, rate=4.0, events=events)).measures
    assert measures.m5_gap_cross_s is not None and measures.m6_lost == 0


@pytest.mark.parametrize(
    ("flag", "text"),
    [
        ("--gap", "1m"),
        ("--gap", "0@5m"),
        ("--gap", "x@5m"),
        ("--pause", "5m@"),
        ("--outage", "0@1"),
    ],
)
@pytest.mark.parametrize("verb", [("ids", "simulate"), ("sim", "ids")])
def test_an_event_that_is_none_is_refused(verb: tuple[str, str], flag: str, text: str) -> None:
    ran = at_once(*verb, flag, text)
    assert ran.code == 2 and f"{flag}: expected" in ran.err and repr(text) in ran.err


def test_a_time_that_is_too_short_for_what_is_measured_is_said() -> None:
    assert trial("gap:20k", 1, 5.0).too_short_for() == []
    assert len(trial("gap:20k", 1, 5.0, 0.1).too_short_for()) == 2
    assert len(trial("embargo", 1, 5.0, 0.6).too_short_for()) == 1
    ran = at_once(
        "ids", "simulate", "--hours", 0.1, "--rate", 1, "--seeds", 1, "--scaling", "adaptive"
    )
    assert ran.code == 0
    assert "0.1 hours are too short for all measures: m2, m3 and m4 count from 0.25" in ran.err


def test_simulate_shows_people_a_table_a_picture_and_a_page(tmp_path: Path) -> None:
    picture, page = tmp_path / "plot.png", tmp_path / "page.html"
    flags = ("--hours", 0.27, "--rate", 2, "--seeds", 1, "--scaling", "adaptive", "--plot", picture)
    ran = at_once("ids", "simulate", "--scenario", "gap:500", *flags, "-o", page)
    assert ran.code == 0, ran.err
    assert "m5_gap_cross_s" in ran.out
    assert picture.read_bytes().startswith(b"\x89PNG")
    text = page.read_text()
    assert text.count('role="img"') == 4 and "Time to cross the gap" in text
    assert "://" not in text.replace("http://www.w3.org/2000/svg", ""), "it loads nothing"


@pytest.mark.parametrize(
    "flags",
    [
        ("--scenario", "flood"),
        ("--scenario", "gap:x"),
        ("--plot", "/nowhere/x.png"),
        ("--plot", "x.txt"),
        ("--output", "/nowhere/x.html"),
    ],
)
def test_simulate_refuses_what_it_does_not_know(flags: tuple[str, ...]) -> None:
    ran = at_once("ids", "simulate", *flags, "--json")
    assert (ran.code, ran.out) == (2, "")
    assert ran.error["hint"]


def law(monkeypatch: pytest.MonkeyPatch, *lines: str) -> Ran:
    monkeypatch.setattr("sys.stdin", io.StringIO("\n".join(lines)))
    return at_once("ids", "law", "--json")


def test_law_answers_each_reading(monkeypatch: pytest.MonkeyPatch) -> None:
    given = {"p20_lag": 40, "pgcr_rate": 50, "workers": 100, "min_workers": 5, "max_workers": 250}
    lines = [json.dumps(given | {"fraction_404": f}) for f in (0.05, 0.025, 0.51, 0.0)]
    ran = law(monkeypatch, *lines)
    assert ran.code == 0
    assert ran.rows == [
        {"strategy": "normal", "workers": 88, "period": 15_000},
        {"strategy": "normal", "workers": 100, "period": 15_000},
        {"strategy": "gap_detection", "workers": 25, "period": 2500},
        {"strategy": "catch_up", "workers": 120, "period": 10_000},
    ]


@pytest.mark.parametrize("line", ["{", "[]", '{"fraction_404": "much"}', '{"fraction_404": 0.1}'])
def test_law_says_what_is_wrong_with_a_reading(line: str, monkeypatch: pytest.MonkeyPatch) -> None:
    ran = law(monkeypatch, line)
    assert ran.code == 2
    assert "reading" in ran.error["error"]


def test_every_scenario_of_the_help_exists() -> None:
    for name in (
        "steady",
        "backlog",
        "gap:5",
        "gap:5k",
        "gap:1m",
        "outage",
        "stall",
        "throttle",
        "embargo",
        "crash",
    ):
        one = trial(name, 1, 50.0)
        assert one.start < one.end
