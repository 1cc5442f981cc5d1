"""The law of a polite crawl, written without looking at the engine, over what a stage wrote down.

`LaneLaw` is what a host may expect, `KeyLaw` what becomes of a key. Both are stated in plain
arithmetic over the list of events; no figure of the engine's is used.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tests.random_worlds.engine_world import Event, Request
from trawlnet.engine.outcome import Again, Outcome, Reason
from trawlnet.engine.rules import Manners, RetryPolicy
from trawlnet.engine.task import Task

SLACK = 1e-5  # Seconds; what adding up instants in floats may cost.

HOST_FAILS = frozenset({Reason.UNAVAILABLE, Reason.TIMEOUT, Reason.CONNECTION_ERROR})
OUR_FAULT = frozenset({Reason.UNKNOWN, Reason.NO_SPACE})
COUNTED = HOST_FAILS | OUR_FAULT | {Reason.TRUNCATED}
PATIENT = frozenset({Reason.RATE_LIMITED, Reason.NOT_YET, Reason.PARKED})


class LaneLaw:
    """What one host may expect of one run."""

    def __init__(self, name: str, manners: Manners, parked_until: float = 0.0) -> None:
        self.name = name
        self.manners = manners
        self.parked_until = parked_until
        self.blocked = False
        self.failures = 0
        self.throttled = 0
        self.trouble_since: int | None = None  # The event from which on it is in trouble.
        self.inside: list[Request] = []
        self.lefts: list[tuple[float, float]] = []  # When, and at which rate then.

    def rate(self) -> float:
        manners = self.manners
        halvings = self.failures // manners.halve_every
        if not halvings:
            return manners.rate
        full = 64.0 if manners.rate == math.inf else manners.rate
        return max(min(manners.floor, manners.rate), full / 2**halvings)

    def entered(self, request: Request, at: float) -> None:
        who = f"{self.name}: request for {request.key} at {at}"
        assert not self.blocked, f"{who} after the host was given up"
        assert at >= self.parked_until - SLACK, f"{who} before {self.parked_until}"
        assert len(self.inside) < self.manners.concurrency, f"{who}: too many at once"
        if self.trouble_since is not None and request.asked > self.trouble_since:
            others = [one for one in self.inside if one.asked > self.trouble_since]
            assert not others, f"{who}: a second one while the host is in trouble"
        self.inside.append(request)

    def left(self, at: float) -> None:
        """At most a burst, and then the rate; of a span in which the rate changed, the highest."""
        self.lefts.append((at, self.rate()))
        burst, highest = self.manners.burst, self.rate()
        for count, (before, rate) in enumerate(reversed(self.lefts), start=1):
            highest = max(highest, rate)
            allowed = burst + highest * (at - before + SLACK * count)
            assert count <= allowed + 1e-6, (
                f"{self.name}: {count} requests in {at - before:.6f} s at {at},"
                f" with a rate of {highest} and a burst of {burst}"
            )

    def closed(self, request: Request) -> None:
        self.inside.remove(request)

    def answered(self, outcome: Outcome, at: float, event: int) -> None:
        reason, manners = outcome.reason, self.manners
        if reason is Reason.PARKED or reason in OUR_FAULT:
            return
        if reason is Reason.RATE_LIMITED:
            self.throttled += 1
        elif reason in HOST_FAILS or reason is Reason.BLOCKED:
            # What fails while the host is parked was sent before it was: that is one failure.
            self.failures += at >= self.parked_until
        else:
            self.failures = self.throttled = 0
            self.trouble_since = None
            return
        if self.trouble_since is None:
            self.trouble_since = event
        wait = outcome.wait or 0.0
        if reason is Reason.RATE_LIMITED and wait <= 0.0:
            wait = manners.first_park * 2 ** (self.throttled - 1)
        self.parked_until = max(self.parked_until, at + min(wait, manners.longest_park))
        self.blocked = self.blocked or self.failures >= manners.block_at


@dataclass(slots=True)
class KeyState:
    task: Task
    attempt: int = 0
    waits: int = 0
    not_before: float = 0.0
    due_by: float = 0.0  # It may be put off until then, and no longer.
    word: Reason | None = None  # The last one, once nothing is to follow.
    scheduled: bool = False


@dataclass(slots=True)
class Fates:
    """What has become of every key, going by what was answered and what was written down."""

    retry: RetryPolicy
    remember_done: bool
    keys: dict[str, KeyState] = field(default_factory=dict)
    settled: Counter[Reason] = field(default_factory=Counter)  # Keys by their last word.
    attempts: Counter[Reason] = field(default_factory=Counter)

    def add(self, tasks: Sequence[Task], at: float) -> None:
        for task in tasks:
            if task.key not in self.keys:
                due_by = max(task.due, at)
                self.keys[task.key] = KeyState(task, not_before=task.due, due_by=due_by)

    def reopen(self, holds: Mapping[str, float], at: float) -> None:
        """Somebody asked for another try at all that failed, or waits on a host given up."""
        for state in self.keys.values():
            failed = state.word not in (None, Reason.OK)
            if failed:
                self.settled[state.word] -= 1
            waits = state.word is None and not state.scheduled
            if failed or (waits and holds.get(state.task.lane) == math.inf):
                self.keys[state.task.key] = KeyState(state.task, due_by=at)

    def may_begin(self, task: Task, at: float) -> None:
        state = self.keys.get(task.key)
        assert state is not None, f"{task.key} was never named"
        assert state.word is None, f"{task.key} was asked for after its last word, {state.word}"
        assert at >= state.not_before - SLACK, f"{task.key} at {at}, before {state.not_before}"
        assert task.attempt == state.attempt and task.waits == state.waits, task
        assert task.payload == state.task.payload and task.lane == state.task.lane

    def settle(self, key: str, word: Reason, outcome: Outcome, ended: float, at: float) -> None:
        self.attempts[word] += 1
        state, retry = self.keys[key], self.retry
        if word is not outcome.reason:  # It named something that no store can keep.
            assert word is Reason.UNKNOWN and outcome.found
            self._close(key, word)
            return
        told = min(outcome.wait or 0.0, retry.cap)
        if outcome.again_in is not None:
            state.attempt = state.waits = 0
            state.scheduled = True
            self._put_off(state, ended, at, outcome.again_in, outcome.again_in)
        elif word in COUNTED and state.attempt + 1 < retry.attempts:
            state.scheduled = False
            shortest, longest = self._delays(state.attempt)
            self._put_off(state, ended, at, max(told, shortest), max(told, longest))
            state.attempt += 1
        elif outcome.again is Again.QUEUED:
            state.scheduled = False
            shortest, longest = self._delays(0)
            self._put_off(state, ended, at, told or shortest, told or longest)
        elif word in PATIENT and state.waits < retry.patience:
            state.scheduled = False
            shortest, longest = self._delays(state.waits)
            self._put_off(state, ended, at, told or shortest, told or longest)
            state.waits += 1
        else:
            self._close(key, word)
        self.add(outcome.found, at)

    def _delays(self, tries: int) -> tuple[float, float]:
        plain = min(self.retry.cap, self.retry.base * 2**tries)
        return plain * (1 - self.retry.jitter), plain * (1 + self.retry.jitter)

    def _put_off(
        self, state: KeyState, ended: float, at: float, shortest: float, longest: float
    ) -> None:
        """From the answer on at the earliest, from when it was written down at the latest."""
        state.not_before, state.due_by = ended + shortest, at + longest

    def _close(self, key: str, word: Reason) -> None:
        self.settled[word] += 1
        if word is Reason.OK and not self.remember_done:
            del self.keys[key]
        else:
            self.keys[key].word, self.keys[key].scheduled = word, False


@dataclass(slots=True)
class RunLaw:
    """One run, event by event."""

    lanes: dict[str, LaneLaw]
    fates: Fates
    workers: int
    most_tasks: int | None
    deadline: float  # Nothing begins after it,
    reaction: float  # except what was being leased by then.
    rows: dict[str, list[object]]
    still: Sequence[tuple[float, float]] = ()  # Spans in which nothing begins.
    running: dict[str, Task] = field(default_factory=dict)
    answers: dict[str, tuple[Outcome, float]] = field(default_factory=dict)
    begun: int = 0
    tally: Counter[Reason] = field(default_factory=Counter)
    before: list[Callable[[Event], None]] = field(default_factory=list)

    def read(self, number: int, event: Event) -> None:
        for judge in self.before:
            judge(event)
        match event.what:
            case "fed":
                assert event.page is not None
                self.fates.add(event.page.tasks, event.at)
            case "begun":
                self._begun(event)
            case "entered":
                assert event.request is not None
                self.lanes[event.lane].entered(event.request, event.at)
            case "left":
                self.lanes[event.lane].left(event.at)
            case "closed":
                assert event.request is not None
                self.lanes[event.lane].closed(event.request)
            case "ended":
                self._ended(number, event)
            case "settled":
                self._settled(event)

    def _begun(self, event: Event) -> None:
        assert event.task is not None
        assert event.key not in self.running, f"{event.key} is being asked for twice at once"
        assert event.key not in self.answers, f"{event.key} again before its answer was settled"
        self.running[event.key] = event.task
        self.begun += 1
        assert len(self.running) <= self.workers, "more at work than workers"
        assert self.most_tasks is None or self.begun <= self.most_tasks, "more than most_tasks"
        assert event.at <= self.deadline + self.reaction + SLACK, "begun after the time was up"
        for since, until in self.still:
            asleep = since + self.reaction + SLACK < event.at < until - SLACK
            assert not asleep, "begun while paused"
        self.fates.may_begin(event.task, event.at)

    def _ended(self, number: int, event: Event) -> None:
        task = self.running.pop(event.key)
        outcome = event.outcome
        assert outcome is not None
        lane = self.lanes[outcome.lane or task.lane]
        lane.answered(outcome, event.at, number)
        if outcome.reason is Reason.PARKED and lane.name != task.lane and lane.throttled <= 1:
            # It waits behind others for a host that is not its own, and that answers them.
            outcome = replace(outcome, again=Again.QUEUED)
        self.answers[event.key] = (outcome, event.at)

    def _settled(self, event: Event) -> None:
        for key, word in event.keys:
            outcome, ended = self.answers.pop(key)
            if outcome.items:
                assert self.rows.get(key) == list(outcome.items), f"{key} settled, not durable"
            self.tally[word] += 1
            self.fates.settle(key, word, outcome, ended, event.at)


def by_word(fates: Fates) -> dict[Reason, int]:
    return {word: count for word, count in fates.settled.items() if count}


def open_on_lanes(fates: Fates) -> dict[str, int]:
    open_on: defaultdict[str, int] = defaultdict(int)
    for state in fates.keys.values():
        if state.word is None and not state.scheduled:
            open_on[state.task.lane] += 1
    return dict(open_on)
