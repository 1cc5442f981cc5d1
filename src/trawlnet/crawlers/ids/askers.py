"""Who says what is asked next: the pilot, and the second chances beside it."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from trawlnet.crawlers.ids.second import SecondChances
from trawlnet.crawlers.ids.words import Answer, Ask, Entry, Pilot, Verdict


class Asker(Protocol):
    """The part of a pilot that asks; second chances have it, too."""

    def asks(self, now: float, room: int) -> Sequence[Ask]: ...

    def answered(self, now: float, answer: Answer) -> Sequence[Entry]: ...


@dataclass(frozen=True, slots=True)
class Asked:
    """A request on its way, and who wants to hear of it. The payload of a task."""

    ask: Ask
    by: Asker


class Askers:
    """An answer is told to its asker at once; what that writes into the ledger comes later, when
    the item is published."""

    def __init__(self, pilot: Pilot, second: SecondChances) -> None:
        self.pilot = pilot
        self.second = second
        self.wake: Callable[[], None] = lambda: None  # There may be something to ask now.
        self.waiting = False  # For room: nothing is asked meanwhile.
        self._returned: deque[Asked] = deque()

    def asks(self, now: float, room: int) -> list[Asked]:
        if self.waiting:
            return []
        asked = [self._returned.popleft() for _ in range(min(room, len(self._returned)))]
        askers: tuple[Asker, ...] = (self.pilot, self.second)
        for asker in askers:
            if len(asked) < room:
                asked += [Asked(ask, asker) for ask in asker.asks(now, room - len(asked))]
        return asked

    def wake_at(self, now: float) -> float:
        if self.waiting:
            return math.inf
        if self._returned:
            return now
        return min(self.pilot.wake_at(now), self.second.wake_at(now))

    def answered(self, now: float, asked: Asked, answer: Answer) -> Sequence[Entry]:
        self.second.heard(now, answer.verdict)
        entries = asked.by.answered(now, answer)
        self.second.noted(now, entries)
        self.wake()
        return entries

    def allow(self, now: float, max_rps: float) -> None:
        """The budget is another one from now on."""
        self.pilot.allow(now, max_rps)
        self.second.allow(max_rps)

    def returned(self, asked: Asked) -> None:
        """It was never sent: the lane was parked before its turn came."""
        self._returned.append(asked)

    def broke(self, now: float, asked: Asked) -> Sequence[Entry]:
        """Our own code broke over it: that costs the id a try, like any other failure."""
        return self.answered(now, asked, Answer(asked.ask, Verdict.FAILED, 0.0))
