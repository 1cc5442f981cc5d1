"""A crawl without a network: runs a pilot against any world, in virtual time."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from heapq import heappop, heappush

from trawlnet.crawlers.ids.adaptive.pilot import AdaptivePilot
from trawlnet.crawlers.ids.model import (
    Answer,
    AnswerVerdict,
    Ask,
    Decision,
    LedgerEntry,
    LedgerMark,
    Pilot,
    Purpose,
)

# The world's answer to a request at this time.
Reply = Callable[[Ask, float], Answer]
Anchor = Callable[[float], int | None]

_TICK = 1.0
_ANCHOR_EVERY = 10.0


@dataclass(slots=True)
class Journal:
    """The record of a rehearsal, from which all measures are computed."""

    began: float
    requests: list[tuple[float, Purpose, AnswerVerdict]] = field(default_factory=list)  # By answer.
    fetched: dict[int, float] = field(default_factory=dict)  # Id to when it was first there.
    lags: list[tuple[float, float]] = field(default_factory=list)  # When, and how old it was.
    workers: list[tuple[float, int]] = field(default_factory=list)  # Once a second.
    marks: dict[int, LedgerMark] = field(
        default_factory=dict
    )  # Of single ids that were not fetched.
    gaps: list[tuple[int, int]] = field(default_factory=list)
    embargoed: dict[int, None] = field(default_factory=dict)
    withheld: set[int] = field(default_factory=set)  # All that ever were embargoed.
    decisions: list[Decision] = field(default_factory=list)
    behind: int | None = None  # The first id behind a gap, if there is one ...
    behind_at: float | None = None  # ... and when the crawl, not a probe, had got there.
    beyond: int = 0  # The next id that was never asked for, other than by a probe.
    asked: set[int] = field(default_factory=set)  # Waiting for their last word.

    def reached(self, i: int, now: float) -> None:
        if self.behind is not None and i >= self.behind and self.behind_at is None:
            self.behind_at = now

    def note(self, entries: Iterable[LedgerEntry]) -> None:
        for entry in entries:
            self._note(entry)

    def _note(self, entry: LedgerEntry) -> None:
        match entry.mark:
            case LedgerMark.GAP:
                self.gaps.append((entry.start, entry.end))
            case LedgerMark.UNSURVEYED | LedgerMark.PENDING:
                pass  # A later entry has its result.
            case LedgerMark.DONE:
                self.embargoed.pop(entry.start, None)
                self.asked.discard(entry.start)
            case LedgerMark.EMBARGOED:
                self.embargoed[entry.start] = None
                self.withheld.add(entry.start)
                self.asked.discard(entry.start)
            case _:
                self.marks[entry.start] = entry.mark
                self.asked.discard(entry.start)


class Rehearsal:
    """One process of a crawl; `run` may be called again with a new pilot after a crash."""

    def __init__(
        self, reply: Reply, cap: float, began: float, anchor: Anchor | None = None
    ) -> None:
        self.journal = Journal(began)
        self._reply = reply
        self._gap = 1.0 / cap
        self._anchor = anchor
        self._free_at = began  # When the proxy in front of the world can take one more.

    def run(self, pilot: Pilot, start: float, end: float) -> None:
        """Run until `end`; requests in flight are then lost, as in a crash."""
        flying: list[tuple[float, int, Answer]] = []
        now, tick, sent = start, start, 0
        wake = start
        while True:
            arrival = flying[0][0] if flying else float("inf")
            now = max(now, min(arrival, tick, wake))
            if now >= end:
                return
            while flying and flying[0][0] <= now:
                _, _, answer = heappop(flying)
                self._answered(pilot, now, answer)
            if now >= tick:
                tick = now + _TICK
                self._decide(pilot, now)
            for ask in pilot.asks(now, pilot.workers - len(flying)):
                self._free_at = max(self._free_at, now)
                answer = self._reply(ask, self._free_at)
                sent += 1
                heappush(flying, (self._free_at + answer.took, sent, answer))
                self._free_at += self._gap
                self._asked(ask)
            room = pilot.workers > len(flying)
            wake = pilot.wake_at(now) if room else float("inf")
            if wake <= now:
                wake = now + _LEAST

    def _asked(self, ask: Ask) -> None:
        if not ask.purpose.looks:
            self.journal.asked.add(ask.id)
            if ask.id >= self.journal.beyond:
                self.journal.beyond = ask.id + 1

    def _answered(self, pilot: Pilot, now: float, answer: Answer) -> None:
        journal, i = self.journal, answer.ask.id
        journal.requests.append((now, answer.ask.purpose, answer.verdict))
        if answer.verdict in _FETCHED and i not in journal.fetched:
            journal.fetched[i] = now
            if answer.happened_at is not None:
                journal.lags.append((now, now - answer.happened_at))
            if not answer.ask.purpose.looks:
                journal.reached(i, now)
        journal.note(pilot.answered(now, answer))

    def left_over(self) -> list[tuple[int, int]]:
        """The ranges that a ledger would have as pending after a crash."""
        return [(i, i + 1) for i in sorted(self.journal.asked) if i < self.resume_at()]

    def resume_at(self) -> int:
        return max(self.journal.fetched, default=-1) + 1

    def _decide(self, pilot: Pilot, now: float) -> None:
        decision = pilot.decide(now)
        if decision is not None:
            self.journal.decisions.append(decision)
        workers = self.journal.decisions[-1].workers if self.journal.decisions else pilot.workers
        self.journal.workers.append((now, workers))
        if self._anchor is None or now % _ANCHOR_EVERY >= _TICK:
            return
        if isinstance(pilot, AdaptivePilot) and pilot.anchor_wanted():
            newest = self._anchor(now)
            if newest is not None:
                pilot.anchored(now, newest)


_FETCHED = (AnswerVerdict.STORED, AnswerVerdict.FILTERED)
_LEAST = 0.001
