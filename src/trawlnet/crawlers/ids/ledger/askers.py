"""The askers, which choose the next requests: the pilot, and the second chances beside it."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from trawlnet.crawlers.ids.ledger.second_chances import SecondChances
from trawlnet.crawlers.ids.model import Answer, AnswerVerdict, Ask, LedgerEntry, Pilot, Purpose

_PILOT, _SECOND = "pilot", "second"


class Asker(Protocol):
    """The part of a pilot that chooses requests; second chances have it, too."""

    def asks(self, now: float, room: int) -> Sequence[Ask]: ...

    def answered(self, now: float, answer: Answer) -> Sequence[LedgerEntry]: ...


@dataclass(frozen=True, slots=True)
class PendingRequest:
    """A request in flight, and its asker."""

    number: int  # Counts all requests of this process: one id may be requested several times.
    by: str
    ask: Ask

    def payload(self) -> list[Any]:
        """As plain data, for a task."""
        ask = self.ask
        return [self.number, self.by, ask.id, str(ask.purpose), ask.attempt]

    @classmethod
    def of(cls, payload: Sequence[Any]) -> PendingRequest:
        number, by, id_, purpose, attempt = payload
        return cls(number, by, Ask(id_, Purpose(purpose), attempt))


class Askers:
    """Passes each answer to its asker at once; the ledger entries are written later, when the item
    is published."""

    def __init__(self, pilot: Pilot, second: SecondChances) -> None:
        self.pilot = pilot
        self.second = second
        self.wake: Callable[[], None] = lambda: None  # Called when there may be a new request.
        self.waiting = False  # Waits for the spool: no requests meanwhile.
        self._by: dict[str, Asker] = {_PILOT: pilot, _SECOND: second}
        self._numbers = 0
        self._out: set[int] = set()  # Numbers of unanswered requests.
        self._returned: deque[PendingRequest] = deque()

    def asks(self, now: float, room: int) -> list[PendingRequest]:
        if self.waiting:
            return []
        asked: list[PendingRequest] = []
        while self._returned and len(asked) < room:
            again = self._returned.popleft()
            if again.number in self._out:
                asked.append(again)
        for by, asker in self._by.items():
            if len(asked) < room:
                asked += [self._new(by, ask) for ask in asker.asks(now, room - len(asked))]
        return asked

    def wake_at(self, now: float) -> float:
        if self.waiting:
            return math.inf
        if self._returned:
            return now
        return min(self.pilot.wake_at(now), self.second.wake_at(now))

    def answered(self, now: float, asked: PendingRequest, answer: Answer) -> Sequence[LedgerEntry]:
        """An asker gets one answer for each request, even if it was sent several times."""
        if asked.number not in self._out:
            return ()
        self._out.discard(asked.number)
        self.second.heard(now, answer.verdict)
        entries = self._by[asked.by].answered(now, answer)
        self.second.noted(now, entries)
        self.wake()
        return entries

    def allow(self, now: float, max_rps: float) -> None:
        """Change the budget."""
        self.pilot.allow(now, max_rps)
        self.second.allow(max_rps)

    def returned(self, asked: PendingRequest) -> None:
        """Send the request again: its lane was parked before its turn, or its lease ended without
        an answer."""
        self._returned.append(asked)

    def broke(self, now: float, asked: PendingRequest) -> Sequence[LedgerEntry]:
        """Our own code failed: that costs the id a try, like any other failure."""
        return self.answered(now, asked, Answer(asked.ask, AnswerVerdict.FAILED, 0.0))

    def _new(self, by: str, ask: Ask) -> PendingRequest:
        self._numbers += 1
        self._out.add(self._numbers)
        return PendingRequest(self._numbers, by, ask)
