"""Alerts reach a webhook in batches, at a pace, and never hold anybody up."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
from aiohttp import web

from trawlnet.net.clock import SystemClock
from trawlnet.observe.alerts.sender import (
    BadWebhook,
    LoggedAlerts,
    Pacing,
    WebhookAlerts,
    check_webhook,
)
from trawlnet.observe.alerts.shapes import (
    SHAPES,
    Alert,
    Level,
    Webhook,
    WebhookShape,
    discord,
    plain,
    shape_for,
    slack,
)

QUICK = Pacing(every=0.01, same=0.0, timeout=30.0, farewell=30.0, tries=3)


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
    async with asyncio.timeout(60.0):
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
        async with asyncio.timeout(20.0):
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
    embeds = [embed for post in hook.posts for embed in post["embeds"]]
    assert [[one["value"] for one in embed["fields"]] for embed in embeds] == [[], ["2"]]


def test_the_latest_of_a_title_is_sent_when_its_time_has_come() -> None:
    hook = Hook()

    async def work(url: str) -> None:
        clock = SystemClock()
        pacing = Pacing(every=0.01, same=0.3)
        alerts = WebhookAlerts(url, plain, clock, pacing)
        for number in range(4):
            alerts.tell(Alert("ids", "blocked", f"host {number}", clock.now()))
        await until(lambda: len(hook.posts) == 2)
        await alerts.close()

    with_hook(hook, work)
    sent = [one for post in hook.posts for one in post["alerts"]]
    assert [one["text"] for one in sent] == ["host 0", "host 3"]
    assert sent[1]["fields"] == {"more like it": "2"}


def test_a_redirect_is_not_followed(caplog: pytest.LogCaptureFixture) -> None:
    elsewhere: list[Any] = []

    async def main() -> None:
        async def there(request: web.Request) -> web.Response:
            raise web.HTTPTemporaryRedirect("/elsewhere")

        async def landed(request: web.Request) -> web.Response:
            elsewhere.append(await request.json())
            return web.Response()

        app = web.Application()
        app.router.add_post("/secret", there)
        app.router.add_post("/elsewhere", landed)
        runner = web.AppRunner(app, access_log=None)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        url = f"http://127.0.0.1:{runner.addresses[0][1]}/secret"
        alerts = WebhookAlerts(url, plain, SystemClock(), QUICK)
        alerts.tell(alert())
        await until(lambda: "webhook refused" in caplog.text)
        await alerts.close()
        await runner.cleanup()

    caplog.set_level("INFO")
    asyncio.run(main())
    assert elsewhere == []


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
        assert 1 <= len(body["embeds"][0]["fields"]) <= 25
        assert body["allowed_mentions"] == {"parse": []}


def test_nobody_is_called_by_name() -> None:
    told = slack([Alert("ids", "gap", "<!channel> & <@U1>", 0.0)])
    assert told == {"text": "*gap* &lt;!channel&gt; &amp; &lt;@U1&gt;"}


def test_without_a_webhook_alerts_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    LoggedAlerts().tell(alert(level=Level.WARNING, fields={"name": "x"}))
    (record,) = caplog.records
    assert (record.levelname, record.title) == ("WARNING", "outage")  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("url", "shape", "made"),
    [
        ("https://discord.com/api/webhooks/1/x", WebhookShape.AUTO, discord),
        ("https://ptb.discord.com/api/webhooks/1/x", WebhookShape.AUTO, discord),
        ("https://discordapp.com/api/webhooks/1/x", WebhookShape.AUTO, discord),
        ("https://hooks.slack.com/services/T/B/x", WebhookShape.AUTO, slack),
        ("https://alerts.example/discord.com", WebhookShape.AUTO, plain),
        ("https://notdiscord.com/x", WebhookShape.AUTO, plain),
        ("https://alerts.example/x", WebhookShape.SLACK, slack),
        ("https://discord.com/api/webhooks/1/x", WebhookShape.JSON, plain),
    ],
)
def test_the_host_says_which_shape_unless_somebody_does(
    url: str, shape: WebhookShape, made: object
) -> None:
    assert shape_for(Webhook(url, shape)) is made


@pytest.mark.parametrize("url", ["nonsense", "ftp://host/x", "https://", "http://[::1/x", "//h/x"])
def test_what_is_no_url_is_refused_without_being_told(url: str) -> None:
    with pytest.raises(BadWebhook) as caught:
        check_webhook(Webhook(url))
    assert url not in repr(caught.value) + repr(Webhook(url))


def test_a_discord_message_stays_within_what_discord_takes() -> None:
    long = alert("t" * 5000, level=Level.ERROR, fields={f"f{n}": "v" * 5000 for n in range(99)})
    for count in (1, 3, 10):
        embeds = discord([long] * count)["embeds"]
        texts = [embed["title"] + embed["description"] for embed in embeds]
        fields = [f["name"] + f["value"] for embed in embeds for f in embed["fields"]]
        assert sum(map(len, texts + fields)) < 6000 - 20 * count
