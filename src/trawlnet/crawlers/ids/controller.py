"""The controller: once a second it lets the pilot decide, resizes the crew, and saves figures."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol, runtime_checkable

from trawlnet.crawlers.ids.alerts import IdsAlerts, StatusFigures
from trawlnet.crawlers.ids.api.api import AnswerReading
from trawlnet.crawlers.ids.ledger.askers import Askers
from trawlnet.crawlers.ids.ledger.ledger import IdsLedger
from trawlnet.crawlers.ids.ledger.notes import DecisionFile, NewestIds
from trawlnet.crawlers.ids.model import (
    Answer,
    AnswerVerdict,
    Decision,
    LedgerEntry,
    LedgerMark,
    Purpose,
)
from trawlnet.crawlers.ids.start import NewestIdFinder
from trawlnet.engine.control import Control
from trawlnet.engine.ports import Clock
from trawlnet.observe.alerts.sender import Alerts
from trawlnet.observe.alerts.shapes import Alert
from trawlnet.observe.metrics.ids import EndedRequest, IdsMeter
from trawlnet.queues.queue import Queue
from trawlnet.storage.errors import SinkError

log = logging.getLogger(__name__)

_TURN_EVERY = 1.0
_ANCHOR_EVERY = 10.0
_QUEUE_EVERY = 5.0
_MINUTE = 60.0
# The figures that the history stores.
_WATCHED = (
    "lag_p20_s",
    "newest_id_age_s",
    "fraction_404",
    "error_fraction",
    "ids_per_s",
    "watermark",
)


@runtime_checkable
class AnchoredPilot(Protocol):
    """A pilot that can use the newest id, if the API returns it."""

    def anchor_wanted(self) -> bool: ...

    def anchored(self, now: float, newest: int) -> None: ...


@runtime_checkable
class RecallingPilot(Protocol):
    """A pilot that finds the head sooner with the last ids of the previous crawl."""

    def recall(self, seen: Sequence[tuple[int, float]]) -> None: ...


@dataclass(slots=True)
class Controller:
    ledger: IdsLedger
    askers: Askers
    meter: IdsMeter
    alerts: Alerts
    ids_alerts: IdsAlerts
    decisions: DecisionFile
    keep_figures: Callable[[Mapping[str, Any]], None]  # Saves the present figures for others.
    head: NewestIds
    finder: NewestIdFinder
    clock: Clock
    last: Decision | None = None
    queue_depth: int | None = None

    def recall(self) -> None:
        """Pass the last ids of the previous crawl to the pilot."""
        if isinstance(self.askers.pilot, RecallingPilot):
            self.askers.pilot.recall(self.head.before)

    async def steer(self, control: Control) -> None:
        """A companion of the crawl."""
        self.askers.wake = lambda: control.wake(self.ledger.lane)
        while True:
            self.turn(control)
            await self.clock.sleep(_TURN_EVERY)

    def turn(self, control: Control) -> None:
        now = self.clock.now()
        decision = self.askers.pilot.decide(now)
        if decision is not None:
            self.last = decision
            log.info("decision", extra=asdict(decision))
            self.decisions.keep(decision)
        if control.workers != self.askers.pilot.workers:
            control.workers = self.askers.pilot.workers
        control.crew = self.askers.pilot.crew
        self._tell(self.ids_alerts.looked(now, self.figures(now)))
        self.leave_figures(now)

    async def look_for_anchor(self, control: Control) -> None:
        """A companion of the crawl, for an API that returns its newest id, to cross gaps."""
        while True:
            await self.clock.sleep(_ANCHOR_EVERY)
            pilot = self.askers.pilot
            if isinstance(pilot, AnchoredPilot) and pilot.anchor_wanted():
                newest = await self.finder.anchor()
                if newest is not None:
                    pilot.anchored(self.clock.now(), newest)
                    control.wake(self.ledger.lane)

    async def look_at_queue(self, queue: Queue) -> None:
        """A companion of the crawl that measures a queue on a server, because readers of the
        figures may not have access to that server."""
        while True:
            try:
                self.queue_depth = await queue.depth()
            except SinkError:  # Publishing fails, too, and reports it.
                self.queue_depth = None
            await self.clock.sleep(_QUEUE_EVERY)

    def watch(
        self, answer: Answer, reading: AnswerReading, entries: Sequence[LedgerEntry], now: float
    ) -> None:
        """Receives every answer."""
        lag = None if answer.happened_at is None else now - answer.happened_at
        if answer.verdict.exists:
            self.head.reached(now if answer.happened_at is None else answer.happened_at)
        if answer.happened_at is not None and answer.ask.purpose is Purpose.FIRST:
            self.head.saw(answer.ask.id, answer.happened_at)
        self.meter.answered(
            EndedRequest(
                answer.verdict,
                reading.word,
                answer.ask.purpose,
                answer.ask.attempt,
                answer.took,
                lag,
            ),
            now,
        )
        refused = reading.word in self.finder.api.key_words
        self._tell(self.ids_alerts.saw(now, answer, entries, key_refused=refused))

    def figures(self, now: float) -> StatusFigures:
        recent = self.meter.fractions(now, _MINUTE)
        return StatusFigures(
            self.meter.lag_p20(now),
            recent["fraction_404"],
            recent["error_fraction"],
            int(recent["requests"]),
            self.askers.pilot.crew,
            self.ledger.watermark,
            self.head.age(now),
        )

    def leave_figures(self, now: float) -> None:
        row = self._row(now, self.figures(now))
        self.meter.figures |= {name: row[name] for name in _WATCHED if row[name] is not None}
        try:
            self.keep_figures(row)
            self.head.keep()
        except OSError as error:
            log.warning("figures not written", extra={"error": str(error)})

    def _row(self, now: float, figures: StatusFigures) -> Mapping[str, Any]:
        lag, newest = figures.lag_p20, figures.newest_age
        row: dict[str, Any] = {
            "lag_p20_s": None if lag is None else round(lag, 1),
            "newest_id_age_s": None if newest is None else round(newest, 1),
            "key_refused": self.ids_alerts.key_refused,
            "workers": figures.workers,
            "fraction_404": round(figures.fraction_404, 4),
            "error_fraction": round(figures.error_fraction, 4),
            "ids_per_s": round(self.meter.fractions(now, _MINUTE)["rate"], 2),
            "published": self.meter.yields["stored"],
            "queue_depth": self.queue_depth,
            "waits_for_room": self.askers.waiting,
        }
        row |= {str(verdict): self.meter.verdicts[verdict] for verdict in AnswerVerdict}
        row["decision"] = asdict(self.last) if self.last else None
        return row | ledger_row(self.ledger)

    def _tell(self, alerts: list[Alert]) -> None:
        for alert in alerts:
            self.alerts.tell(alert)


def ledger_row(ledger: IdsLedger) -> dict[str, Any]:
    """The figures of the ledger."""
    return {
        "first": ledger.first,
        "watermark": ledger.watermark,
        "beyond": ledger.beyond,
        "done": ledger.lengths[LedgerMark.DONE],
        "holes": ledger.lengths[LedgerMark.HOLE],
        "in_gaps": ledger.lengths[LedgerMark.GAP],
        "unsurveyed": ledger.lengths[LedgerMark.UNSURVEYED],
        "withheld": ledger.lengths[LedgerMark.EMBARGOED],
        "missed": ledger.lengths[LedgerMark.MISSED],
    }
