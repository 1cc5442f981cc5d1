"""The worlds of `ids simulate`: the traffic of a scenario, and a model of the API over it."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from trawlnet.cli.common.errors import UsageTrouble
from trawlnet.crawlers.ids.measures import WARM_UP
from trawlnet.crawlers.ids.model import Answer, AnswerVerdict, Ask
from trawlnet.sim.ids.events import WorldEvents
from trawlnet.sim.ids.model import CounterLeap, IdState, Traffic
from trawlnet.sim.ids.scenarios import scenario

_HOUR = 3600.0
_SETTLED = 1800.0  # Seconds from the start of a scenario to its first event.
_EARLIER = 900.0  # Seconds to the start of the crawl, which finds its pace in fifteen minutes.
_LEAP = re.compile(r"(gap|pause|maintenance):(\d+)([kKmM]?)")
_MANY = {"": 1, "k": 1000, "m": 1_000_000}
_BURST = 1.5  # Seconds' worth of requests that a throttling server lets through at once.
_SERVICE_DRAWS = 4096
_TO_CATCH_UP = 360.0  # Seconds that a lag must stay low, and its first minute.
_AFTER = 1800.0  # Seconds from the end of the last event to the end of the world.
NO_EVENTS = WorldEvents()


@dataclass(frozen=True, slots=True)
class Trial:
    """One scenario: its traffic, and when the crawl starts, crashes, ends and is measured."""

    name: str
    traffic: Traffic
    start: float
    end: float
    since: float  # Catching up is counted from here.
    crash_at: float | None = None

    @property
    def over(self) -> float:
        """The end of the last event, where measuring starts."""
        return max([self.since, *(embargo.opens for embargo in self.traffic.embargoes)])

    def too_short_for(self) -> list[str]:
        """The measures for which this run is too short, with the time that they need."""
        lines = []
        if self.end <= self.start + WARM_UP:
            lines.append(f"m2, m3 and m4 count from {WARM_UP / _HOUR:g} hours on")
        if self.end < self.over + _TO_CATCH_UP:
            needed = (self.over + _TO_CATCH_UP - self.start) / _HOUR
            lines.append(f"m1, m5 and m8 need at least {needed:.2f} hours")
        return lines

    @property
    def first(self) -> int:
        """Where the crawl begins: at the newest id of its start, except after a backlog."""
        if self.name == "backlog":
            return self.traffic.first_id
        return self.traffic.head(self.start) + 1


NAMES = (
    "steady",
    "backlog",
    "gap:N",
    "pause",
    "pause:N",
    "maintenance:N",
    "leaps",
    "outage",
    "stall",
    "throttle",
    "embargo",
    "crash",
)
_HOURS = {
    "steady": 1.5,
    "backlog": 0.75,
    "gap": 0.8,
    "pause": 1.25,
    "maintenance": 1.25,
    "leaps": 1.0,
    "outage": 0.85,
    "stall": 0.7,
    "throttle": 1.45,
    "embargo": 1.15,
    "crash": 0.5,
}


def trial(
    name: str,
    seed: int,
    rate: float,
    hours: float | None = None,
    events: WorldEvents = NO_EVENTS,
) -> Trial:
    """The scenario of this name, as `ids simulate` runs it, and these events after its start."""
    one = _named(name, seed, rate, hours)
    if events == NO_EVENTS:
        return one
    traffic = events.added_to(one.traffic, one.start)
    over = max(one.since, one.start + events.over)
    if traffic.gaps:
        over = max(over, opened_at(traffic))
    end = one.end if hours else max(one.end, over + _AFTER)
    return replace(one, traffic=traffic, end=end, since=over)


def _named(name: str, seed: int, rate: float, hours: float | None) -> Trial:
    kind = name.split(":")[0]
    length = (hours or _HOURS.get(kind, 1.0)) * _HOUR
    plain = scenario("steady", seed, rate)
    start, end = _EARLIER, _EARLIER + length
    match kind:
        case "steady":
            return Trial(name, plain, 0.0, length, 0.0)
        case "backlog":
            return Trial(name, plain, 2 * _HOUR, 2 * _HOUR + length, 2 * _HOUR)
        case "gap" | "pause" | "maintenance" if leap := _LEAP.fullmatch(name):
            size = int(leap[2]) * _MANY[leap[3].lower()]
            calm = plain if kind == "gap" else scenario(kind, seed, rate)
            at = max((pause.end for pause in calm.pauses), default=_SETTLED)
            traffic = replace(calm, gaps=(CounterLeap(at, size),))
            return Trial(name, traffic, start, end, opened_at(traffic))
        case "leaps":
            traffic = scenario("leaps", seed, rate)
            return Trial(name, traffic, start, end, opened_at(traffic))
        case "pause" if name == kind:
            traffic = scenario("pause", seed, rate)
            return Trial(name, traffic, start, end, traffic.pauses[0].end)
        case "outage":
            traffic = scenario("outage", seed, rate)
            return Trial(name, traffic, start, end, traffic.outages[0].end)
        case "stall":
            traffic = scenario("stall", seed, rate)
            return Trial(name, traffic, start, end, traffic.stalls[0].end)
        case "throttle":
            traffic = scenario("throttle", seed, rate)
            return Trial(name, traffic, start, end, traffic.caps[0].span.end)
        case "embargo":
            return Trial(name, scenario("embargo", seed, rate), start, end, start)
        case "crash":
            return Trial(name, plain, start, end, _SETTLED, crash_at=_SETTLED)
    raise UsageTrouble(
        f"--scenario: unknown scenario {name!r}; choose one of {', '.join(NAMES)}",
        "trawlnet ids simulate --scenario gap:1m",
    )


def opened_at(traffic: Traffic) -> float:
    """When the first id behind the last gap appears."""
    _, behind = traffic.gap_ranges()[-1]
    shown = (traffic.visible_at(i) for i in range(behind, behind + 100))
    return min(at for at in shown if at is not None)


class SimulatedApi:
    """Answers as the simulated server does, without the bytes."""

    def __init__(self, traffic: Traffic) -> None:
        self._traffic = traffic
        self._tokens = 0.0
        self._filled_at = 0.0
        self._blemished: set[int] = set()
        # Latencies are drawn once and used in turn: drawing is most of the cost of an answer.
        self._times = [traffic.service_time(k, 0) for k in range(_SERVICE_DRAWS)]
        self._dealt = 0

    def reply(self, ask: Ask, at: float) -> Answer:
        self._dealt = (self._dealt + 1) % _SERVICE_DRAWS
        took = self._times[self._dealt]
        traffic, i = self._traffic, ask.id
        if traffic.outages and traffic.disabled(at):
            return Answer(ask, AnswerVerdict.DISABLED, took)
        if traffic.caps and not self._admits(at):
            return Answer(ask, AnswerVerdict.THROTTLED, took)
        state, born = traffic.seen(i, at)
        if state is IdState.EMBARGOED:
            return Answer(ask, AnswerVerdict.EMBARGOED, took)
        if state is not IdState.VISIBLE:
            return Answer(ask, AnswerVerdict.NOT_FOUND, took)
        verdict = self._visible(i)
        happened = traffic.completed_at(i, born) if verdict in _TIMED else None
        return Answer(ask, verdict, took, happened)

    def _visible(self, i: int) -> AnswerVerdict:
        blemish = self._traffic.blemish(i)
        if blemish is not None and i not in self._blemished:
            self._blemished.add(i)
            return _BLEMISHES[int(blemish * len(_BLEMISHES))]
        return AnswerVerdict.STORED if self._traffic.is_raid(i) else AnswerVerdict.FILTERED

    def _admits(self, at: float) -> bool:
        cap = self._traffic.cap_at(at)
        if cap == float("inf"):
            self._tokens, self._filled_at = 0.0, at
            return True
        self._tokens = min(cap * _BURST, self._tokens + (at - self._filled_at) * cap)
        self._filled_at = at
        if self._tokens < 1.0:
            return False
        self._tokens -= 1.0
        return True


_TIMED = (AnswerVerdict.STORED, AnswerVerdict.FILTERED)
# The defects of the first answer for a blemished id, in the shares of the simulated server.
_BLEMISHES = (
    *(AnswerVerdict.MALFORMED,) * 5,
    *(AnswerVerdict.THROTTLED,) * 2,
    *(AnswerVerdict.FAILED,) * 3,
)
