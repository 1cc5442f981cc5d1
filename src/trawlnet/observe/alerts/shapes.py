"""The JSON of alerts: for Discord, for Slack, or for any program."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any
from urllib.parse import urlsplit


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


class WebhookShape(StrEnum):
    AUTO = "auto"  # By the host of the URL; json for an unknown host.
    DISCORD = "discord"
    SLACK = "slack"
    JSON = "json"


@dataclass(frozen=True, slots=True)
class Webhook:
    """A webhook; its URL is a secret, because it allows anyone to post."""

    url: str = field(default="", repr=False)
    shape: WebhookShape = WebhookShape.AUTO


Shape = Callable[[Sequence[Alert]], dict[str, Any]]

_COLOURS = {Level.INFO: 0x3498DB, Level.WARNING: 0xE67E22, Level.ERROR: 0xE74C3C}
_TITLE, _TEXT, _FIELD, _FIELDS = 256, 2000, 1000, 25  # Discord's limits, or less.
_MESSAGE = 5000  # Characters of texts and fields of a whole message; Discord refuses 6000.


def discord(alerts: Sequence[Alert]) -> dict[str, Any]:
    room = _MESSAGE // (2 * max(1, len(alerts)))
    embeds = [
        {
            "title": alert.title[: min(_TITLE, room)],
            "description": alert.text[: min(_TEXT, room)],
            "color": _COLOURS[alert.level],
            "timestamp": _iso(alert.at),
            "footer": {"text": f"trawlnet {alert.crawler}"},
            "fields": _fields(alert, room),
        }
        for alert in alerts
    ]
    # No text of an alert may mention (notify) people.
    return {"username": "trawlnet", "embeds": embeds, "allowed_mentions": {"parse": []}}


def _fields(alert: Alert, room: int) -> list[dict[str, Any]]:
    fields: list[dict[str, Any]] = []
    for name, value in list(alert.fields.items())[:_FIELDS]:
        room -= len(name[:_TITLE]) + len(value[:_FIELD]) + 1
        if room < 0:
            break
        fields.append({"name": name[:_TITLE], "value": value[:_FIELD] or "-", "inline": True})
    return fields


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
_HOSTS = {
    "discord.com": WebhookShape.DISCORD,
    "discordapp.com": WebhookShape.DISCORD,
    "slack.com": WebhookShape.SLACK,
}


def shape_for(webhook: Webhook) -> Shape:
    if webhook.shape is not WebhookShape.AUTO:
        return SHAPES[webhook.shape]
    # The last two labels: there are hosts such as hooks.slack.com and ptb.discord.com.
    domain = ".".join((urlsplit(webhook.url).hostname or "").split(".")[-2:])
    return SHAPES[_HOSTS.get(domain, WebhookShape.JSON)]


def _line(alert: Alert) -> str:
    return " · ".join([alert.text, *(f"{name}: {value}" for name, value in alert.fields.items())])


def _plain(text: str) -> str:
    """Escape the three characters that Slack reads as markup, and as mentions of people."""
    return text[:_TEXT].replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _iso(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
