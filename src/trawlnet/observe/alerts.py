"""Alerts to a webhook: batched, rate-limited, bounded, and never in the way of a crawl."""

from __future__ import annotations

import asyncio
import json
import logging
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Protocol

from trawlnet.engine.ports import Clock

if TYPE_CHECKING:  # Only somebody with a webhook pays for the import.
    import aiohttp

log = logging.getLogger(__name__)


class Level(StrEnum):
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Alert:
    crawler: str
    title: str  # From a closed set: the same title is not sent again for a while.
    text: str
    at: float
    level: Level = Level.INFO
    fields: Mapping[str, str] = field(default_factory=dict)


class Alerts(Protocol):
    def tell(self, alert: Alert) -> None:
        """Returns at once, whatever becomes of it."""

    async def close(self) -> None:
        """Send what is left, if that takes no more than a moment."""


class LoggedAlerts:
    """For those without a webhook."""

    def tell(self, alert: Alert) -> None:
        extra = {"title": alert.title, "fields": dict(alert.fields)}
        told = f"{alert.title}: {alert.text}"
        log.log(_LOG_LEVELS[alert.level], told, extra=extra)

    async def close(self) -> None:
        """Nothing is left."""


_LOG_LEVELS = {
    Level.INFO: logging.INFO,
    Level.WARNING: logging.WARNING,
    Level.ERROR: logging.ERROR,
}


@dataclass(frozen=True, slots=True)
class Pacing:
    every: float = 2.0  # Seconds between two posts.
    batch: int = 10  # Alerts in one post.
    same: float = 60.0  # Seconds before the same title is sent again.
    waiting: int = 100  # Alerts that wait at most; the oldest give way.
    tries: int = 3  # Of one post.
    timeout: float = 10.0
    farewell: float = 5.0  # Seconds for what is left at the end.
    longest_wait: float = 300.0  # That a server may ask for.


class WebhookAlerts:
    """Also logs each alert: a webhook that is away must not be the only one to know."""

    def __init__(self, url: str, shape: Shape, clock: Clock, pacing: Pacing | None = None) -> None:
        self._url = url
        self._shape = shape
        self._clock = clock
        self._pacing = pacing or Pacing()
        self._log = LoggedAlerts()
        self._waiting: deque[Alert] = deque(maxlen=self._pacing.waiting)
        self._told_at: dict[str, float] = {}
        self._news = asyncio.Event()
        self.dropped = 0
        self._sending = asyncio.create_task(self._send_all())

    def tell(self, alert: Alert) -> None:
        self._log.tell(alert)
        last = self._told_at.get(alert.title)
        if last is not None and alert.at - last < self._pacing.same:
            self.dropped += 1
            return
        self._told_at[alert.title] = alert.at
        if len(self._waiting) == self._waiting.maxlen:
            self.dropped += 1
        self._waiting.append(alert)
        self._news.set()

    async def close(self) -> None:
        self._sending.cancel()
        await asyncio.gather(self._sending, return_exceptions=True)
        try:
            async with asyncio.timeout(self._pacing.farewell), self._session() as session:
                while self._waiting:
                    await self._post(session, self._take())
        except TimeoutError:
            log.warning("alerts not sent", extra={"left": len(self._waiting)})

    async def _send_all(self) -> None:
        async with self._session() as session:
            while True:
                await self._news.wait()
                self._news.clear()
                while self._waiting:
                    batch = self._take()
                    try:
                        await self._post_patiently(session, batch)
                    except asyncio.CancelledError:
                        self._waiting.extendleft(reversed(batch))
                        raise
                    await self._clock.sleep(self._pacing.every)

    def _take(self) -> list[Alert]:
        count = min(self._pacing.batch, len(self._waiting))
        return [self._waiting.popleft() for _ in range(count)]

    async def _post_patiently(self, session: aiohttp.ClientSession, batch: list[Alert]) -> None:
        for attempt in range(self._pacing.tries):
            wait = await self._post(session, batch)
            if wait is None:
                return
            await self._clock.sleep(max(wait, self._pacing.every * 2.0**attempt))
        self.dropped += len(batch)
        log.warning("alerts not sent", extra={"dropped": len(batch)})

    async def _post(self, session: aiohttp.ClientSession, batch: Sequence[Alert]) -> float | None:
        """None when there is no more to do, else how long to wait before the next try."""
        import aiohttp

        try:
            async with session.post(self._url, json=self._shape(batch)) as response:
                if response.status == _TOO_MANY:
                    told = await response.content.read(_ANSWER_BYTES)
                    return min(_retry_after(response.headers, told), self._pacing.longest_wait)
                if response.status < 500:
                    if response.status >= 400:
                        # The URL is a secret: only the status is told.
                        log.warning("webhook refused", extra={"status": response.status})
                    return None
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            log.info("webhook failed", extra={"error": type(error).__name__})
        return 0.0

    def _session(self) -> aiohttp.ClientSession:
        import aiohttp

        timeout = aiohttp.ClientTimeout(total=self._pacing.timeout)
        return aiohttp.ClientSession(timeout=timeout, trust_env=False)


_TOO_MANY = 429
_ANSWER_BYTES = 4096


def _retry_after(headers: Mapping[str, str], body: bytes) -> float:
    for text in (headers.get("Retry-After", ""), _told(body)):
        try:
            return max(0.0, float(text))
        except ValueError:
            continue
    return 0.0


def _told(body: bytes) -> str:
    try:
        value = json.loads(body)
    except ValueError:
        return ""
    return str(value.get("retry_after", "")) if isinstance(value, dict) else ""


# --- How alerts are written ---

Shape = Callable[[Sequence[Alert]], dict[str, Any]]

_COLOURS = {Level.INFO: 0x3498DB, Level.WARNING: 0xE67E22, Level.ERROR: 0xE74C3C}
_TITLE, _TEXT, _FIELD, _FIELDS = 256, 2000, 1000, 25  # The largest that Discord takes, or less.


def discord(alerts: Sequence[Alert]) -> dict[str, Any]:
    embeds = [
        {
            "title": alert.title[:_TITLE],
            "description": alert.text[:_TEXT],
            "color": _COLOURS[alert.level],
            "timestamp": _iso(alert.at),
            "footer": {"text": f"trawlnet {alert.crawler}"},
            "fields": [
                {"name": name[:_TITLE], "value": value[:_FIELD] or "-", "inline": True}
                for name, value in list(alert.fields.items())[:_FIELDS]
            ],
        }
        for alert in alerts
    ]
    # Nothing in an alert may call people by name.
    return {"username": "trawlnet", "embeds": embeds, "allowed_mentions": {"parse": []}}


def slack(alerts: Sequence[Alert]) -> dict[str, Any]:
    return {"text": "\n".join(f"*{_plain(a.title)}* {_plain(_line(a))}" for a in alerts)}


def plain(alerts: Sequence[Alert]) -> dict[str, Any]:
    return {
        "alerts": [
            {
                "crawler": alert.crawler,
                "level": alert.level,
                "title": alert.title,
                "text": alert.text,
                "at": _iso(alert.at),
                "fields": dict(alert.fields),
            }
            for alert in alerts
        ]
    }


SHAPES: Mapping[str, Shape] = {"discord": discord, "slack": slack, "json": plain}


def _line(alert: Alert) -> str:
    return " · ".join([alert.text, *(f"{name}: {value}" for name, value in alert.fields.items())])


def _plain(text: str) -> str:
    """Slack reads these three as markup, and as calls for people."""
    return text[:_TEXT].replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _iso(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
