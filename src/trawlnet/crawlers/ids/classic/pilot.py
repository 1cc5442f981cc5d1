"""The classic pilot: workers that hold one id at a time, periods with a barrier, a gap checker."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from heapq import heappop, heappush

from trawlnet.crawlers.ids.adaptive.ceiling import EvenPace
from trawlnet.crawlers.ids.adaptive.embargo import Embargo
from trawlnet.crawlers.ids.adaptive.survey import survey_rate
from trawlnet.crawlers.ids.adaptive.walk import Walk
from trawlnet.crawlers.ids.classic.counters import SecondCounters
from trawlnet.crawlers.ids.classic.gap_checker import GapChecker
from trawlnet.crawlers.ids.classic.law import PeriodReading, Setting, Strategy, classic_law
from trawlnet.crawlers.ids.controls import Controls
from trawlnet.crawlers.ids.model import (
    Answer,
    AnswerVerdict,
    Ask,
    Decision,
    LedgerEntry,
    LedgerMark,
    PilotStart,
    Purpose,
)

FIRST_PERIOD = 10_000  # Ids.
_BASE = 5.5  # Seconds before a retry: less a third, plus up to as much again for each try.
_NOT_FOUND_MOST, _ERRORS_MOST = 3, 2  # After more than these, the id is offloaded.
_ERROR_WAIT, _THROTTLED_WAIT, _DISABLED_WAIT = 10.0, 5.0, 45.0
_OFFLOAD_AFTER, _OFFLOAD_TRIES = 15.0, 6
_OFFLOAD_MOST = 20_000  # Ids in the slow lane; further ones are missed at once.
_OFFLOAD_FLYING = 50
_PROBES = 16  # Requests in flight that the gap search may add.
_SURVEYED = 0.2  # Share of the budget, a part of which surveys gaps.
_FOUND = (AnswerVerdict.STORED, AnswerVerdict.FILTERED)


class _WorkerLane(Enum):
    WORKER = "worker"
    SUPER = "super"  # One of the many workers that the gap checker adds.
    OFFLOAD = "offload"


@dataclass(slots=True)
class _Job:
    lane: _WorkerLane
    tries: int = 0
    not_found: int = 0
    errors: int = 0


class ClassicPilot:
    def __init__(self, controls: Controls, start: PilotStart) -> None:
        self._controls = controls
        self._walk = Walk(start.cursor, controls.step, start.pending)
        self._pace = EvenPace(controls.max_rps)
        self._counters = SecondCounters()
        self._embargo = Embargo(start.embargoed)
        self._checker = GapChecker(self._walk, start.unsurveyed)
        self._jobs: dict[int, _Job] = {}
        self._waiting: list[tuple[float, int]] = []
        self._held = dict.fromkeys(_WorkerLane, 0)
        self._offload_flying = 0
        self._setting = Setting(Strategy.NORMAL, controls.bounded(controls.workers), FIRST_PERIOD)
        self._left = FIRST_PERIOD
        self._began: float | None = None
        self._outside: PeriodReading | None = None
        self._settled = 0
        self._past: tuple[float, int] | None = None

    @property
    def workers(self) -> int:
        return self._setting.workers + self._checker.crew + _OFFLOAD_FLYING + _PROBES

    @property
    def crew(self) -> int:
        return self._setting.workers

    def on_reading(self, reading: PeriodReading | None) -> None:
        """The figures of a metrics server for the last period; None to use our own counters."""
        self._outside = reading

    @property
    def unsurveyed_from(self) -> int | None:
        return self._checker.crossings.ground.lowest

    # --- Requests ---

    def asks(self, now: float, room: int) -> Sequence[Ask]:
        count = min(room, self._pace.ready(now))
        if count <= 0:
            return ()
        made = [Ask(i, Purpose.RETRY, 1) for i in self._embargo.take_share(now, min(1, count))]
        probes = self._checker.probes(now, min(count - len(made), _PROBES))
        made.extend(self._checker.crossings.ask(i) for i in probes)
        self._due(now, count, made)
        self._take(_WorkerLane.WORKER, self._setting.workers, count, made)
        self._take(_WorkerLane.SUPER, self._checker.crew, count, made)
        for i in self._embargo.take(now, min(1, count - len(made))):
            made.append(Ask(i, Purpose.RETRY, 1))
        self._embargo.sent(len(made))
        self._pace.spend(len(made))
        return made

    def _due(self, now: float, count: int, made: list[Ask]) -> None:
        put_off = []
        while len(made) < count and self._waiting and self._waiting[0][0] <= now:
            due, i = heappop(self._waiting)
            job = self._jobs[i]
            if job.lane is not _WorkerLane.OFFLOAD:
                made.append(Ask(i, Purpose.RETRY, job.tries))
            elif self._offload_flying < _OFFLOAD_FLYING:
                self._offload_flying += 1
                made.append(Ask(i, Purpose.OFFLOAD, job.tries))
            else:
                put_off.append((due, i))
        for entry in put_off:
            heappush(self._waiting, (max(entry[0], now + 1.0), entry[1]))

    def _take(self, lane: _WorkerLane, crew: int, count: int, made: list[Ask]) -> None:
        """Idle workers take the next ids: a worker that waits for a retry is not idle."""
        idle = min(crew - self._held[lane], self._remaining(lane), count - len(made))
        if idle <= 0:
            return
        old = self._walk.old(idle)
        new = self._walk.new(idle - len(old), float("inf"))
        for i in (*old, *new):
            self._jobs[i] = _Job(lane)
            made.append(Ask(i, Purpose.FIRST))
        self._held[lane] += len(old) + len(new)
        if lane is _WorkerLane.WORKER:
            self._left -= len(old) + len(new)
        else:
            self._checker.left -= len(old) + len(new)

    def _remaining(self, lane: _WorkerLane) -> int:
        return self._left if lane is _WorkerLane.WORKER else self._checker.left

    def wake_at(self, now: float) -> float:
        at = min(self._checker.next_at(now), self._embargo.next_at(now))
        if self._waiting:
            at = min(at, self._waiting[0][0])
        for lane, crew in (
            (_WorkerLane.WORKER, self._setting.workers),
            (_WorkerLane.SUPER, self._checker.crew),
        ):
            if self._held[lane] < crew and self._remaining(lane) > 0:
                at = now
        return max(at, self._pace.next_at(now))

    # --- Answers ---

    def answered(self, now: float, answer: Answer) -> Sequence[LedgerEntry]:
        ask, verdict = answer.ask, answer.verdict
        self._checker.heard(now, ask.id, answer)
        if ask.purpose.looks:
            return self._probed(answer)
        if ask.id in self._embargo:
            return self._embargo_answered(ask.id, verdict)
        job = self._jobs[ask.id]
        if job.lane is _WorkerLane.OFFLOAD:
            self._offload_flying -= 1
        else:
            self._counters.count(now, verdict)
            if answer.happened_at is not None and verdict in _FOUND:
                self._counters.lag(now, now - answer.happened_at)
            if verdict is AnswerVerdict.DISABLED:
                self._counters.lag(now, 0.0)
            if (
                left := self._walk.walked(ask.id, missing=verdict is AnswerVerdict.NOT_FOUND)
            ) is not None:
                self._checker.crossings.cross(*left)
        if verdict in _FOUND:
            self._settled += 1
            return self._over(ask.id, job, LedgerMark.DONE)
        if verdict is AnswerVerdict.EMBARGOED:
            self._embargo.hold(now, ask.id)
            return self._over(ask.id, job, LedgerMark.EMBARGOED)
        return self._again(now, ask.id, job, verdict)

    def _probed(self, answer: Answer) -> Sequence[LedgerEntry]:
        i = answer.ask.id
        entries = self._checker.crossings.entries()
        if answer.verdict.exists and i not in self._jobs and self._walk.fetched_ahead(i):
            mark = (
                LedgerMark.EMBARGOED
                if answer.verdict is AnswerVerdict.EMBARGOED
                else LedgerMark.DONE
            )
            entries.append(LedgerEntry(i, i + 1, mark))
        return entries

    def _embargo_answered(self, i: int, verdict: AnswerVerdict) -> Sequence[LedgerEntry]:
        if verdict in _FOUND:
            self._embargo.let_go(i)
            self._settled += 1
            return (LedgerEntry(i, i + 1, LedgerMark.DONE),)
        self._embargo.again(i)
        return ()

    def _over(self, i: int, job: _Job, mark: LedgerMark, reason: str = "") -> Sequence[LedgerEntry]:
        self._held[job.lane] -= 1
        del self._jobs[i]
        entry = LedgerEntry(i, i + 1, mark, reason)
        if self._controls.step == 1:
            return (entry,)
        return (
            entry,
            LedgerEntry(i + 1, i + self._controls.step, LedgerMark.GAP, "left out on purpose"),
        )

    def _again(
        self, now: float, i: int, job: _Job, verdict: AnswerVerdict
    ) -> Sequence[LedgerEntry]:
        if verdict in (AnswerVerdict.DISABLED, AnswerVerdict.THROTTLED):
            wait = _DISABLED_WAIT if verdict is AnswerVerdict.DISABLED else _THROTTLED_WAIT
            heappush(self._waiting, (now + wait, i))
            return ()
        job.tries += 1
        if job.lane is _WorkerLane.OFFLOAD:
            return self._offload_again(now, i, job)
        job.not_found += verdict is AnswerVerdict.NOT_FOUND
        job.errors += verdict is not AnswerVerdict.NOT_FOUND
        if job.not_found > _NOT_FOUND_MOST or job.errors > _ERRORS_MOST:
            return self._offload(now, i, job)
        wait = _BASE - _BASE / 3 + _unit(i, job.tries) * _BASE * job.tries
        if verdict is AnswerVerdict.FAILED:
            wait += _ERROR_WAIT
        heappush(self._waiting, (now + wait, i))
        return ()

    def _offload(self, now: float, i: int, job: _Job) -> Sequence[LedgerEntry]:
        if self._held[_WorkerLane.OFFLOAD] >= _OFFLOAD_MOST:
            return self._over(i, job, LedgerMark.MISSED, "the offload lane was full")
        self._held[job.lane] -= 1
        self._held[_WorkerLane.OFFLOAD] += 1
        job.lane, job.tries = _WorkerLane.OFFLOAD, 0
        heappush(self._waiting, (now + _OFFLOAD_AFTER, i))
        return ()

    def _offload_again(self, now: float, i: int, job: _Job) -> Sequence[LedgerEntry]:
        if job.tries >= _OFFLOAD_TRIES:
            return self._over(
                i, job, LedgerMark.MISSED, "not found at the last attempt of the offload lane"
            )
        wait = job.tries * (2 * job.tries + _unit(i, job.tries) * 5 * job.tries)
        heappush(self._waiting, (now + wait, i))
        return ()

    def allow(self, now: float, max_rps: float) -> None:
        self._controls = replace(self._controls, max_rps=max_rps)
        self._pace.retune(now, max_rps)

    # --- At the end of a period ---

    def decide(self, now: float) -> Decision | None:
        if self._began is None:
            self._began = now
            self._checker.begin(now)
            return self._decision(now, "starting")
        self._checker.crossings.ground.retune(now, survey_rate(_SURVEYED * self._controls.max_rps))
        event = self._checker.check(now, self._counters, idle=self._held[_WorkerLane.SUPER] == 0)
        if self._left > 0 or self._held[_WorkerLane.WORKER] > 0:
            return self._decision(now, event) if event else None
        # The barrier: every worker has finished its last id of the period.
        reading = self._outside or self._counters.reading(now, now - self._began)
        self._checker.knows(reading)
        bounds = self._controls.min_workers, self._controls.max_workers
        self._setting = classic_law(reading, self._setting.workers, *bounds)
        self._left, self._began, self._outside = self._setting.period, now, None
        share = f"{reading.fraction_404:.1%} of 404s, lag {reading.p20_lag:.0f} s"
        return self._decision(now, f"{self._setting.strategy}: {share}", reading.pgcr_rate)

    def _decision(self, now: float, reason: str, rate: float = 0.0) -> Decision:
        measured = None
        if self._past is not None and now > self._past[0]:
            measured = (self._settled - self._past[1]) / (now - self._past[0])
        self._past = (now, self._settled)
        workers = self._setting.workers
        return Decision(now, "classic", workers, self._controls.max_rps, rate, measured, reason)


def _unit(i: int, tries: int) -> float:
    """A number in [0, 1) that is fixed for this id and try."""
    return (i * 0x9E3779B97F4A7C15 + tries * 0xD1B54A32D192ED03 >> 13 & 0xFFFF) / 65536.0
