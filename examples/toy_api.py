"""A whole crawler over a toy API: numbered things, each of which links to others.

Run it with `python examples/toy_api.py`. A crawler is a source (where to begin), a handler (one
task in, one outcome out) and a sink (where results go). The engine does the rest: it asks each
thing once, however many link to it, politely, and tries again what failed.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Any

import aiohttp
from aiohttp import web

from trawlnet.engine.control import Control
from trawlnet.engine.crawl import Feed, Limits, Parts, crawl
from trawlnet.engine.gate import Gate
from trawlnet.engine.outcome import Outcome, Reason
from trawlnet.engine.ports import Page
from trawlnet.engine.rules import Manners, RetryPolicy
from trawlnet.engine.task import Task
from trawlnet.net.clock import SystemClock
from trawlnet.stores.memory import MemoryStore

THINGS = 60


class FirstThing:
    """The source: all that is known before the crawl begins. The cursor says how far it was read,
    so that a store which survives the process is not told twice."""

    async def pages(self, after: str | None) -> AsyncIterator[Page]:
        if after is None:
            yield Page([Task(key="thing:1", lane="toy", payload=1)], cursor="1")


class FetchThing:
    """The handler. What it finds, what it keeps and what went wrong are all in the outcome."""

    def __init__(self, session: aiohttp.ClientSession, base: str, gate: Gate) -> None:
        self.session, self.base, self.gate = session, base, gate

    async def __call__(self, task: Task) -> Outcome:
        url = f"{self.base}/things/{task.payload}"
        # No request without a turn: the gate knows how fast this lane may be asked.
        async with self.gate.turn(task.lane), self.session.get(url) as answer:
            if answer.status == 503:
                return Outcome(Reason.UNAVAILABLE)  # Tried again, a little later.
            if answer.status == 404:
                return Outcome(Reason.NOT_FOUND)  # An answer, too: settled for good.
            thing = await answer.json()
        links = [Task(f"thing:{n}", task.lane, n) for n in thing["links"]]
        return Outcome(Reason.OK, items=[thing["name"]], found=links)


class ListSink:
    """The sink. A real one has the results on disk when `write` returns."""

    def __init__(self) -> None:
        self.names: dict[str, str] = {}

    async def write(self, batch: Sequence[tuple[Task, Sequence[Any]]]) -> None:
        for task, items in batch:
            self.names[task.key] = items[0]


async def crawl_things(base: str) -> tuple[ListSink, Control]:
    clock, sink, control = SystemClock(), ListSink(), Control(workers=8)
    gate = Gate(clock, Manners(rate=200.0, concurrency=4))
    async with aiohttp.ClientSession() as session:
        handler = FetchThing(session, base, gate)
        store = MemoryStore()
        parts = Parts(Feed(FirstThing(), store), store, handler, sink, gate, clock)
        await crawl(parts, Limits(retry=RetryPolicy(attempts=5, base=0.05)), control)
    return sink, control


# ── The toy API: thing n links to 2n, 2n+1 and 1; every 7th is gone, some fail at first. ──


def toy_api() -> web.Application:
    asked: set[int] = set()

    async def thing(request: web.Request) -> web.Response:
        number = int(request.match_info["number"])
        if number % 7 == 0 or number > THINGS:
            raise web.HTTPNotFound
        if number % 5 == 0 and number not in asked:
            asked.add(number)
            raise web.HTTPServiceUnavailable
        return web.json_response(
            {"name": f"thing {number}", "links": [2 * number, 2 * number + 1, 1]}
        )

    app = web.Application()
    app.router.add_get("/things/{number:[0-9]+}", thing)
    return app


async def main() -> None:
    runner = web.AppRunner(toy_api())
    await runner.setup()
    try:
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        port = runner.addresses[0][1]
        sink, control = await crawl_things(f"http://127.0.0.1:{port}")
    finally:
        await runner.cleanup()
    print(f"{len(sink.names)} things stored, for example: {sorted(sink.names.values())[:3]}")
    for reason, count in control.figures.tally.most_common():
        print(f"{count:4} tries came to {reason}")


if __name__ == "__main__":
    asyncio.run(main())
