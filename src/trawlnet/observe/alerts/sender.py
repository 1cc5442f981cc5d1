"""Alerts to a webhook: batched, rate-limited, bounded, and never in the way of a crawl."""

from __future__ import annotations

import asyncio
import json
import logging
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from http.client import HTTPMessage
from typing import Protocol
from urllib.parse import urlsplit

from trawlnet.engine.ports import Clock
from trawlnet.observe.alerts.post import post_json
from trawlnet.observe.alerts.rules import ENDED, FAILED
from trawlnet.observe.alerts.shapes import Alert, Level, Shape, Webhook, shape_for

log = logging.getLogger(__name__)


class Alerts(Protocol):
    def tell(self, alert: Alert) -> None:
        """Queue an alert; returns at once."""

    async def close(self) -> None:
        """Send the rest, within a few seconds."""


class BadWebhook(Exception):
    """The URL is invalid; the error does not contain it, because it is a secret."""


def open_alerts(webhook: Webhook, clock: Clock) -> Alerts:
    """Needs a running event loop, and a webhook that `check_webhook` accepted."""
    return WebhookAlerts(webhook.url, shape_for(webhook), clock) if webhook.url else LoggedAlerts()


def check_webhook(webhook: Webhook) -> None:
    """Raises BadWebhook."""
    try:
        parts = urlsplit(webhook.url)
    except ValueError:
        raise BadWebhook from None
    if webhook.url and not (parts.scheme in ("https", "http") and parts.hostname):
        raise BadWebhook


class LoggedAlerts:
    """Only logs alerts, if there is no webhook."""

    def tell(self, alert: Alert) -> None:
        extra = {"title": alert.title, "fields": dict(alert.fields)}
        text = f"{alert.title}: {alert.text}"
        # The terminal shows warnings, and the end of a crawl in any case.
        level = logging.INFO if alert.title in (ENDED, FAILED) else _LOG_LEVELS[alert.level]
        log.log(level, text, extra=extra)

    async def close(self) -> None:
        """Do nothing: no alert waits."""


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
    waiting: int = 100  # Alerts that wait at most; the oldest are dropped.
    tries: int = 3  # Attempts at one post.
    timeout: float = 10.0
    farewell: float = 5.0  # Seconds to send the rest at the end.
    longest_wait: float = 300.0  # The longest Retry-After that is obeyed.


class WebhookAlerts:
    """Also logs each alert, in case the webhook does not answer."""

    def __init__(self, url: str, shape: Shape, clock: Clock, pacing: Pacing | None = None) -> None:
        self._url = url
        self._shape = shape
        self._clock = clock
        self._pacing = pacing or Pacing()
        self._log = LoggedAlerts()
        self._waiting: deque[Alert] = deque(maxlen=self._pacing.waiting)
        self._told_at: dict[str, float] = {}
        self._held: dict[str, _HeldAlert] = {}  # Alerts too soon after the last of their title.
        self._news = asyncio.Event()
        self._closing = asyncio.Event()
        self.dropped = 0
        self._sending = asyncio.create_task(self._send_all())

    def tell(self, alert: Alert) -> None:
        self._log.tell(alert)
        last = self._told_at.get(alert.title)
        if last is not None and 0.0 <= alert.at - last < self._pacing.same:
            before = self._held.get(alert.title)
            self._held[alert.title] = _HeldAlert(alert, before.count + 1 if before else 1)
        else:
            held = self._held.pop(alert.title, None)
            self._queue(_with_count(alert, held.count) if held else alert)
        self._news.set()

    async def close(self) -> None:
        """Send the last alert of every title now, even too soon after the one before."""
        for title in list(self._held):
            self._release(title)
        self._closing.set()
        self._news.set()
        try:
            # A post in progress is not cancelled: sending it again would repeat its alerts.
            async with asyncio.timeout(self._pacing.farewell):
                await self._sending
        except TimeoutError:
            log.warning("alerts not sent", extra={"left": len(self._waiting)})

    def _queue(self, alert: Alert) -> None:
        self._told_at[alert.title] = alert.at
        if len(self._waiting) == self._waiting.maxlen:
            self.dropped += 1
        self._waiting.append(alert)

    def _release(self, title: str) -> None:
        held = self._held.pop(title)
        self._queue(_with_count(held.alert, held.count - 1))

    async def _send_all(self) -> None:
        while self._waiting or not self._closing.is_set():
            await self._until_news()
            while self._waiting:
                await self._post_patiently(self._take())
                await self._pause(self._pacing.every)

    async def _pause(self, seconds: float) -> None:
        """Wait between two posts; not at the end."""
        try:
            async with asyncio.timeout(seconds):
                await self._closing.wait()
        except TimeoutError:
            return

    async def _until_news(self) -> None:
        """Wait until there is something to send: a new alert, or a held one that is due."""
        while not self._waiting and not self._closing.is_set():
            now, same = self._clock.now(), self._pacing.same
            due = {title: self._told_at[title] + same for title in self._held}
            for title in [title for title, at in due.items() if at <= now]:
                self._release(title)
            if not self._waiting:
                wait = min(due.values()) - now if due else None
                await self._news_within(wait)

    async def _news_within(self, seconds: float | None) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._news.wait()
        except TimeoutError:
            return
        self._news.clear()

    def _take(self) -> list[Alert]:
        count = min(self._pacing.batch, len(self._waiting))
        return [self._waiting.popleft() for _ in range(count)]

    async def _post_patiently(self, batch: list[Alert]) -> None:
        for attempt in range(self._pacing.tries):
            wait = await self._post(batch)
            if wait is None:
                return
            await self._pause(max(wait, self._pacing.every * 2.0**attempt))
        self.dropped += len(batch)
        log.warning("alerts not sent", extra={"dropped": len(batch)})

    async def _post(self, batch: Sequence[Alert]) -> float | None:
        """Returns None if the post is done, else the seconds to wait before the next attempt."""
        body = json.dumps(self._shape(batch)).encode()
        try:
            # A redirect is not followed: alerts go only to the configured URL.
            answer = await post_json(self._url, body, self._pacing.timeout)
        except (OSError, TimeoutError, ValueError) as error:
            log.info("webhook failed", extra={"error": type(error).__name__})
            return 0.0
        if answer.status == _TOO_MANY:
            return min(_retry_after(answer.headers, answer.body), self._pacing.longest_wait)
        if answer.status >= 500:
            return 0.0
        if answer.status >= 300:
            # The URL is a secret: only the status is logged.
            log.warning("webhook refused", extra={"status": answer.status})
        return None


@dataclass(frozen=True, slots=True)
class _HeldAlert:
    alert: Alert  # The latest of its title.
    count: int  # The number of held alerts of that title, this one included.


def _with_count(alert: Alert, more: int) -> Alert:
    """Add the number of alerts of the same title that were not sent."""
    return replace(alert, fields={**alert.fields, "more like it": str(more)}) if more else alert


_TOO_MANY = 429


def _retry_after(headers: HTTPMessage, body: bytes) -> float:
    for text in (headers.get("Retry-After", ""), _retry_after_in(body)):
        try:
            return max(0.0, float(text))
        except ValueError:
            continue
    return 0.0


def _retry_after_in(body: bytes) -> str:
    try:
        value = json.loads(body)
    except ValueError:
        return ""
    return str(value.get("retry_after", "")) if isinstance(value, dict) else ""
