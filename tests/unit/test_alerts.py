"""Alerts reach a webhook in batches, at a pace, and never hold anybody up."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from aiohttp import web

from trawlnet.net.clock import SystemClock
from trawlnet.observe.alerts import (
    SHAPES,
    Alert,
    Level,
    LoggedAlerts,
    Pacing,
    WebhookAlerts,
    discord,
    slack,
)

QUICK = Pacing(every=0.01, same=0.0, timeout=1.0, farewell=1.0, tries=3)


def alert(title: str = "outage", at: float = 1000.0, **more: Any) -> Alert:
    return Alert("ids", title, "the API is switched off", at, **more)


class Hook:
    """A webhook that answers with these statuses, then 204."""

    def __init__(self, *statuses: int, hang: bool = False) -> None:
        self.statuses = list(statuses)
        self.hang = hang
        self.posts: list[dict[str, Any]] = []

    async def handle(self, request: web.Request) -> web.Response:
        if self.hang:
            await asyncio.sleep(3600)
        body = await request.json()
        status = self.statuses.pop(0) if self.statuses else 204
        if status == 429:
            return web.json_response({"retry_after": 0.01}, status=429)
        if status < 300:
            self.posts.append(body)
        return web.Response(status=status)


def with_hook(hook: Hook, work: Callable[[str], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        app = web.Application()
        app.router.add_post("/secret", hook.handle)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        try:
            await work(f"http://127.0.0.1:{runner.addresses[0][1]}/secret")
        finally:
            await runner.cleanup()

    asyncio.run(main())


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(10.0):
        while not true():
            await asyncio.sleep(0.005)


def test_alerts_that_come_together_are_one_post() -> None:
    hook = Hook()

    async def work(url: str) -> None:
        alerts = WebhookAlerts(url, discord, SystemClock(), QUICK)
        for number in range(12):
            alerts.tell(alert(f"t{number}"))
        await until(lambda: len(hook.posts) == 2)
        await alerts.close()

    with_hook(hook, work)
    assert [len(post["embeds"]) for post in hook.posts] == [10, 2]


def test_a_webhook_that_is_busy_or_broken_is_tried_again_and_then_left() -> None:
    hook = Hook(429, 500, 204, 500, 500, 500)

    async def work(url: str) -> None:
        alerts = WebhookAlerts(url, discord, SystemClock(), QUICK)
        alerts.tell(alert("first"))
        await until(lambda: len(hook.posts) == 1)
        alerts.tell(alert("second"))
        await until(lambda: alerts.dropped == 1)
        alerts.tell(alert("third"))
        await until(lambda: len(hook.posts) == 2)
        await alerts.close()

    with_hook(hook, work)
    assert [post["embeds"][0]["title"] for post in hook.posts] == ["first", "third"]


def test_a_webhook_that_hangs_holds_nobody_up_for_long() -> None:
    async def work(url: str) -> None:
        pacing = Pacing(every=0.01, same=0.0, timeout=30.0, farewell=0.2, waiting=5)
        alerts = WebhookAlerts(url, discord, SystemClock(), pacing)
        for number in range(50):
            alerts.tell(alert(f"t{number}"))
        assert alerts.dropped == 45
        async with asyncio.timeout(5.0):
            await alerts.close()

    with_hook(Hook(hang=True), work)


def test_the_same_title_is_not_sent_again_for_a_while() -> None:
    hook = Hook()

    async def work(url: str) -> None:
        pacing = Pacing(every=0.01, same=60.0)
        alerts = WebhookAlerts(url, discord, SystemClock(), pacing)
        for at in (0.0, 30.0, 59.9, 60.0):
            alerts.tell(alert("outage", at))
        await alerts.close()

    with_hook(hook, work)
    assert sum(len(post["embeds"]) for post in hook.posts) == 2


def test_what_is_left_is_sent_at_the_end() -> None:
    hook = Hook()

    async def work(url: str) -> None:
        alerts = WebhookAlerts(url, discord, SystemClock(), Pacing(every=60.0))
        alerts.tell(alert("one"))
        await until(lambda: len(hook.posts) == 1)
        alerts.tell(alert("two"))
        await alerts.close()

    with_hook(hook, work)
    assert [post["embeds"][0]["title"] for post in hook.posts] == ["one", "two"]


def test_the_url_is_a_secret(caplog: pytest.LogCaptureFixture) -> None:
    async def work(url: str) -> None:
        alerts = WebhookAlerts(url, discord, SystemClock(), QUICK)
        alerts.tell(alert())
        await until(lambda: "webhook refused" in caplog.text)
        await alerts.close()

    caplog.set_level("INFO")
    with_hook(Hook(404), work)
    assert "secret" not in caplog.text


@pytest.mark.parametrize("shape", SHAPES)
def test_every_shape_is_json_and_bounded(shape: str) -> None:
    long = alert("t" * 5000, level=Level.ERROR, fields={f"f{n}": "v" * 5000 for n in range(99)})
    assert len(json.dumps(SHAPES[shape]([alert()]))) < 1000
    body = SHAPES[shape]([long])
    if shape == "discord":
        assert len(body["embeds"][0]["fields"]) == 25
        assert body["allowed_mentions"] == {"parse": []}


def test_nobody_is_called_by_name() -> None:
    told = slack([Alert("ids", "gap", "<!channel> & <@U1>", 0.0)])
    assert told == {"text": "*gap* &lt;!channel&gt; &amp; &lt;@U1&gt;"}


def test_without_a_webhook_alerts_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    LoggedAlerts().tell(alert(level=Level.WARNING, fields={"name": "x"}))
    (record,) = caplog.records
    assert (record.levelname, record.title) == ("WARNING", "outage")  # type: ignore[attr-defined]
