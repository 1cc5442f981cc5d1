"""Second chances: requests missed ids again, for some rounds."""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from trawlnet.crawlers.ids.ledger.span_codec import Miss
from trawlnet.crawlers.ids.model import Answer, AnswerVerdict, Ask, LedgerEntry, LedgerMark, Purpose

SHARE = 0.1  # Share of the budget for missed ids.


@dataclass(frozen=True, slots=True)
class ChancePolicy:
    per_second: float = 2.0  # Requests; the rest of the budget is the pilot's.
    after: float = 900.0  # Seconds before the first round; each further one waits twice as long.
    rounds: int = 5
    pause: float = 60.0  # Seconds to wait while the API is off or throttles.


class SecondChances:
    """An asker beside the pilot. No I/O and no clock: the caller passes the time."""

    def __init__(self, policy: ChancePolicy) -> None:
        self._policy = policy
        self._heap: list[tuple[float, int, int]] = []  # Due time, id, used rounds.
        self._out: dict[int, int] = {}  # Ids in flight -> their rounds.
        self._next_ask = 0.0

    def allow(self, max_rps: float) -> None:
        self._policy = replace(self._policy, per_second=SHARE * max_rps)

    def __len__(self) -> int:
        return len(self._heap) + len(self._out)

    def remember(self, now: float, misses: Mapping[int, Miss]) -> None:
        """Load the missed ids of the ledger when a crawl begins."""
        for number, miss in misses.items():
            self._plan(number, miss.rounds, miss.at)

    def asks(self, now: float, room: int) -> Sequence[Ask]:
        asks: list[Ask] = []
        while len(asks) < room and now >= self.wake_at(now):
            _, number, rounds = heapq.heappop(self._heap)
            self._out[number] = rounds
            self._next_ask = now + 1.0 / self._policy.per_second
            asks.append(Ask(number, Purpose.OFFLOAD, rounds + 1))
        return asks

    def wake_at(self, now: float) -> float:
        return max(self._heap[0][0], self._next_ask) if self._heap else float("inf")

    def answered(self, now: float, answer: Answer) -> Sequence[LedgerEntry]:
        number = answer.ask.id
        rounds = self._out.pop(number)
        match answer.verdict:
            case AnswerVerdict.STORED | AnswerVerdict.FILTERED:
                return [LedgerEntry(number, number + 1, LedgerMark.DONE)]
            case AnswerVerdict.EMBARGOED:
                return [LedgerEntry(number, number + 1, LedgerMark.EMBARGOED, "withheld")]
            case AnswerVerdict.NOT_FOUND:
                return [
                    LedgerEntry(
                        number, number + 1, LedgerMark.HOLE, "not found when requested again"
                    )
                ]
            case AnswerVerdict.DISABLED | AnswerVerdict.THROTTLED:
                # Inconclusive about the id.
                due = now + max(answer.wait or 0.0, self._policy.pause)
                heapq.heappush(self._heap, (due, number, rounds))
                return ()
            case _:
                self._plan(number, rounds + 1, now)
                return [LedgerEntry(number, number + 1, LedgerMark.MISSED, AGAIN)]

    def heard(self, now: float, verdict: AnswerVerdict) -> None:
        """Receives every answer: while the API is off, only the pilot's canary is sent."""
        if verdict is AnswerVerdict.DISABLED:
            self._next_ask = max(self._next_ask, now + self._policy.pause)

    def noted(self, now: float, entries: Sequence[LedgerEntry]) -> None:
        """Receives the pilot's ledger entries, which may have missed ids."""
        for entry in entries:
            if entry.mark is LedgerMark.MISSED and entry.reason != AGAIN:
                for number in range(entry.start, entry.end):
                    self._plan(number, 0, now)

    def _plan(self, number: int, rounds: int, since: float) -> None:
        """After all its rounds an id stays missed, until `retry`."""
        if rounds < self._policy.rounds:
            due = since + self._policy.after * 2.0**rounds
            heapq.heappush(self._heap, (due, number, rounds))


AGAIN = "failed again"
