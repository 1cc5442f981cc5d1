"""What is worth an alert: decided from answers and ledger entries, without sending anything."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from trawlnet.crawlers.ids.words import Answer, Entry, Mark, Purpose, Verdict
from trawlnet.observe.alert_shapes import Alert, Level
from trawlnet.observe.troubles import BEGAN, ENDED, Trouble

CRAWLER = "ids"
# What is told here, with more to say than a watcher of any crawl knows.
OWN_ALERTS = frozenset((BEGAN, ENDED, Trouble.RUNAWAY))
_RUNAWAY_SHARE = 0.5  # Of all requests of the last minute that were errors ...
_RUNAWAY_LEAST = 50  # ... of at least so many.
_LARGE_GAP = 100  # Ids; smaller ones are not worth a message.


@dataclass(frozen=True, slots=True)
class Figures:
    """How the crawl is doing, for a status update."""

    lag_p20: float | None
    fraction_404: float
    error_fraction: float
    requests: int  # Of the last minute.
    workers: int
    watermark: int

    def fields(self) -> Mapping[str, str]:
        lag = "unknown" if self.lag_p20 is None else f"{self.lag_p20:.0f} s"
        return {
            "lag behind head (P20)": lag,
            "404": f"{100 * self.fraction_404:.2f} %",
            "errors": f"{100 * self.error_fraction:.2f} %",
            "workers": str(self.workers),
            "watermark": str(self.watermark),
        }


class Watchman:
    """Remembers only what is going on now, so that its end can be told."""

    def __init__(self, status_every: float, now: float) -> None:
        self._status_every = status_every
        self._next_status = now + status_every
        self._outage_since: float | None = None
        self._searching = False
        self._runaway = False

    def saw(self, now: float, answer: Answer, entries: Sequence[Entry]) -> list[Alert]:
        alerts = [*self._outage(now, answer.verdict)]
        if answer.ask.purpose is Purpose.PROBE and not self._searching:
            self._searching = True
            text = f"looking for ids beyond {answer.ask.id}"
            alerts.append(Alert(CRAWLER, "gap found", text, now, Level.WARNING))
        for entry in entries:
            if entry.mark is Mark.GAP and entry.end - entry.start >= _LARGE_GAP:
                self._searching = False
                text = f"{entry.start} to {entry.end}: {entry.end - entry.start:,} ids skipped"
                alerts.append(Alert(CRAWLER, "gap crossed", text, now))
        if self._searching and answer.ask.purpose is Purpose.FIRST and answer.verdict.exists:
            self._searching = False
        return alerts

    def looked(self, now: float, figures: Figures) -> list[Alert]:
        """Once a second."""
        alerts: list[Alert] = []
        wild = figures.requests >= _RUNAWAY_LEAST and figures.error_fraction > _RUNAWAY_SHARE
        if wild and not self._runaway:
            text = f"{100 * figures.error_fraction:.0f} % of the requests of the last minute fail"
            fields = figures.fields()
            alerts.append(Alert(CRAWLER, Trouble.RUNAWAY, text, now, Level.ERROR, fields))
        self._runaway = wild
        if now >= self._next_status:
            self._next_status = now + self._status_every
            fields = figures.fields()
            alerts.append(Alert(CRAWLER, "status", "the crawl goes on", now, fields=fields))
        return alerts

    def _outage(self, now: float, verdict: Verdict) -> list[Alert]:
        if verdict is Verdict.DISABLED and self._outage_since is None:
            self._outage_since = now
            text = "the API is switched off; one request now and then sees when it is back"
            return [Alert(CRAWLER, "outage", text, now, Level.WARNING)]
        if self._outage_since is not None and (verdict.exists or verdict is Verdict.NOT_FOUND):
            lasted, self._outage_since = now - self._outage_since, None
            return [Alert(CRAWLER, "outage over", f"it lasted {lasted:.0f} s", now)]
        return []
