"""Random worlds of sequential ids, and laws that stand outside: what the server saw and served."""

from __future__ import annotations

import math
import os
from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from hypothesis import strategies as st

from trawlnet.crawlers.ids.controls import Controls
from trawlnet.crawlers.ids.model import (
    Answer,
    AnswerVerdict,
    Ask,
    Decision,
    LedgerEntry,
    LedgerMark,
    Pilot,
)
from trawlnet.crawlers.ids.pilot_factory import make_pilot
from trawlnet.crawlers.ids.rehearsal import Rehearsal
from trawlnet.sim.ids import Cap, CounterLeap, IdState, SimEmbargo, TimeSpan, Traffic

# Ids of one world cost time: fast counters are for long runs.
_IS_LONG_RUN = os.environ.get("TRAWLNET_WORLDS", "1") != "1"
FASTEST = 500.0 if _IS_LONG_RUN else 12.0
SILENCES = (5.0, 40.0, 200.0, 700.0, *((1800.0,) * _IS_LONG_RUN))  # Seconds.
LEAPS = (0.2, 3.0, 40.0, 600.0, 5000.0, *((20_000.0,) * _IS_LONG_RUN))  # Seconds worth of ids.
FIRST_TROUBLE = 400.0  # A crawl has found its pace by then, however few ids come.
PROMISED = 128  # Ids; an island of so many is found in a gap of any size.
_SERVICE = (0.02, 0.05, 0.11, 0.3, 0.9)


@dataclass(frozen=True)
class World:
    """`traffic` is the truth about ids; the rest is how the server answers."""

    traffic: Traffic
    failing: tuple[TimeSpan, ...] = ()  # Every answer is a 502.
    refusing: tuple[TimeSpan, ...] = ()  # The key is refused.
    stated_wait: float | None = None  # What a refusal says about when to come back.
    spoilt_share: float = 0.0  # Ids that never parse.
    timed: bool = True  # Whether answers say when the thing behind an id happened.
    end: float = 0.0
    over: float = 0.0  # When the last trouble was over.
    bound: float = 0.0  # Seconds after that in which a crawl must have caught up.

    def spoilt(self, i: int) -> bool:
        return (i * 2654435761 % 2**32) / 2**32 < self.spoilt_share


@dataclass
class Server:
    """Answers, and keeps a log of its own."""

    world: World
    log: list[tuple[float, int, AnswerVerdict]] = field(default_factory=list)  # By arrival.
    refusals: list[tuple[float, float]] = field(default_factory=list)  # Told when, to wait until.
    _tokens: float = 0.0
    _filled_at: float = 0.0
    _absent: list[int] = field(default_factory=list)

    def absent(self) -> list[int]:
        """Ids that were asked for in vain; when the crawl is over."""
        if not self._absent:
            self._absent = sorted({i for _, i, v in self.log if v is AnswerVerdict.NOT_FOUND})
        return self._absent

    def reply(self, ask: Ask, at: float) -> Answer:
        verdict = self._verdict(ask.id, at)
        self.log.append((at, ask.id, verdict))
        took = _SERVICE[len(self.log) % len(_SERVICE)]
        wait = self.world.stated_wait if verdict is AnswerVerdict.THROTTLED else None
        if wait is not None:
            self.refusals.append((at + took, at + took + wait))
        happened = None
        if self.world.timed and verdict in (AnswerVerdict.STORED, AnswerVerdict.FILTERED):
            happened = self.world.traffic.completed_at(ask.id)
        return Answer(ask, verdict, took, happened, wait)

    def _verdict(self, i: int, at: float) -> AnswerVerdict:
        world, traffic = self.world, self.world.traffic
        if traffic.disabled(at) or any(span.covers(at) for span in world.refusing):
            return AnswerVerdict.DISABLED
        if any(span.covers(at) for span in world.failing):
            return AnswerVerdict.FAILED
        if not self._admits(at):
            return AnswerVerdict.THROTTLED
        match traffic.state(i, at):
            case IdState.EMBARGOED:
                return AnswerVerdict.EMBARGOED
            case IdState.VISIBLE:
                if world.spoilt(i):
                    return AnswerVerdict.MALFORMED
                return AnswerVerdict.STORED if traffic.is_raid(i) else AnswerVerdict.FILTERED
            case _:
                return AnswerVerdict.NOT_FOUND

    def _admits(self, at: float) -> bool:
        cap = self.world.traffic.cap_at(at)
        if cap == math.inf:
            self._tokens, self._filled_at = 1.0, at
            return True
        self._tokens = min(max(1.0, 1.5 * cap), self._tokens + (at - self._filled_at) * cap)
        self._filled_at = at
        if self._tokens < 1.0:
            return False
        self._tokens -= 1.0
        return True


@dataclass
class Run:
    server: Server
    done: Counter[int]  # How many times the ledger was told that an id is done.
    marks: dict[int, LedgerMark]  # The last word on single ids.
    gaps: list[tuple[int, int]]
    # Instants at which an asker was to be asked at once, and had just had nothing to ask for.
    idle: list[float] = field(default_factory=list)


def crawl(world: World, controls: Controls, law: str) -> Run:
    server = Server(world)
    run = Run(server, Counter(), {}, [])
    rehearsal = Rehearsal(server.reply, 50.0 * controls.max_rps, 0.0)
    pilot = make_pilot(law, controls, world.traffic.first_id)
    rehearsal.run(Watched(pilot, run), 0.0, world.end)
    return run


@dataclass
class Watched:
    """A pilot, and what it would write into the ledger."""

    pilot: Pilot
    run: Run
    _nothing_at: float | None = None  # When it was last asked, if it had nothing to ask for.

    @property
    def workers(self) -> int:
        return self.pilot.workers

    def asks(self, now: float, room: int) -> Sequence[Ask]:
        asks = self.pilot.asks(now, room)
        self._nothing_at = None if asks or room <= 0 else now
        return asks

    def wake_at(self, now: float) -> float:
        at = self.pilot.wake_at(now)
        if at <= now == self._nothing_at:
            self.run.idle.append(now)
        return at

    def decide(self, now: float) -> Decision | None:
        return self.pilot.decide(now)

    def allow(self, now: float, max_rps: float) -> None:
        self.pilot.allow(now, max_rps)

    def answered(self, now: float, answer: Answer) -> Sequence[LedgerEntry]:
        entries = self.pilot.answered(now, answer)
        for entry in entries:
            if entry.mark is LedgerMark.GAP:
                self.run.gaps.append((entry.start, entry.end))
                continue
            if entry.mark in (LedgerMark.UNSURVEYED, LedgerMark.PENDING):
                continue
            self.run.marks[entry.start] = entry.mark
            if entry.mark is LedgerMark.DONE:
                self.run.done[entry.start] += 1
        return entries


# --- Drawing ---


@dataclass
class _Making:
    """Events one after the other; `t` is when the last one was over."""

    rate: float
    t: float = FIRST_TROUBLE
    bound: float = 120.0
    gaps: list[CounterLeap] = field(default_factory=list)
    pauses: list[TimeSpan] = field(default_factory=list)
    outages: list[TimeSpan] = field(default_factory=list)
    stalls: list[TimeSpan] = field(default_factory=list)
    caps: list[Cap] = field(default_factory=list)
    embargoes: list[SimEmbargo] = field(default_factory=list)
    failing: list[TimeSpan] = field(default_factory=list)
    refusing: list[TimeSpan] = field(default_factory=list)


EVENTS = (
    "leap",
    "pause",
    "pause and leap",
    "maintenance",
    "maintenance and leap",
    "outage",
    "stall",
    "cap",
    "embargo",
    "failing",
    "key",
)


@st.composite
def worlds(draw: st.DrawFn, fastest: float = FASTEST) -> World:
    rate = math.exp(draw(st.floats(math.log(0.5), math.log(fastest))))
    made = _Making(rate)
    delay = draw(st.sampled_from([1.0, 18.0, 60.0, 180.0]))
    made.t += 2.0 * delay
    for _ in range(draw(st.integers(0, 3))):
        # Whole seconds shrink well, and "right after the last trouble" is drawn often enough.
        made.t += draw(st.sampled_from([1, 7, 30, 90, 200]))
        _event(draw, made, draw(st.sampled_from(EVENTS)))
    traffic = Traffic(
        seed=draw(st.integers(0, 99)),
        rate=rate,
        wave=draw(st.sampled_from([0.0, 0.3])),
        wave_period=7200.0,
        delay=delay,
        delay_spread=draw(st.sampled_from([0.5, 6.0])),
        late_share=draw(st.sampled_from([0.0, 0.002, 0.05])),
        late_spread=draw(st.sampled_from([5.0, 60.0])),
        hole_share=draw(st.sampled_from([0.0, 0.0005, 0.02])),
        old_share=draw(st.sampled_from([0.0, 0.001, 0.01])),
        raid_share=0.2,
        gaps=tuple(made.gaps),
        pauses=tuple(made.pauses),
        outages=tuple(made.outages),
        stalls=tuple(made.stalls),
        caps=tuple(made.caps),
        embargoes=tuple(made.embargoes),
    )
    world = World(
        traffic,
        tuple(made.failing),
        tuple(made.refusing),
        draw(st.sampled_from([None, 1.0, 20.0])),
        draw(st.sampled_from([0.0, 0.005])),
        draw(st.sampled_from([True, True, False])),
        over=made.t,
        bound=made.bound + 2.0 * delay + survey_bound(made),
    )
    return replace(world, end=world.over + world.bound + 240.0)


def _event(draw: st.DrawFn, made: _Making, kind: str) -> None:
    lasts = draw(st.sampled_from(SILENCES))
    span = TimeSpan(made.t, made.t + lasts)
    if kind != "leap":
        made.t = span.end
        # What came meanwhile, at twice the rate of what comes.
        made.bound += lasts + 60.0
    if kind.startswith(("pause", "maintenance")):
        made.pauses.append(span)
    if kind.startswith(("maintenance", "outage")):
        made.outages.append(span)
    if kind.endswith("leap"):
        seconds = draw(st.sampled_from(LEAPS))
        size = max(1, int(seconds * made.rate))
        made.gaps.append(CounterLeap(made.t, size))
        made.bound += crossing_bound(size, made.rate, lasts)
    match kind:
        case "stall":
            made.stalls.append(span)
        case "cap":
            made.caps.append(Cap(span, made.rate * draw(st.sampled_from([0.3, 0.9, 2.0])) + 0.2))
        case "embargo":
            made.embargoes.append(SimEmbargo(span, made.t + draw(st.sampled_from([10.0, 150.0]))))
            made.t = made.embargoes[-1].opens
            made.bound += 180.0
        case "failing":
            made.failing.append(span)
        case "key":
            made.refusing.append(span)


def crossing_bound(size: int, rate: float, silence: float) -> float:
    """A promise: the search for a block looks, for each age of a block (there are as many as the
    silence has doublings), at a third of the probes that it may send, half an age apart."""
    ages = 4.0 + math.log2(1.0 + silence / 20.0)
    probes = 0.3 * max(4.0, 0.25 * rate) / ages
    return 120.0 + 4.0 * math.sqrt(size / (0.45 * rate * probes))


def survey_bound(made: _Making) -> float:
    """Another: where leaps are near each other, the ground between is surveyed with one request in
    ten, and one a second at least; again around each island that was found."""
    if len(made.gaps) < 2:
        return 0.0
    probes = sum(max(2048.0, gap.size / 16.0) for gap in made.gaps)
    return 400.0 + probes / max(1.0, 0.1 * made.rate)


@st.composite
def configs(draw: st.DrawFn, rate: float) -> Controls:
    """The budget is more than twice the rate, as a crawl that is to catch up needs."""
    # An answer takes 0.3 s: fewer workers than that could not keep up, whatever the budget.
    most = max(draw(st.sampled_from([40, 77, 250])), int(1.2 * rate))
    return Controls(
        workers=draw(st.sampled_from([1, 13, 40])),
        min_workers=draw(st.sampled_from([1, 5])),
        max_workers=most,
        max_rps=max(6.0, rate * draw(st.sampled_from([3.1, 5.7, 21.0]))),
        freshness=draw(st.sampled_from([0.005, 0.02, 0.13])),
        patience=draw(st.sampled_from([700.0, 1500.0, 4000.0])),
    )


# --- Judging ---


def rate_broken(run: Run, max_rps: float) -> list[float]:
    """Instants from which on ten seconds saw more than the budget and one burst."""
    at = [when for when, _, _ in run.server.log]
    most = 10.0 * max_rps + max(2.0, 0.1 * max_rps) + 1.0
    return [t for k, t in enumerate(at) if bisect_left(at, t + 10.0) - k > most]


def waits_broken(run: Run) -> list[tuple[float, float]]:
    """Requests that came although the server had said when to come back; others were under way."""
    at = [when for when, _, _ in run.server.log]
    broken = []
    for told, until in run.server.refusals:
        k = bisect_left(at, told + 1e-6)
        if k < len(at) and at[k] < until - 1e-6:
            broken.append((told, at[k]))
    return broken


def invented(run: Run) -> list[int]:
    """Ids that the ledger calls done and the server never served."""
    served = {
        i for _, i, v in run.server.log if v in (AnswerVerdict.STORED, AnswerVerdict.FILTERED)
    }
    return [i for i in run.done if i not in served]


def repeated(run: Run) -> list[int]:
    return [i for i, times in run.done.items() if times > 1]


def unfetched(run: Run, world: World, patience: float) -> list[int]:
    """Ids that were out in time, and long ago, and were not fetched; or given up."""
    traffic, since = world.traffic, world.end - 180.0
    prompt = replace(traffic, stalls=())
    left = []
    for i in handed_out(traffic, since):
        shown, born, otherwise = (
            traffic.visible_at(i),
            traffic.allocated_at(i),
            prompt.visible_at(i),
        )
        if shown is None or born is None or otherwise is None:
            continue
        late = otherwise - born > 0.6 * patience
        late = late or max(shown, traffic.opens_at(i)) + traffic.delay > since
        if late or world.spoilt(i) or run.done[i] or may_be_missed(run, world, i):
            continue
        prompt_one = otherwise - born < traffic.delay + 10.0 * traffic.delay_spread
        if prompt_one or written_off(run, i):
            left.append(i)
    return left


def written_off(run: Run, i: int) -> bool:
    """One that came late may wait for its last ask, and must not be given up before."""
    return run.marks.get(i) is LedgerMark.HOLE or any(start <= i < end for start, end in run.gaps)


def handed_out(traffic: Traffic, t: float) -> list[int]:
    ids: list[int] = []
    start, last = traffic.first_id, traffic.head(t)
    for gap_start, gap_end in traffic.gap_ranges():
        ids += range(start, min(gap_start, last + 1))
        start = gap_end
    return ids + list(range(start, last + 1))


def island_of(world: World, i: int) -> tuple[int, int] | None:
    """The block between two leaps that holds this id."""
    for (_, start), (end, _) in pairwise(world.traffic.gap_ranges()):
        if start <= i < end:
            return start, end
    return None


def may_be_missed(run: Run, world: World, i: int) -> bool:
    """An id of an island that is too small to be promised, by how fine the gap was asked for."""
    island = island_of(world, i)
    gap = next(((start, end) for start, end in run.gaps if start <= i < end), None)
    if island is None or gap is None or island[1] - island[0] >= PROMISED:
        return False
    return island[1] - island[0] < 2 * coarseness(run, *gap)


def coarseness(run: Run, start: int, end: int) -> int:
    """The longest way from one id that the server was asked for in vain to the next."""
    absent = run.server.absent()
    inside = absent[bisect_left(absent, start) : bisect_left(absent, end)]
    return max(b - a for a, b in pairwise([start - 1, *inside, end]))


def guessed(run: Run) -> list[tuple[int, int]]:
    """Gaps of the ledger that were not asked for finely enough to be known."""
    return [gap for gap in run.gaps if 2 * coarseness(run, *gap) > PROMISED]


def served_twice(run: Run) -> list[int]:
    """They are published twice."""
    served = Counter(
        i for _, i, v in run.server.log if v in (AnswerVerdict.STORED, AnswerVerdict.FILTERED)
    )
    return [i for i, times in served.items() if times > 1]


def wrongly_skipped(run: Run, world: World, patience: float) -> list[int]:
    """Ids that were there in time and were written off as holes, or as part of a gap."""
    return [i for i in unfetched(run, world, patience) if written_off(run, i)]
