"""The handler of one id: sends the request, reads the answer, and passes it to its asker."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from trawlnet.crawlers.ids.api.api import AnswerReading, Api
from trawlnet.crawlers.ids.ledger.askers import Askers, PendingRequest
from trawlnet.crawlers.ids.model import Answer, AnswerVerdict, LedgerEntry
from trawlnet.crawlers.ids.storing.publish import FoundId
from trawlnet.crawlers.metered import Getter
from trawlnet.engine.outcome import Outcome, Reason
from trawlnet.engine.ports import Clock
from trawlnet.engine.task import Task
from trawlnet.net.client.answer import Response
from trawlnet.net.trouble import Trouble

# Called with every answer, its ledger entries, and the time.
Watch = Callable[[Answer, AnswerReading, Sequence[LedgerEntry], float], None]

REASONS: Mapping[AnswerVerdict, Reason] = {
    AnswerVerdict.STORED: Reason.OK,
    AnswerVerdict.FILTERED: Reason.OK,
    AnswerVerdict.NOT_FOUND: Reason.NOT_YET,
    AnswerVerdict.DISABLED: Reason.UNAVAILABLE,
    AnswerVerdict.EMBARGOED: Reason.EMBARGOED,
    AnswerVerdict.MALFORMED: Reason.PARSE_ERROR,
    AnswerVerdict.FAILED: Reason.UNAVAILABLE,
    AnswerVerdict.THROTTLED: Reason.RATE_LIMITED,
}
NO_ANSWER = "NoAnswer"  # The word of a request without an answer.
_SPOILT_MOST = 10_000  # Ids with a spoilt last answer; the oldest are dropped.


@dataclass(frozen=True, slots=True)
class ApiServer:
    """The server, and our headers."""

    base: str
    lane: str
    headers: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class IdsHandler:
    http: Getter
    api: Api
    server: ApiServer
    askers: Askers
    clock: Clock
    watch: Watch
    _spoilt: OrderedDict[int, str] = field(default_factory=OrderedDict)

    async def __call__(self, task: Task) -> Outcome[Sequence[LedgerEntry]]:
        asked = PendingRequest.of(task.payload)
        number = asked.ask.id
        begun = self.clock.now()
        response = await self.http.get(
            self.api.url(self.server.base, number, self._query(number, asked.ask.attempt)),
            lane=self.server.lane,
            headers=self.server.headers,
        )
        now = self.clock.now()
        took = response.elapsed if isinstance(response, Response) else now - begun
        reading = self._read(number, response)
        answer = Answer(asked.ask, reading.verdict, took, reading.happened_at, reading.wait)
        self._remember(number, reading.again)
        entries = self.askers.answered(now, asked, answer)
        self.watch(answer, reading, entries, now)
        return Outcome(
            _reason(reading, response),
            items=_items(reading),
            wait=reading.wait,
            detail=reading.detail,
            news=entries,
        )

    def _read(self, number: int, response: Response | Trouble) -> AnswerReading:
        if isinstance(response, Response):
            return self.api.read(number, response)
        detail = f"{response.reason}: {response.detail}"
        return AnswerReading(AnswerVerdict.FAILED, NO_ANSWER, wait=response.wait, detail=detail)

    def _query(self, number: int, attempt: int) -> str:
        """A changed URL avoids caches with a spoilt answer."""
        name = self._spoilt.get(number)
        return f"{name}={max(attempt, 1)}" if name else ""

    def _remember(self, number: int, name: str) -> None:
        if name:
            self._spoilt[number] = name
            if len(self._spoilt) > _SPOILT_MOST:
                self._spoilt.popitem(last=False)
        elif self._spoilt:
            self._spoilt.pop(number, None)


def _items(reading: AnswerReading) -> list[FoundId]:
    if reading.verdict is AnswerVerdict.STORED and reading.message is not None:
        return [FoundId(reading.message)]
    return []


def _reason(reading: AnswerReading, response: Response | Trouble) -> Reason:
    """A network error keeps its own reason."""
    if isinstance(response, Trouble):
        return response.reason
    return REASONS[reading.verdict]
