"""One id in, one outcome out: ask for it, read the answer, and tell whoever wanted to know."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from trawlnet.crawlers.ids.api.api import Api, Reading
from trawlnet.crawlers.ids.ledger.askers import Asked, Askers
from trawlnet.crawlers.ids.model import Answer, Entry, Verdict
from trawlnet.crawlers.ids.storing.publish import Found
from trawlnet.crawlers.metered import Getter
from trawlnet.engine.outcome import Outcome, Reason
from trawlnet.engine.ports import Clock
from trawlnet.engine.task import Task
from trawlnet.net.client.answer import Response
from trawlnet.net.trouble import Trouble

# Told of every answer, with what it puts into the ledger, and the instant.
Watch = Callable[[Answer, Reading, Sequence[Entry], float], None]

REASONS: Mapping[Verdict, Reason] = {
    Verdict.STORED: Reason.OK,
    Verdict.FILTERED: Reason.OK,
    Verdict.NOT_FOUND: Reason.NOT_YET,
    Verdict.DISABLED: Reason.UNAVAILABLE,
    Verdict.EMBARGOED: Reason.EMBARGOED,
    Verdict.MALFORMED: Reason.PARSE_ERROR,
    Verdict.FAILED: Reason.UNAVAILABLE,
    Verdict.THROTTLED: Reason.RATE_LIMITED,
}
NO_ANSWER = "NoAnswer"  # The word of a request that came to nothing.
_SPOILT_KEPT = 10_000  # Ids whose last answer was spoilt; the oldest are forgotten.


@dataclass(frozen=True, slots=True)
class Server:
    """Whom we ask, and as whom."""

    base: str
    lane: str
    headers: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class IdsHandler:
    http: Getter
    api: Api
    server: Server
    askers: Askers
    clock: Clock
    watch: Watch
    _spoilt: OrderedDict[int, str] = field(default_factory=OrderedDict)

    async def __call__(self, task: Task) -> Outcome[Sequence[Entry]]:
        asked = Asked.of(task.payload)
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

    def _read(self, number: int, response: Response | Trouble) -> Reading:
        if isinstance(response, Response):
            return self.api.read(number, response)
        detail = f"{response.reason}: {response.detail}"
        return Reading(Verdict.FAILED, NO_ANSWER, wait=response.wait, detail=detail)

    def _query(self, number: int, attempt: int) -> str:
        """A changed URL passes caches that keep a spoilt answer."""
        name = self._spoilt.get(number)
        return f"{name}={max(attempt, 1)}" if name else ""

    def _remember(self, number: int, name: str) -> None:
        if name:
            self._spoilt[number] = name
            if len(self._spoilt) > _SPOILT_KEPT:
                self._spoilt.popitem(last=False)
        elif self._spoilt:
            self._spoilt.pop(number, None)


def _items(reading: Reading) -> list[Found]:
    if reading.verdict is Verdict.STORED and reading.message is not None:
        return [Found(reading.message)]
    return []


def _reason(reading: Reading, response: Response | Trouble) -> Reason:
    """Trouble on the wire keeps its own word."""
    if isinstance(response, Trouble):
        return response.reason
    return REASONS[reading.verdict]
