"""The alert rules of the ids crawler: from answers and ledger entries to alerts; pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from trawlnet.crawlers.ids.model import Answer, AnswerVerdict, LedgerEntry, LedgerMark, Purpose
from trawlnet.observe.alerts.rules import BEGAN, ENDED, OVER, AlertKind
from trawlnet.observe.alerts.shapes import Alert, Level

CRAWLER = "ids"
# Titles of alerts that these rules raise in more detail than those of all crawlers.
OWN_ALERTS = frozenset((BEGAN, ENDED, AlertKind.RUNAWAY))
OUTAGE, OUTAGE_OVER = "outage", "outage over"
KEY_REFUSED, GAP_FOUND, GAP_CROSSED = "key refused", "gap found", "gap crossed"
ISLAND_FOUND = "island found"
NEWEST_OLD = "newest id is old"
_RUNAWAY_SHARE = 0.5  # Of all requests of the last minute that were errors ...
_RUNAWAY_LEAST = 50  # ... of at least so many.
_LARGE_GAP = 100  # Ids; smaller ones are not worth a message.
# Answers in a row that tell nothing, over so many seconds, are an outage, whatever they say.
_AWAY_LEAST, _AWAY_SECONDS = 20, 15.0
_OLD, _OLD_OVER = 900.0, 450.0  # Seconds; the age of the newest id that is worth a message ...
_OLD_LOOK = 300.0  # ... unless it has come down since so long ago: then the crawl catches up.


@dataclass(frozen=True, slots=True)
class StatusFigures:
    """The figures of a status update."""

    lag_p20: float | None
    fraction_404: float
    error_fraction: float
    requests: int  # Of the last minute.
    workers: int
    watermark: int
    newest_age: float | None = None  # Seconds since the event of the newest fetched id.

    def fields(self) -> Mapping[str, str]:
        return {
            "lag behind head (P20)": _seconds(self.lag_p20),
            "age of the newest id": _seconds(self.newest_age),
            "404": f"{100 * self.fraction_404:.2f} %",
            "errors": f"{100 * self.error_fraction:.2f} %",
            "workers": str(self.workers),
            "watermark": str(self.watermark),
        }


class IdsAlerts:
    """Remembers the present conditions, so that their ends raise alerts, too."""

    def __init__(self, status_every: float, now: float, key_variable: str = "") -> None:
        self._status_every = status_every
        self._next_status = now + status_every
        self._key_variable = key_variable
        self._outage_since: float | None = None
        self._silent = 0  # Inconclusive answers in a row,
        self._silent_since = now  # since then.
        self._highest: int | None = None  # The highest id of a first request.
        self._runaway = False
        self._old = False
        self._age_before: tuple[float, float] | None = None  # When, and the age then.
        self.key_refused = False

    def saw(
        self,
        now: float,
        answer: Answer,
        entries: Sequence[LedgerEntry],
        *,
        key_refused: bool = False,
    ) -> list[Alert]:
        alerts = self._key(now, answer.verdict, key_refused)
        if not self.key_refused:
            alerts += self._outage(now, answer.verdict)
        if answer.ask.purpose is Purpose.FIRST and answer.verdict.exists:
            alerts += self._leapt(now, answer.ask.id)
        for entry in entries:
            alerts += _entered(now, entry)
        return alerts

    def looked(self, now: float, figures: StatusFigures) -> list[Alert]:
        """Once a second."""
        alerts = self._age(now, figures)
        wild = figures.requests >= _RUNAWAY_LEAST and figures.error_fraction > _RUNAWAY_SHARE
        if wild and not self._runaway:
            text = f"{100 * figures.error_fraction:.0f} % of the requests of the last minute failed"
            fields = figures.fields()
            alerts.append(Alert(CRAWLER, AlertKind.RUNAWAY, text, now, Level.ERROR, fields))
        self._runaway = wild
        if now >= self._next_status:
            self._next_status = now + self._status_every
            fields = figures.fields()
            alerts.append(Alert(CRAWLER, "status", "the crawl is running", now, fields=fields))
        return alerts

    def _leapt(self, now: float, i: int) -> list[Alert]:
        """First requests continue behind a gap as soon as its far side is found."""
        before, self._highest = self._highest, max(i, self._highest or i)
        if before is None or i - before <= _LARGE_GAP:
            return []
        text = f"probes found no id between {before} and {i}; the crawl continues at {i}"
        return [Alert(CRAWLER, GAP_FOUND, text, now, Level.WARNING)]

    def _key(self, now: float, verdict: AnswerVerdict, refused: bool) -> list[Alert]:
        if refused and not self.key_refused:
            self.key_refused = True
            where = f" in {self._key_variable}" if self._key_variable else ""
            text = f"the API refuses the key{where}: replace the key and restart the crawl"
            return [Alert(CRAWLER, KEY_REFUSED, text, now, Level.ERROR)]
        if self.key_refused and _tells(verdict):
            self.key_refused = False
            return [Alert(CRAWLER, KEY_REFUSED + OVER, "the API accepts the key again", now)]
        return []

    def _outage(self, now: float, verdict: AnswerVerdict) -> list[Alert]:
        if _tells(verdict):
            self._silent = 0
            if self._outage_since is None:
                return []
            lasted, self._outage_since = now - self._outage_since, None
            return [Alert(CRAWLER, OUTAGE_OVER, f"the outage lasted {lasted:.0f} s", now)]
        if self._silent == 0:
            self._silent_since = now
        self._silent += 1
        long = self._silent >= _AWAY_LEAST and now - self._silent_since >= _AWAY_SECONDS
        if self._outage_since is not None or not (long or verdict is AnswerVerdict.DISABLED):
            return []
        self._outage_since = self._silent_since
        text = f"{self._off(verdict)}; the crawl probes now and then until it is back"
        return [Alert(CRAWLER, OUTAGE, text, now, Level.WARNING)]

    def _off(self, verdict: AnswerVerdict) -> str:
        if verdict is AnswerVerdict.DISABLED:
            return "the API is switched off"
        if verdict is not AnswerVerdict.THROTTLED:
            return "the API gives no usable answer"
        # Some say 403 to whoever comes too often, and some to a key that they do not know.
        key = f"; or it does not take the key in {self._key_variable}" if self._key_variable else ""
        return f"the API turns every request away{key}"

    def _age(self, now: float, figures: StatusFigures) -> list[Alert]:
        age = figures.newest_age
        if age is None:
            return []
        if self._age_before is None or now >= self._age_before[0] + 2 * _OLD_LOOK:
            self._age_before = (now, age)
        looked_at, before = self._age_before
        if self._old and age < _OLD_OVER:
            self._old = False
            return [Alert(CRAWLER, NEWEST_OLD + OVER, f"the newest id is {age:.0f} s old", now)]
        grown = now >= looked_at + _OLD_LOOK and age >= before
        if self._old or age < _OLD or not (grown or before < _OLD):
            return []
        self._old = True
        text = f"it is {age / 60:.0f} minutes old: no new ids appear, or they cannot be fetched"
        return [Alert(CRAWLER, NEWEST_OLD, text, now, Level.WARNING, figures.fields())]


def _entered(now: float, entry: LedgerEntry) -> list[Alert]:
    size = entry.end - entry.start
    if entry.mark is LedgerMark.PENDING:
        text = f"ids exist inside a gap, between {entry.start} and {entry.end}"
        return [Alert(CRAWLER, ISLAND_FOUND, text, now)]
    crossed = entry.mark is LedgerMark.UNSURVEYED and not entry.reason
    if not crossed or size < _LARGE_GAP:
        return []
    text = f"{entry.start} to {entry.end}: {size:,} ids look skipped; a survey looks for ids inside"
    return [Alert(CRAWLER, GAP_CROSSED, text, now)]


def _tells(verdict: AnswerVerdict) -> bool:
    """Whether an answer is conclusive about an id, so that the API works."""
    return verdict.exists or verdict in (AnswerVerdict.NOT_FOUND, AnswerVerdict.MALFORMED)


def _seconds(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.0f} s"
