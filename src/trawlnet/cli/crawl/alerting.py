"""Alerts of a crawl: checks the webhook, and sends alerts while the crawl runs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from trawlnet.cli.common.errors import UsageTrouble
from trawlnet.engine.ports import Clock, Counts
from trawlnet.observe.alerts.rules import BEGAN, ENDED, FAILED
from trawlnet.observe.alerts.sender import Alerts, BadWebhook, check_webhook, open_alerts
from trawlnet.observe.alerts.shapes import Alert, Level, Webhook


def refuse_bad_webhook(webhook: Webhook) -> None:
    """The message does not contain the URL, which is a secret."""
    try:
        check_webhook(webhook)
    except BadWebhook:
        hint = "write it like https://host/path, in TRAWLNET_WEBHOOK or a file of its own"
        raise UsageTrouble("the webhook is not a URL", hint) from None


@asynccontextmanager
async def sending_alerts(crawler: str, webhook: Webhook, clock: Clock) -> AsyncIterator[Alerts]:
    """Send alerts while the crawl inside runs; its failure is one of them."""
    alerts = open_alerts(webhook, clock)
    try:
        yield alerts
    except Exception as error:
        # The text of an error may contain hosts and passwords; it goes to the log only.
        text = f"{type(error).__name__}; see the log for details; the crawl can be continued"
        alerts.tell(Alert(crawler, FAILED, text, clock.now(), Level.ERROR))
        raise
    finally:
        await alerts.close()


def begun(crawler: str, counts: Counts, now: float) -> Alert:
    done = sum(counts.settled.values())
    text = f"continues after {done:,} settled keys" if done else "from the beginning"
    fields = {"open tasks": f"{counts.open:,}"} if counts.open else {}
    return Alert(crawler, BEGAN, text, now, fields=fields)


def ended(crawler: str, text: str, given_up: int, now: float) -> Alert:
    fields = {"given up": f"{given_up:,}"} if given_up else {}
    level = Level.WARNING if given_up else Level.INFO
    return Alert(crawler, ENDED, text, now, level, fields)
