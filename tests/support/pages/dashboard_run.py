"""Workspaces, a small web and a browser for the tests of the dashboard."""

from __future__ import annotations

import asyncio
import http.client
import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.support.program import PATIENCE, Started, started
from trawlnet.net.clock import SystemClock
from trawlnet.observe.history import History
from trawlnet.observe.lane_table import LaneRow
from trawlnet.sim.habits import Habit, Temper
from trawlnet.sim.web.world import WebWorld, serve_web

HOSTILE = "<script>alert(1)</script>.example"
# Every request is refused, and told to come back long after the test.
STUBBORN = Temper(throttle_every=1, throttle_wait=600)


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    text: str


@dataclass(frozen=True, slots=True)
class Dashboard:
    url: str
    program: Started

    def ask(
        self,
        method: str,
        path: str,
        fields: str = "",
        *,
        own: bool = True,
        **headers: str,
    ) -> Answer:
        """`own` says that it comes from a page of the dashboard."""
        said = {name.replace("_", "-"): value for name, value in headers.items()}
        if method == "POST":
            said.setdefault("Content-Type", "application/x-www-form-urlencoded")
            if own:
                said.setdefault("Sec-Fetch-Site", "same-origin")
        place = urlsplit(self.url)
        connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=PATIENCE)
        try:
            connection.request(method, path, fields or None, said)
            response = connection.getresponse()
            return Answer(
                response.status,
                {name.lower(): value for name, value in response.getheaders()},
                response.read().decode(),
            )
        finally:
            connection.close()


@contextmanager
def dashboard_of(workspace: Path, *more: object, **variables: str) -> Iterator[Dashboard]:
    arguments = ("dashboard", "-w", workspace, "--port", 0, "--json", *more)
    with started(*arguments, folder=workspace.parent / "talk", **variables) as program:
        program.until(lambda: program.out.endswith("\n"), "the address of the dashboard")
        yield Dashboard(json.loads(program.out)["url"], program)


def lane(name: str, condition: str = "healthy", **more: Any) -> LaneRow:
    return LaneRow(name, condition, 2.0, 0, None, "", 0, "")._replace(**more)


def table_of(rows: Sequence[LaneRow], at: float) -> str:
    """As a crawl writes it: what is blocked has no end."""
    parked = [None if row.condition == "blocked" else row.parked_until or 0.0 for row in rows]
    columns: dict[str, Any] = {name: [getattr(row, name) for row in rows] for name in _SAME}
    return json.dumps({"at": at, "left_out": 0, "parked": parked, **columns})


_SAME = ("lane", "rate", "in_flight", "failures", "why", "last_failure")


def made_workspace(path: Path, lanes: Sequence[LaneRow], at: float = 1_790_000_000.0) -> Path:
    """A crawl of the web that was killed while somebody watched."""
    state = path / "state" / "web"
    state.mkdir(parents=True)
    history = History(state / "history")
    for n in range(60):
        figures = {"done": 40 * n, "open": 900 - 10 * n, "attempts": 44 * n, "errors": 4 * n}
        crew = {"in_flight": n % 7, "workers": 8, "memory": 60e6 + n * 1e5, "disk_free": 70e9}
        history.add(at - 600 + 10 * n, figures | crew | {"rate": 4.0, "blocked": 3})
    yields = {"pages": 2200, "bytes": 91_000_000}
    live = {
        "crawler": "web",
        "state": "running",
        "at": at,
        "pid": 4121,
        "yields": yields,
        "figures": {"rate": 4.0, "memory": 66e6, "disk_free": 70e9} | yields,
    }
    (state / "lanes.json").write_text(table_of(lanes, at))
    (state / "live.json").write_text(json.dumps(live))
    (state / "status.json").write_text(json.dumps({"running": 4121, "open": 1}))
    return path


def many_lanes(count: int) -> list[LaneRow]:
    """Of each kind some, and one whose name is an attack."""
    made = [lane(HOSTILE, "parked", parked_until=1_790_000_600.0, why="rate_limited")]
    for n in range(count - 1):
        name = f"host{n:04}.example"
        if n % 50 == 0:
            made.append(lane(name, "blocked", failures=10, why="timeout", last_failure="timeout"))
        elif n % 20 == 0:
            made.append(lane(name, "slowed", failures=2, rate=0.5, last_failure="unavailable"))
        else:
            made.append(lane(name, in_flight=n % 3))
    return made


@contextmanager
def small_web(folder: Path, hosts: int = 4, pages: int = 400) -> Iterator[WebWorld]:
    """Healthy hosts, and one that always says to come back later; in a thread of its own."""
    folder.mkdir(parents=True, exist_ok=True)
    ready: Future[WebWorld] = Future()
    over = threading.Event()

    async def serve() -> None:
        world = await serve_web(
            7,
            manifest=folder / "manifest.json",
            clock=SystemClock(),
            hosts=hosts,
            pages=pages,
            habits=(Habit.THROTTLE_RETRY_AFTER,),
            temper=STUBBORN,
            digests=False,
        )
        ready.set_result(world)
        await asyncio.to_thread(over.wait)
        await world.close()

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    try:
        yield ready.result(PATIENCE)
    finally:
        over.set()
        thread.join(PATIENCE)


def crawl_of(
    world: WebWorld, workspace: Path, *more: object, rate: float = 5
) -> tuple[object, ...]:
    site = world.site
    seeds = [f"http://{host}:{site.port}/" for host in site.hosts]
    scope = ",".join(site.hosts)
    flags = ("--allow-private-hosts", "--user-agent", "Bot/1.0 (+https://a.example)")
    limits = ("--set", f"limits.req_per_sec={rate}", "--set", f"scope.allowed_hosts=[{scope}]")
    return ("web", "crawl", "-w", workspace, *seeds, *flags, *limits, *more)
