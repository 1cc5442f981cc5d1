"""A simulated API of sequential ids on loopback, in the manner of a game's or of a news site's."""

from __future__ import annotations

import asyncio
import json
import re
from collections import OrderedDict
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import web

from trawlnet.engine.ports import Clock
from trawlnet.sim.habits import DEFAULT_TEMPER, Habit, Temper, misbehave
from trawlnet.sim.ids.bodies import SimReport, error, item, pgcr, proxy_page
from trawlnet.sim.ids.events import WorldEvents
from trawlnet.sim.ids.manifest import write_manifest
from trawlnet.sim.ids.model import IdState, Traffic
from trawlnet.sim.ids.scenarios import scenario
from trawlnet.sim.serve import LOOPBACK, Call, Served, bind_hosts, serve

_RATE = 20.0  # Ids a second at scale 1.
_AGE = 300.0  # Seconds of history that a fresh world has.
_REMEMBERED = 10_000  # Blemished ids that were asked for; the oldest are forgotten.
_BURST = 1.5  # Seconds' worth of requests that a cap lets through at once.

_PGCR = re.compile(r"/Platform/Destiny2/Stats/PostGameCarnageReport/(\d{1,18})/?")
_ITEM = re.compile(r"/v0/item/(\d{1,18})\.json")
_SETTINGS = "/Platform/Settings/"
_NO_EVENTS = WorldEvents()


@dataclass(frozen=True, slots=True)
class Timeline:
    """How the world's seconds lie on the wall clock."""

    began: float  # Unix seconds at which the server started.
    age: float  # The world's time at that moment.
    speed: float  # World seconds in one second.

    def world(self, now: float) -> float:
        return self.age + (now - self.began) * self.speed

    def wall(self, t: float) -> float:
        return self.began + (t - self.age) / self.speed


@dataclass(slots=True)
class IdsWorld:
    """A running API; `close` ends it."""

    traffic: Traffic
    timeline: Timeline
    manifest: Path
    served: Served

    @property
    def base_url(self) -> str:
        return f"http://{LOOPBACK}:{self.served.port}"

    def ready_line(self) -> dict[str, Any]:
        return {"base_url": self.base_url, "manifest": str(self.manifest)}

    async def close(self) -> None:
        await self.served.close()


async def serve_ids(
    seed: int,
    scale: float = 1.0,
    *,
    manifest: Path,
    clock: Clock,
    traffic: Traffic | str = "mixed",
    events: WorldEvents = _NO_EVENTS,
    port: int = 0,
    speed: float = 1.0,
    age: float = _AGE,
    habit: Habit = Habit.GOOD,
    temper: Temper = DEFAULT_TEMPER,
    null_missing: bool = True,
    latency: float = 0.0,
    log: Path | None = None,
) -> IdsWorld:
    """Serve this traffic, or the scenario of this name with 20 ids a second times `scale`, and
    these events after the server's start.

    The world is `age` seconds old when the server starts and then runs `speed` times as fast as
    the clock. Missing items of the plain API are `null` with 200, or 404 without `null_missing`.
    """
    flow = scenario(traffic, seed, rate=_RATE * scale) if isinstance(traffic, str) else traffic
    flow = events.added_to(flow, age)
    timeline = Timeline(clock.now(), age, speed)
    responder = _Responder(flow, timeline, null_missing)

    async def answer_call(call: Call) -> web.StreamResponse:
        async def respond() -> web.StreamResponse:
            return responder.answer(call)

        return await misbehave(
            habit, call.request, respond, turn=call.turn, now=call.now, temper=temper
        )

    served = await serve(
        answer_call, bind_hosts([LOOPBACK], port), clock=clock, latency=latency, log=log
    )
    world = IdsWorld(flow, timeline, manifest, served)
    extra = {"base_url": world.base_url, **asdict(timeline)}
    await asyncio.to_thread(write_manifest, flow, manifest, extra)
    return world


@dataclass(slots=True)
class _Responder:
    """Answers honestly, and remembers no more than the cap and the blemishes need."""

    traffic: Traffic
    timeline: Timeline
    null_missing: bool
    _tokens: float = 0.0
    _filled_at: float = 0.0
    _asked: OrderedDict[int, None] = field(default_factory=OrderedDict)

    def answer(self, call: Call) -> web.Response:
        t = self.timeline.world(call.now)
        path = call.request.path
        if found := _PGCR.fullmatch(path):
            return self._report(int(found[1]), t, asked_again=bool(call.request.query_string))
        if found := _ITEM.fullmatch(path):
            return self._item(int(found[1]), t)
        if path == "/v0/maxitem.json":
            return _json(200, str(self.traffic.head(t)).encode())
        if path == _SETTINGS:
            enabled = not self.traffic.disabled(t)
            systems = {"systems": {"Destiny2": {"enabled": enabled}}}
            return _json(200, json.dumps({"Response": systems, "ErrorCode": 1}).encode())
        return _json(404, error(404, "NotFound"))

    def _report(self, i: int, t: float, *, asked_again: bool) -> web.Response:
        if self.traffic.disabled(t):
            return _json(503, error(5, "SystemDisabled"))
        if not self._admits(t):
            return _throttled(i)
        match self.traffic.state(i, t):
            case IdState.VISIBLE:
                return self._visible(i, asked_again=asked_again)
            case IdState.EMBARGOED:
                return _json(200, error(12, "InsufficientPrivileges"))
            case _:
                return _json(404, error(1653, "DestinyPGCRNotFound"))

    def _visible(self, i: int, *, asked_again: bool) -> web.Response:
        report = SimReport(self.traffic.seed, i, self._ended(i), self.traffic.is_raid(i))
        blemish = self.traffic.blemish(i)
        if blemish is None or asked_again or not self._first_time(i):
            return _json(200, pgcr(report))
        if blemish < 0.3:
            return _json(200, pgcr(report, miscounted=True))
        if blemish < 0.5:
            return _json(200, pgcr(report)[:-200])
        if blemish < 0.7:
            return web.Response(status=403, body=proxy_page(403), content_type="text/html")
        return _json(500, error(1618, "DestinyUnexpectedError"))

    def _item(self, i: int, t: float) -> web.Response:
        if self.traffic.disabled(t):
            return web.Response(status=503, text="unavailable\n")
        if not self._admits(t):
            return web.Response(status=429, headers={"Retry-After": "1"}, text="slow down\n")
        if self.traffic.state(i, t) is IdState.VISIBLE:
            return _json(200, item(i, self._ended(i), self.traffic.seed))
        return _json(200, b"null") if self.null_missing else _json(404, b"null")

    def _ended(self, i: int) -> float:
        ended = self.traffic.completed_at(i)
        assert ended is not None, "only ids that were handed out are shown"
        return self.timeline.wall(ended)

    def _first_time(self, i: int) -> bool:
        if i in self._asked:
            return False
        self._asked[i] = None
        if len(self._asked) > _REMEMBERED:
            self._asked.popitem(last=False)
        return True

    def _admits(self, t: float) -> bool:
        """A token bucket in the world's time, there only while a cap lasts."""
        cap = self.traffic.cap_at(t)
        if cap == float("inf"):
            self._tokens, self._filled_at = 0.0, t
            return True
        room = max(1.0, cap * _BURST)
        self._tokens = min(room, self._tokens + (t - self._filled_at) * cap)
        self._filled_at = t
        if self._tokens < 1.0:
            return False
        self._tokens -= 1.0
        return True


def _throttled(i: int) -> web.Response:
    """Refusals come in several forms, as they do from the real thing."""
    match i % 4:
        case 0:
            return _json(503, error(1672, "DestinyThrottledByGameServer"))
        case 1:
            return _json(200, error(1672, "DestinyThrottledByGameServer"))
        case 2:
            return _json(429, error(31, "ThrottleLimitExceeded", throttle_seconds=1))
        case _:
            return web.Response(status=503, body=proxy_page(503), content_type="text/html")


def _json(status: int, body: bytes) -> web.Response:
    return web.Response(status=status, body=body, content_type="application/json")
